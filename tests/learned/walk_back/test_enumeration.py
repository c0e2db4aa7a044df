r"""Law 1, exactly: $\sum_u r(u; x)\,\xi(u, x) = q(x)$ over all traces of the walk back.

A chain on the integers with tables as reverse models (`reference.finite_chain`), two steps, 1, 2
and 3 particles, resampling at every step or by ESS. Records and ancestors are scripted; weights,
bookkeeping and $\xi$ are the library's own (`step_back`), and so is the kernel's `retrace`.
"""

import itertools
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.finite_chain import (
    LOWEST,
    POSTERIOR,
    START,
    UP,
    Reverse,
    enumerate_traces,
    output_law,
    position,
    undo,
)
from reference.resampling import LAWS, ancestor_vectors
from reference.scripted import ScriptedScheme

import aide
from aide._core.numerics import FlatLayout
from aide.engine.programs.programs import QUICK_OPTIONS as QUICK
from aide.learned.models.joint import Proposed, log_sum_exp, redirect
from aide.learned.records.transitions import FlatKernel, StepRecord
from aide.learned.reverse_particles import begin, step_back

pytestmark = pytest.mark.usefixtures("x64")
RNG = np.random.default_rng(5)
GOOD = tuple(Reverse(0.6, RNG.uniform(0.01, 0.1, (9, 2, 2))) for _ in range(2))
BAD = tuple(Reverse(k, RNG.uniform(0.0, 3.0, (9, 2, 2)) ** 4 + 1e-3) for k in (1e-3, 5.0))
MODELS = {"good": GOOD, "bad": BAD}
FRACTION = 0.8
BLANK = StepRecord(np.zeros(1), np.zeros(()), np.zeros(1), np.zeros((), int))
UNDO = np.vectorize(undo, otypes=[int, float])


def look_up(table, x):
    return jnp.asarray(table)[(x - LOWEST).astype(int)]


def log_posterior(x):
    return jnp.log(look_up(POSTERIOR, x[0]))


class Hop(aide.kernels.AbstractMetropolis):
    """The kernel of the reference: one state, noise -1 or 1."""

    def noise(self, key, x):
        return jnp.where(jax.random.bernoulli(key, look_up(UP, x)), 1.0, -1.0)

    def log_noise(self, x, v):
        return jnp.log(jnp.where(v[0] > 0, look_up(UP, x[0]), 1 - look_up(UP, x[0])))

    def involution(self, log_density, x, v):
        return x + v, -v


class Table(eqx.Module):
    """A reverse model by table that proposes what the script says."""

    kernel: Any
    table: Any
    script: Any = None
    tilts: ClassVar[bool] = False

    def score(self, y, log_density):
        extra = jnp.log(jnp.sum(look_up(self.table, y[0]), axis=(1, 2)))
        scores = jnp.stack([jnp.log(self.kernel) + log_density, extra])
        return scores, log_sum_exp(scores)

    def propose(self, uniform, white, scores, y):
        noise, branch = 2.0 * self.script[:, 0] - 1.0, self.script[:, 1]
        return Proposed(jnp.zeros(len(branch), bool), noise[None], branch)

    def log_joint(self, scores, y, noise, branch, possible, log_own):
        up = (noise[0] > 0).astype(int)
        extra = look_up(self.table, y[0])[jnp.arange(len(up)), up].T
        served = redirect(jnp.arange(2)[:, None], possible)
        extra = jnp.sum(jnp.where(served == branch, extra, 0.0), axis=0)
        return jnp.logaddexp(scores[0] + log_own, jnp.log(extra))


def estimate(x, tables, policy, trace, slots=None, kept=None):
    """The shipped log xi of one scripted trace; free, or around the path in `slots`."""
    first, ancestors, second = trace
    kernel = FlatKernel(Hop(), log_posterior, FlatLayout(jnp.zeros(1)))
    models = [Table(m.kernel, m.table, s) for m, s in zip(tables, (second, first), strict=True)]
    key, y = jax.random.key(0), jnp.full(1, x, float)
    population = begin(key, y, log_posterior(y), models[1], len(ancestors), jnp.asarray(False))
    if slots is not None:
        population = population._replace(retained=slots[0])
    resampler = policy(ScriptedScheme(ancestors, 0 if slots is None else slots[1]))
    start = lambda s, density: (
        models[0].score(s, density)[0],
        jnp.log(look_up(START, s[0])),
        density,
    )
    middle = lambda s, density: (*models[0].score(s, density), density)
    # All particles start at x: before the first step back there is nothing to resample.
    for t, before, rule in ((1, middle, aide.smc.Never()), (0, start, resampler)):
        now = BLANK if kept is None else jax.tree.map(lambda a, t=t: a[t], kept)
        population, _ = step_back(key, kernel, models[t], before, rule, population, now)
    return population.log_estimate()


