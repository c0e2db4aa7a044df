r"""SMC and AIS with learned meta-inference: an exact identity, enumeration, laws, controls.

Models are stated by hand, badly; any model must obey the laws.
"""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.annealing import STATES, enumerate_smc
from reference.resampling import LAWS, TWINS
from support import Z_MAX, laws, toys, z_score
from support.hard_posteriors import logistic_regression
from support.learned import (
    ANNEALED_KERNELS,
    learned_chain,
    made_up_means,
    refined,
    smc_on_nine,
    stack,
    tempered,
)
from support.registry import LINE, Entry

import aide
from aide._core.types import TARGET
from aide.engine.programs.programs import QUICK_OPTIONS as QUICK
from aide.engine.programs.programs import compile_quickly
from aide.engine.runners.choose import run_pairs
from aide.learned.fitting.reverse_fit import ReverseFit
from aide.learned.models.joint import JointTable
from aide.learned.models.mean_weights import MeanWeights, interpolate
from aide.learned.refined_smc import RefinedSmc
from aide.problems.distributions import Normal

FEW = 8_000
"""Enough for the quick cases."""
RESAMPLERS = [None, aide.smc.EssBelow(0.9, aide.smc.Systematic()), aide.smc.Never()]


def cases(values, quick):
    return [pytest.param(*v, marks=() if v in quick else pytest.mark.full) for v in values]


SAME = cases(list(itertools.product(ANNEALED_KERNELS, (1, 2, 3))), set())


@pytest.mark.parametrize(("kernel", "num_particles"), SAME)
@pytest.mark.full
def test_with_the_kernel_alone_it_is_canonical(kernel, num_particles, x64):
    r"""One reverse particle, one island, $w_0 = 1$: the same outputs and $\xi$, run by run."""
    keys = jax.vmap(jax.random.key)(jnp.arange(20))
    for resampler in RESAMPLERS[: num_particles if kernel == "walk" else 1]:
        smc = tempered(kernel, num_particles, resampler)
        same = refined(smc, 1, 1, share=1.0)
        one, two = (
            jax.jit(jax.vmap(algorithm.simulate), compiler_options=QUICK)(keys)
            for algorithm in (smc, same)
        )
        np.testing.assert_allclose(one.value, two.value, rtol=0, atol=1e-12)
        np.testing.assert_allclose(one.log_xi, two.log_xi, rtol=0, atol=1e-9)


def scores(algorithm, num_runs=20_000):
    return laws.scores_of(Entry(algorithm, *LINE, num_runs=num_runs))


SIZES = [(1, 1, 1), (1, 2, 1), (1, 3, 1), (2, 1, 1), (2, 2, 3), (2, 3, 1), (3, 1, 3), (3, 3, 1)]
QUICK_SIZES = ("walk", 2, 3, 1)
CASES = cases([(kernel, *sizes) for kernel in ANNEALED_KERNELS for sizes in SIZES], {QUICK_SIZES})


@pytest.mark.parametrize(("kernel", "num_particles", "num_reverse", "num_islands"), CASES)
@pytest.mark.full
def test_laws(kernel, num_particles, num_reverse, num_islands):
    algorithm = refined(tempered(kernel, num_particles), num_reverse, num_islands)
    quick = (kernel, num_particles, num_reverse, num_islands) == QUICK_SIZES
    found = scores(algorithm, FEW) if quick else scores(algorithm)
    broken = {k: z for k, z in found.items() if not abs(z) < Z_MAX}
    assert not broken


@pytest.mark.full
@pytest.mark.parametrize("resampler", RESAMPLERS[1:])
def test_laws_with_other_resamplers(resampler):
    algorithm = refined(tempered("walk", 3, resampler), 2, 2)
    broken = {k: z for k, z in scores(algorithm).items() if not abs(z) < Z_MAX}
    assert not broken


class ForgetsTheRun(RefinedSmc):
    """The mistake: no island holds the run that really took place."""

    def _log_others(self, key, recorder, layout, states, others, is_true):
        no = jnp.zeros_like(is_true)
        return super()._log_others(key, recorder, layout, states, others, no)


