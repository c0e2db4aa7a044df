r"""Models that divide the states in two: laws with models made up by hand, storage, learning.

Any division, any stated marginal and any second model must obey laws 1, 2 and 5.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.chain_truth import walk_truth
from scipy import stats
from support import Z_MAX, laws
from support.hard_posteriors import SCALE, log_two_modes, missed_mode, two_modes
from support.learned import CHAIN_KERNELS, learned_chain, stack, wide_model
from support.registry import LINE, Entry

import aide
from aide.engine.programs.programs import compile_quickly
from aide.learned.fitting.crossing import fit_clusters
from aide.learned.models.divided import DividedModel, GaussianClusters

FEW = 8_000


def clusters(mean):
    return GaussianClusters.of(
        np.array([0.4, 0.6]), np.array([[mean], [mean + 0.5]]), np.array([[1.5]])
    )


def divided(seed, model=DividedModel):
    """About half of the states are beyond; the stated marginal is off by up to a factor of 2."""
    rng, kernel = np.random.default_rng(seed), CHAIN_KERNELS["walk"]
    knots, values = np.array([-2.0, -0.5, 1.0]), rng.uniform(-0.7, 0.0, 3)
    halves = (wide_model(kernel, seed), wide_model(kernel, seed + 10))
    numbers = (np.array(0.2), knots, values, np.array(0.3))
    return model(*halves, clusters(0.8), clusters(-0.7), *numbers)


def divided_chain(num_reverse, model=DividedModel):
    chain = learned_chain("walk", num_reverse)
    models = (stack(divided(0, model), divided(1, model)),)
    return dataclasses.replace(chain, fit=dataclasses.replace(chain.fit, models=models))


def scores(algorithm, num_runs=20_000):
    return laws.scores_of(Entry(algorithm, *LINE, num_runs=num_runs))


@pytest.mark.full
@pytest.mark.parametrize("num_reverse", [1, 2, 3])
def test_laws(num_reverse):
    broken = {k: z for k, z in scores(divided_chain(num_reverse)).items() if not abs(z) < Z_MAX}
    assert not broken


class ForgetsTheMarginal(DividedModel):
    """The mistake: the joint law beyond has another marginal than the one that is stated."""

    def log_joint(self, scores, y, *record):  # pyrefly: ignore
        here, there, beyond = self._parts(scores)
        one = self.here.log_joint(here, y, *record)
        return jnp.where(beyond, self.there.log_joint(there + 0.3, y, *record), one)


@pytest.mark.full
def test_another_marginal_than_stated_is_rejected():
    found = scores(divided_chain(1, ForgetsTheMarginal))
    assert abs(found["1, mass"]) > 2 * Z_MAX


def test_the_joint_law_has_the_stated_marginal(x64):
    r"""$\sum_b\int J(y, v, b)\,dv = \hat q(y)$ on both sides of the edge, by quadrature."""
    model, kernel = divided(3), CHAIN_KERNELS["walk"]
    points, width = np.linspace(-3.0, 3.0, 7), 0.05
    y, noise = (
        jnp.asarray(a.reshape(1, -1)) for a in np.meshgrid(points, np.arange(-12.0, 12.0, width))
    )
    num = y.shape[1]
    terms, log_q = model.score(y, jnp.full(num, -1.3))
    beyond = np.asarray(model.coordinate(y)) < model.edge
    assert 0 < beyond.sum() < num
    log_own = -0.5 * noise[0] ** 2 - 0.5 * np.log(2 * np.pi) - np.log(kernel.num_branches)
    total = np.zeros(7)
    for branch in range(kernel.num_branches):
        branches, possible = jnp.full(num, branch, jnp.int32), jnp.ones((2, num), bool)
        joint = model.log_joint(terms, y, noise, branches, possible, log_own)
        total += width * np.exp(np.asarray(joint)).reshape(-1, 7).sum(axis=0)
    np.testing.assert_allclose(total, np.exp(np.asarray(log_q)[:7]), rtol=1e-6)


def test_clusters_are_found():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 2)) + 9.0 * rng.integers(0, 2, 400)[:, None]
    found = fit_clusters(0, points)
    assert len(found.log_peaks) == 2
    one = fit_clusters(0, rng.normal(size=(400, 2)))
    assert len(one.log_peaks) == 1


def test_inputs():
    chain = missed_mode(1.0, 5)
    gold = aide.Tractable.of(two_modes())
    cycle = aide.kernels.Cycle(aide.kernels.RandomWalk(1.0), aide.kernels.RandomWalk(2.0))
    two = dataclasses.replace(chain, kernel=cycle)
    fit = learned_chain("cycle", 1).fit
    with pytest.raises(ValueError, match="2 kernels per step"):
        aide.refine(jax.random.key(0), two.with_steps(3), fit=fit, towards=gold)
    kernel = aide.kernels.RandomWalk(1.0)
    smc = aide.ais(chain.start, chain.log_joint, kernel=kernel, num_temperatures=3)
    with pytest.raises(ValueError, match="towards"):
        aide.refine(jax.random.key(0), smc, towards=gold)  # pyrefly: ignore


@pytest.fixture(scope="module")
def learned():
    """The way back from the left mode, of a chain of 40 steps from the right one."""
    gold, chain = aide.Tractable.of(two_modes()), missed_mode(1.0, 40)
    with compile_quickly():
        key = jax.random.key(1)
        plain = aide.refine(key, chain, num_pilots=1000, num_components=4)
        extended = aide.refine(key, chain, fit=plain.fit, towards=gold)
    return gold, plain, extended


@pytest.mark.full
@pytest.mark.parametrize("seed", [0, 1])
def test_the_bound_comes_down(learned, seed):
    """Within a factor of 1.3 of the truth; without the way back it is several times too high."""
    gold, plain, extended = learned
    log_start = lambda x: stats.norm.logpdf(x, 8.0, 1.0)
    truth = walk_truth([40], log_start, log_two_modes, SCALE, (-30.0, 30.0), 0.02)[40]
    values = {}
    for name, refined in (("plain", plain), ("extended", extended)):
        result = aide.estimate(
            jax.random.key(seed),
            gold,
            refined.with_reverse(1000),
            num_gold=60,
            num_target=60,
            num_meta_target=2,
            keep_values=True,
        )
        at_gold = truth.log_q(np.asarray(result.draws.gold.values))
        missing = at_gold - result.draws.gold.scored(2)
        values[name] = truth.divergence + missing.mean()
    assert values["plain"] > 2 * truth.divergence
    assert values["extended"] < 1.3 * truth.divergence


@pytest.mark.full
def test_a_fit_with_the_way_back_is_stored(learned, tmp_path):
    _, _, extended = learned
    extended.fit.save(tmp_path / "fit.eqx")
    loaded = aide.learned.load_reverse(tmp_path / "fit.eqx")
    assert eqx.tree_equal(loaded, extended.fit)
    assert loaded.notes == extended.fit.notes


@pytest.mark.full
def test_where_nothing_is_missed_the_fit_stays(learned):
    _, plain, _ = learned
    near = aide.Tractable.of(aide.problems.distributions.Normal(8.0, 1.0))
    same = aide.refine(jax.random.key(2), plain.chain, fit=plain.fit, towards=near)
    assert same.fit is plain.fit


class Plane(eqx.Module):
    """Two modes in the first of two coordinates."""

    def sample(self, key):
        keys = jax.random.split(key)
        return jnp.stack([two_modes().sample(keys[0]), jax.random.normal(keys[1])])

    def log_prob(self, x):
        return two_modes().log_prob(x[0]) + stats_normal(x[1])


def stats_normal(x):
    return aide.problems.distributions.Normal(0.0, 1.0).log_prob(x)


@pytest.mark.full
def test_in_two_dimensions():
    """A coordinate that has to find its direction."""
    start = aide.problems.distributions.Normal(np.array([8.0, 0.0]), 1.0)
    kernel = aide.kernels.RandomWalk(SCALE)
    chain = aide.mcmc(start, Plane().log_prob, kernel=kernel, num_steps=40)
    gold, key = aide.Tractable.of(Plane()), jax.random.key(1)
    with compile_quickly():
        plain = aide.refine(key, chain, num_pilots=600, num_components=2, num_reverse=500)
        extended = aide.refine(key, chain, fit=plain.fit, towards=gold, num_reverse=500)
        size = {"num_gold": 30, "num_target": 30}
        before, after = (
            aide.estimate(jax.random.key(2), gold, one, **size) for one in (plain, extended)
        )
    model = extended.fit.models[0]
    assert np.isfinite(model.values).all()
    assert (np.diff(model.knots[0]) > 0).all()
    assert after.value < 0.8 * before.value
    assert after.looseness.target is not None
    assert abs(after.looseness.target.value) < 0.5