def every_step(law):
    return aide.smc.EveryStep, LAWS[law]


def by_ess(law):
    def policy(weights):
        low = weights.sum() ** 2 < FRACTION * weights.size * (weights**2).sum()
        own = (ancestor_vectors(weights.size) == np.arange(weights.size)).all(axis=1)
        return LAWS[law](weights / weights.sum()) if low else own.astype(float)

    return lambda scheme: aide.smc.EssBelow(FRACTION, scheme), policy


def paths(x, traces):
    """The path that ends in every slot [N, P, step 1 and 2], and its chance q(u, x)."""
    lineage = traces.lineage()
    rows = np.arange(len(lineage))[:, None]
    records = [traces.second, traces.first]  # of step 1 and of step 2
    chosen = [part[rows, lineage[:, :, 1 - t]] for t, part in enumerate(records)]
    middle, late = UNDO(x, chosen[1][..., 0], chosen[1][..., 1])
    first, early = UNDO(middle, chosen[0][..., 0], chosen[0][..., 1])
    before = np.stack([first, middle], axis=2)
    records = np.stack(chosen, axis=2)
    with np.errstate(divide="ignore"):
        density = np.log(POSTERIOR[position(before)])
    kept = StepRecord(before[..., None] * 1.0, density, 2.0 * records[..., :1] - 1, records[..., 1])
    return kept, START[position(first)] * early * late


CORE = [
    (every_step, "multinomial", 1, "bad"),
    (by_ess, "systematic", 2, "good"),
]
CASES = [
    pytest.param(*case, marks=() if case in CORE else pytest.mark.full)
    for case in itertools.product(
        (every_step, by_ess), ("multinomial", "systematic"), (1, 2, 3), MODELS
    )
]


@pytest.mark.parametrize(("rule", "scheme", "num", "quality"), CASES)
@pytest.mark.full
def test_every_trace(rule, scheme, num, quality):
    models = MODELS[quality]
    policy, law = rule(scheme)
    normalised = lambda w: law(w / w.sum())
    q = output_law(2)
    run = jax.jit(
        jax.vmap(lambda x, a, b, c: estimate(x, models, policy, (a, b, c)), (None, 0, 0, 0)),
        compiler_options=QUICK,
    )
    for x in (0, 1, 2, -1):
        traces = enumerate_traces(x, models, num, normalised)
        assert abs(traces.probability.sum() - 1) < 1e-12
        xi = np.exp(np.asarray(run(x, traces.first, traces.ancestors, traces.second)))
        assert abs(traces.probability @ xi - q[position(x)]) < 1e-12


@pytest.mark.parametrize("quality", [pytest.param("good", marks=pytest.mark.full), "bad"])
def test_retained_runs_give_the_same_xi(quality):
    """Around the path that ends in any slot; the script holds wrong records in its place."""
    models = MODELS[quality]
    policy, law = every_step("multinomial")
    free = jax.jit(
        jax.vmap(lambda x, a, b, c: estimate(x, models, policy, (a, b, c)), (None, 0, 0, 0)),
        compiler_options=QUICK,
    )
    around = jax.jit(
        jax.vmap(
            lambda x, a, b, c, s, k: estimate(x, models, policy, (a, b, c), s, k),
            (None, 0, 0, 0, 0, 0),
        ),
        compiler_options=QUICK,
    )
    for x in (0, 2):
        traces = enumerate_traces(x, models, 2, lambda w: law(w / w.sum()))
        expected = np.asarray(free(x, traces.first, traces.ancestors, traces.second))
        lineage, (kept, chances) = traces.lineage(), paths(x, traces)
        rows = np.arange(len(lineage))
        for last in range(2):
            path = StepRecord(*(part[:, last] for part in kept))
            slots = lineage[:, last]
            wrong = [traces.first.copy(), traces.second.copy()]
            for t in range(2):
                wrong[t][rows, slots[:, t]] = 1 - wrong[t][rows, slots[:, t]]
            found = np.asarray(around(x, wrong[0], traces.ancestors, wrong[1], slots, path))
            possible = chances[:, last] > 0
            assert possible.sum() > 100
            np.testing.assert_allclose(found[possible], expected[possible], rtol=0, atol=1e-12)


def test_a_wrong_reverse_density_is_seen():
    """The model proposes from one table and claims the density of another."""
    policy, law = every_step("multinomial")
    traces = enumerate_traces(1, GOOD, 2, lambda w: law(w / w.sum()))
    run = jax.jit(
        jax.vmap(lambda a, b, c: estimate(1, BAD, policy, (a, b, c))), compiler_options=QUICK
    )
    xi = np.exp(np.asarray(run(traces.first, traces.ancestors, traces.second)))
    assert abs(traces.probability @ xi - output_law(2)[position(1)]) > 0.01