class LeavesOutTheOthers(RefinedSmc):
    r"""The mistake: $f$ is taken for the law of the surviving path."""

    def _log_others(self, key, recorder, layout, states, others, is_true):
        return jnp.zeros(())


@pytest.mark.full
@pytest.mark.parametrize("wrong", [ForgetsTheRun, LeavesOutTheOthers])
def test_mistakes_are_rejected(wrong):
    """One island and several reverse particles show them best."""
    right = refined(tempered("walk", 2), 3, 1)
    fields = [getattr(right, field.name) for field in dataclasses.fields(right)]
    num_runs = FEW if wrong is LeavesOutTheOthers else 20_000
    found = {law for law, z in scores(wrong(*fields), num_runs).items() if abs(z) > 2 * Z_MAX}
    assert found


@pytest.mark.full
def test_a_wrong_model_density_is_rejected():
    right = refined(tempered("walk", 1), 1, 1)
    where = lambda algorithm: algorithm.fit.models[0].log_scale_v
    wrong = eqx.tree_at(where, right, np.zeros_like(where(right)))
    assert abs(scores(wrong)["1, mass"]) > 2 * Z_MAX


@pytest.mark.parametrize(("num_reverse", "num_islands"), cases([(1, 1), (2, 3)], set()))
def test_tempered_smc_on_nine_states(num_reverse, num_islands, x64):
    r"""$E_r[\xi] = q(x)$ and $E_q[1\{x\}/\xi] = 1$, with $q$ enumerated over all traces."""
    smc, rng = smc_on_nine(), np.random.default_rng(0)
    model = lambda: JointTable.from_table(
        np.array([0.3, 0.3, 0.4]),
        rng.dirichlet(np.full(27, 0.5)).reshape(9, 3),
        np.zeros(2),
        np.full(2, 2.0),
        0.2,
    )
    blank = np.zeros(1)
    models = tuple(stack(model()) for _ in range(2))
    fit = ReverseFit(models, np.zeros(1, np.int32), blank, blank, blank, {}, made_up_means(2))
    algorithm = RefinedSmc(smc, fit, num_reverse, num_islands)
    sites = (0, 1)
    traces = enumerate_smc(0.4, LAWS["multinomial"], TWINS["multinomial"], sites, sites[::-1])
    q = np.bincount(traces.last.ravel(), weights=traces.q.ravel(), minlength=9)
    keys = jax.vmap(jax.random.key)(jnp.arange(20_000))
    draws = jax.jit(jax.vmap(algorithm.simulate), compiler_options=QUICK)(keys)
    number = np.asarray(draws.value @ jnp.array([3, 1]))
    inverse = np.exp(-np.asarray(draws.log_xi))
    regenerate = jax.jit(jax.vmap(algorithm.regenerate, (0, None)), compiler_options=QUICK)
    for i, state in enumerate(jnp.asarray(STATES, jnp.int32)):
        assert abs(z_score((number == i) * 1.0 - q[i])) < Z_MAX
        assert abs(z_score((number == i) * inverse - 1.0)) < Z_MAX
        assert abs(z_score(np.exp(np.asarray(regenerate(keys, state))) - q[i])) < Z_MAX


def test_knots_are_joined_as_jax_does(x64):
    rng = np.random.default_rng(1)
    knots, values = np.sort(rng.normal(size=12)), rng.normal(size=12)
    points = np.concatenate([knots, rng.uniform(knots[0], knots[-1], 100)])
    theirs = np.interp(points, knots, values)
    own = interpolate(*map(jnp.asarray, (points, knots, values)))
    np.testing.assert_allclose(own, theirs, rtol=0, atol=1e-14)


def test_mean_weights_are_learned():
    """Alone, the mean is the weight itself; among many it hardly depends on it."""
    rng = np.random.default_rng(0)
    own = rng.normal(0.0, 2.0, (4000, 2))
    alone = MeanWeights.learn(own, own)
    many = MeanWeights.learn(own, np.log(np.exp(own) / 1000 + 1.3))
    pick = lambda means: jax.tree.map(lambda a: a[1], means)
    points = jnp.array([-9.0, -1.0, 0.5, 8.0])
    np.testing.assert_allclose(pick(alone)(points), points, atol=0.5)
    np.testing.assert_allclose(pick(many)(points[:3]), np.log(1.3), atol=0.05)


