r"""Sweeps and their reversal, with hyperparameters frozen and free.

Frozen: transition frequencies between the 15 partitions of four data are those of the reference's
matrices. Free: with the likelihood $L$ of the data and $x$ from the prior,
$E[L(x)\{f(Kx) - f(x)\}] = 0$ (invariance) and $E[L(x)\{g(x) f(Kx) - f(x) g(\tilde Kx)\}] = 0$
($\tilde K$ is the reversal of $K$).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import dpmm as reference
from scipy.special import gammaln
from support import Z_MAX, z_score

from aide.engine.programs.programs import CPU_OPTIONS
from aide.problems import DirichletMixture
from aide.problems.dpmm import updates
from aide.problems.dpmm.clusters import canonical_labels, gather_clusters
from aide.problems.dpmm.move import rejuvenate
from aide.problems.dpmm.updates import Setting, make_state

Y = np.array([0.2, 1.4, 0.5, -0.7])
HYPER = {"alpha": 0.9, "m": 0.2, "r": 0.4, "nu": 2.3, "s": 0.6}
STATES = reference.partitions(4)
NUM = 75_000


def run_sweeps(seed, value, frozen, num_sweeps, reverse):
    """The shipped sweeps from values with a leading lane axis; returns values."""
    labels = value["labels"].T
    keys = jax.random.split(jax.random.key(seed), labels.shape[1])
    setting = Setting(jnp.asarray(Y), jnp.int32(4), num_sweeps, jnp.asarray(False), frozen)
    hyper = updates.from_value(value)
    state = make_state(labels, hyper, gather_clusters(labels, setting.data, 4))
    state = rejuvenate(keys, state, setting, reverse)
    labels = canonical_labels(state.labels, 4).T
    return {"labels": labels, **updates.to_value(state.hyper)}


compiled = jax.jit(run_sweeps, static_argnames="reverse", compiler_options=CPU_OPTIONS)


def matrix_z(matrix, num_sweeps, reverse):
    """The largest z over all transitions between partitions, hyperparameters frozen."""
    num = NUM // 15
    value = {name: jnp.full(NUM, number) for name, number in HYPER.items()}
    value["labels"] = jnp.asarray(np.repeat(STATES, num, axis=0), jnp.int32)
    after = compiled(7, value, jnp.asarray(True), jnp.int32(num_sweeps), reverse=reverse)
    assert all(np.array_equal(after[name], value[name]) for name in HYPER)
    index = {z: k for k, z in enumerate(STATES)}
    found = [index[z] for z in map(tuple, np.asarray(after["labels"]).tolist())]
    counts = np.stack([np.bincount(row, minlength=15) for row in np.reshape(found, (15, num))])
    variance = num * matrix * (1 - matrix)
    enough = variance > 25.0
    return np.max(np.abs(counts - num * matrix)[enough] / np.sqrt(variance[enough]))


@pytest.mark.full
@pytest.mark.parametrize("reverse", [False, True])
def test_frozen_sweeps_follow_the_matrices(x64, reverse):
    orders = (range(4), reversed(range(4)))
    ahead, back = (reference.sweep_matrix(Y, HYPER, order) for order in orders)
    right, wrong = (back, ahead) if reverse else (ahead, back)
    assert matrix_z(right, 1, reverse) < Z_MAX
    assert matrix_z(right @ right, 2, reverse) < Z_MAX
    assert matrix_z(wrong, 1, reverse) > 2 * Z_MAX


@functools.lru_cache(maxsize=1)
def prior_draws():
    """Values from the prior, and the likelihood of the data at each."""
    keys = jax.random.split(jax.random.key(11), NUM)
    value = updates.to_value(jax.vmap(updates.sample_prior, out_axes=-1)(keys))
    alpha, everyone = np.asarray(value["alpha"]), np.arange(NUM)
    rng = np.random.default_rng(2)
    labels, number = np.zeros((4, NUM), np.int32), np.ones(NUM, np.int32)
    log_crp = np.zeros(NUM)
    for i in range(1, 4):
        # A newcomer sits down with a random earlier guest, or at a new table.
        guest = (rng.random(NUM) * (alpha + i)).astype(int)
        labels[i] = np.where(guest < i, labels[np.minimum(guest, i - 1), everyone], number)
        number = np.maximum(number, labels[i] + 1)
        log_crp -= np.log(alpha + i)
    sizes = np.stack([(labels == k).sum(axis=0) for k in range(4)])
    log_crp += (number - 1) * np.log(alpha) + gammaln(np.maximum(sizes, 1)).sum(axis=0)
    value["labels"] = jnp.asarray(labels.T)
    model = DirichletMixture(Y)
    log_joint = np.asarray(jax.vmap(lambda v: model.log_joint(v))(value))
    parts = {name: np.asarray(value[name]) for name in HYPER}
    log_prior = -sum(parts[name] for name in HYPER if name != "m") - 0.5 * parts["m"] ** 2
    likelihood = np.exp(log_joint - log_prior + 0.5 * np.log(2 * np.pi) - log_crp)
    return value, likelihood / likelihood.mean()


def features(value):
    """Bounded functions of values, of every part and of parts together."""
    squash = {name: np.asarray(value[name]) / (1 + np.abs(value[name])) for name in HYPER}
    labels = np.asarray(value["labels"])
    first, last = 1.0 * (labels[:, 0] == labels[:, 1]), 1.0 * (labels[:, 2] == labels[:, 3])
    return [*squash.values(), first, last, first * squash["s"], last * squash["m"]]


def invariance_z(seed, sweep, reverse):
    """The largest z of invariance over all features."""
    value, likelihood = prior_draws()
    after = sweep(seed, value, jnp.asarray(False), jnp.int32(1), reverse=reverse)
    pairs = zip(features(value), features(after), strict=True)
    return max(abs(z_score(likelihood * (new - old))) for old, new in pairs)


@pytest.mark.full
def test_free_sweeps_leave_the_posterior_invariant(x64):
    assert invariance_z(3, compiled, False) < Z_MAX
    assert invariance_z(4, compiled, True) < Z_MAX


@pytest.mark.full
def test_wrong_likelihood_is_noticed(x64, monkeypatch):
    """Without the factor of the centres in the acceptance of hyperparameters."""
    right = updates.log_likelihood
    without = lambda hyper, parts, number: right(
        hyper, parts._replace(centre=number * jnp.log(hyper.r)), number
    )
    monkeypatch.setattr(updates, "log_likelihood", without)
    # A function of its own, so that the compiled sweeps of the other tests are not used.
    wrong = jax.jit(
        lambda seed, value, frozen, num_sweeps, reverse: run_sweeps(
            seed, value, frozen, num_sweeps, reverse
        ),
        static_argnames="reverse",
        compiler_options=CPU_OPTIONS,
    )
    assert invariance_z(3, wrong, False) > 2 * Z_MAX


def reversal_z(back):
    """The largest z of the law of reversal over all pairs of features."""
    value, likelihood = prior_draws()
    free, once = jnp.asarray(False), jnp.int32(1)
    ahead = features(compiled(5, value, free, once, reverse=False))
    behind = features(compiled(6, value, free, once, reverse=back))
    here = features(value)
    products = [
        likelihood * (here[g] * ahead[f] - here[f] * behind[g])
        for f in range(len(here))
        for g in range(len(here))
        if f != g
    ]
    return max(abs(z_score(product)) for product in products)


@pytest.mark.full
def test_reversal_with_free_hyperparameters(x64):
    """The same sweep in place of the reversed one must be noticed."""
    assert reversal_z(True) < Z_MAX
    assert reversal_z(False) > 2 * Z_MAX