@pytest.mark.full
def test_refining_tightens_and_keeps_the_outputs():
    """A coarse schedule and two particles; the fit is reused and stored."""
    smc = tempered("walk", 2)
    gold = aide.Tractable.of(Normal(0.3, 1.5))
    key = jax.random.key(1)
    with compile_quickly():
        tight = aide.refine(key, smc, num_pilots=1000, num_components=2, num_reverse=40)
        assert tight.num_islands == 20
        assert tight.label.endswith("refined")
        results = [
            aide.estimate(
                jax.random.key(2), gold, algorithm, num_gold=400, num_target=400, keep_values=True
            )
            for algorithm in (smc, tight)
        ]
    one, two = (result.draws.target.values for result in results)
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-12)
    loose, tighter = (result.looseness.target for result in results)
    assert loose is not None
    assert tighter is not None
    assert tighter.value < 0.3 * loose.value
    assert results[1].value < results[0].value
    again = aide.refine(key, smc, fit=tight.fit, num_reverse=5, num_islands=1)
    assert again.fit is tight.fit


@pytest.mark.full
def test_powers_serve_a_run_that_lags_behind():
    """Coarse AIS from a prior: states early on are far from their densities, and no Gaussians."""
    prior, log_joint = logistic_regression(100, 7, 0.5, 1)
    kernel = aide.kernels.Mala(0.25)
    plain = aide.ais(prior, log_joint, kernel=kernel, num_temperatures=16)
    refined = aide.refine(jax.random.key(0), plain, num_reverse=50, num_pilots=4096)
    scores = refined.fit.held_out
    assert scores["power"] > scores["tilted"] + 0.3
    gaps = []
    for algorithm in (refined, plain):
        pairs = run_pairs(jax.random.key(3), algorithm, TARGET, 200)
        gaps.append(pairs.log_xi - pairs.regenerated)
    assert np.mean(gaps[0]) < 0.2
    assert np.mean(gaps[1]) > 10.0


def test_fits_are_stored(tmp_path):
    algorithm = refined(tempered("cycle", 2), 1, 1)
    algorithm.fit.save(tmp_path / "fit.eqx")
    again = aide.learned.load_reverse(tmp_path / "fit.eqx")
    for one, two in zip(jax.tree.leaves(algorithm.fit), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, two)


def test_messages():
    key = jax.random.key(0)
    smc = tempered("walk", 2)
    with pytest.raises(TypeError, match="refine needs a chain built by aide.mcmc, an alg"):
        aide.refine(key, aide.sir(toys.PRIOR, toys.log_joint, num_particles=3))
    opaque = aide.kernels.Kernel(aide.kernels.RandomWalk(0.3).step, reversible=True)
    parts = {"num_particles": 2, "num_temperatures": 3}
    with pytest.raises(TypeError, match="keeps no record"):
        aide.refine(key, aide.tempered_smc(toys.PRIOR, toys.log_joint, kernel=opaque, **parts))
    fit = refined(smc, 1, 1).fit
    four = aide.tempered_smc(
        toys.PRIOR,
        toys.log_joint,
        kernel=ANNEALED_KERNELS["walk"],
        num_particles=2,
        num_temperatures=4,
    )
    with pytest.raises(ValueError, match="this fit is for 2 moves of an SMC algorithm, got an S"):
        aide.refine(key, four, fit=fit)
    with pytest.raises(ValueError, match="models for 1 kernels"):
        aide.refine(key, tempered("cycle", 2), fit=fit)
    with pytest.raises(ValueError, match="num_reverse"):
        aide.refine(key, smc, fit=fit, num_reverse=0)
    with pytest.raises(ValueError, match="log_z = 0.5 is not for this algorithm: SMC estimates it"):
        aide.refine(key, smc, fit=fit, log_z=0.5)  # pyrefly: ignore
    alone = learned_chain("walk", 1).fit
    with pytest.raises(ValueError, match="moves of a chain, got an SMC algorithm with 2 moves"):
        aide.refine(key, smc, fit=alone)
