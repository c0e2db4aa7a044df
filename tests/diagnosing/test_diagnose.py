"""`aide.diagnose` looks at the runs that `simulate` makes, and counts right."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.scripted import ScriptedScheme
from support import toys
from support.hard_posteriors import annealed_logistic, logistic_regression

import aide
from aide._core.versions import ask
from aide.engine.programs.programs import QUICK_OPTIONS, compile_quickly
from aide.kernels.kernel import AbstractKernel
from aide.problems import LocalLevelModel
from aide.problems.distributions import Normal

KEY = jax.random.key(5)
WALK = aide.kernels.RandomWalk(0.9)
LEVEL = LocalLevelModel([0.5, -0.3, 1.2, 0.4], 0.8, 1.0, 0.3, 1.0, 0.9)
WEIGHTED = {
    "ais": aide.ais(toys.PRIOR, toys.log_joint, kernel=WALK, num_temperatures=3),
    "tempered": aide.tempered_smc(
        toys.PRIOR,
        toys.log_joint,
        kernel=[WALK, aide.kernels.RandomWalk(0.4)],
        num_particles=4,
        num_temperatures=3,
        resampler=aide.smc.EssBelow(0.8),
    ),
    "filter": aide.ParticleFilter(LEVEL.state_space(), 3),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", WEIGHTED)
def test_the_runs_are_those_of_simulate(name):
    algorithm = WEIGHTED[name]
    with compile_quickly():
        found = aide.diagnose(KEY, algorithm, num_runs=6)
    simulate = jax.jit(lambda key: algorithm.simulate(key), compiler_options=QUICK_OPTIONS)
    for run in range(6):
        value, log_xi = simulate(jax.random.fold_in(KEY, run))
        expected = algorithm.log_joint(value) - log_xi
        assert found.log_evidence is not None
        np.testing.assert_allclose(found.log_evidence[run], expected, rtol=0, atol=1e-10)
    assert len(found.steps) == (4 if name == "filter" else 3)
    assert found.steps[-1].step == len(found.steps) - 1
    assert (found.steps[-1].acceptance is None) == (name == "filter")
    assert (found.steps[-1].num_ancestors is None) == (name == "ais")


def flip(key, log_density, x):
    """A kernel that moves one entry by chance, and proposes nothing."""
    return jnp.where(jax.random.bernoulli(key), x, -x)


PAIR = {"x": jnp.array([0.3, -0.2]), "z": jnp.array([0, 1])}
log_pair = lambda s: -jnp.sum(s["x"] ** 2) + 0.7 * jnp.sum(s["z"]) * s["x"][0]
log_vector = lambda x: -jnp.sum(x**2)
KERNELS = {
    "hmc": (aide.kernels.Hmc(0.9, 3), log_vector, PAIR["x"], 1),
    "function": (aide.kernels.Kernel(flip, reversible=True), log_vector, PAIR["x"], 1),
    "cycle": (aide.kernels.Cycle(aide.kernels.Repeat(WALK, 3), WALK), log_vector, PAIR["x"], 2),
    "entries": (
        aide.kernels.Cycle(
            aide.kernels.OnEntry("z", aide.kernels.GibbsSites([0, 1], 2)),
            aide.kernels.OnEntry("x", WALK),
        ),
        log_pair,
        PAIR,
        2,
    ),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", KERNELS)
def test_an_observed_step_is_the_step(name):
    kernel, log_density, x, num_parts = KERNELS[name]
    shares = []
    for seed in range(5):
        key = jax.random.key(seed)
        y, share = ask(AbstractKernel, kernel, "observe_step", key, log_density, x)
        expected = kernel.step(key, log_density, x)
        jax.tree.map(np.testing.assert_array_equal, y, expected)
        assert share.shape == (num_parts,)
        shares.append(share)
        if num_parts == 1:
            assert float(share[0]) == float(np.any(np.asarray(y) != np.asarray(x)))
    assert 0.0 < np.mean(shares) <= 1.0


def test_repeated_steps_are_counted_one_by_one():
    """A third of the steps accepted is a third, though nearly every triple moves."""
    chain = aide.mcmc(
        Normal(0.0, 1.0),
        Normal(0.0, 1.0).log_prob,
        kernel=aide.kernels.Repeat(aide.kernels.RandomWalk(6.0), 10),
        num_steps=1,
    )
    (step,) = aide.diagnose(KEY, chain, num_runs=500).steps
    assert 0.18 < (step.acceptance or 0.0) < 0.25  # 2/pi atan(2/6) = 0.205


def test_ancestors_are_counted():
    scripted = aide.smc.EveryStep(ScriptedScheme(np.array([0, 0, 1])))
    path: Any = {"kernel": WALK, "num_temperatures": 4, "resampler": scripted}
    algorithm = aide.tempered_smc(toys.PRIOR, toys.log_joint, num_particles=3, **path)
    with compile_quickly():
        found = aide.diagnose(KEY, algorithm, num_runs=2)
    assert [step.num_ancestors for step in found.steps] == [3.0, 2.0, 1.0, 1.0]
    assert any("From step 2 on all particles descend from one ancestor" in n for n in found.notes)


def test_a_jump_is_relative_to_the_spread():
    """Independent draws jump by 1, whatever the scale; tiny steps by nearly 0."""
    target = Normal(np.array([0.0, 5.0]), np.array([0.01, 100.0]))
    jumps = []
    for kernel in (aide.kernels.Independence(target), aide.kernels.RandomWalk([1e-4, 1.0])):
        chain = aide.mcmc(target, target.log_prob, kernel=kernel, num_steps=2)
        with compile_quickly():
            jumps.append(aide.diagnose(KEY, chain, num_runs=2000).steps[-1].jump)
    assert jumps[0] == pytest.approx(1.0, abs=0.1)
    assert jumps[1] == pytest.approx(0.5e-4, rel=0.1)


@pytest.mark.full
def test_a_kernel_too_bold_for_the_cold_end_is_flagged_and_a_good_one_is_not():
    problem = logistic_regression(60, 11, 0.8, 3)
    bold, good = (
        aide.diagnose(KEY, annealed_logistic(kernel, 50, 12, problem), num_runs=10)
        for kernel in (aide.kernels.Hmc(0.6, 6), aide.kernels.Hmc(0.2, 12))
    )
    assert any("of its proposals at temperatures" in note for note in bold.notes)
    assert bold.verdict == "undecided"
    assert good.notes == ()


@pytest.mark.full
@pytest.mark.parametrize(
    ("step_size", "num_leapfrog", "flagged"), [(0.25, 12, True), (0.08, 30, False)]
)
def test_the_setting_a_new_user_chose_is_flagged(step_size, num_leapfrog, flagged):
    """61 dimensions, 208 data, 1,000 particles, 60 temperatures: plausible, and wrong."""
    problem = logistic_regression(208, 60, 0.8, 1)
    kernel = aide.kernels.Hmc(step_size, num_leapfrog)
    found = aide.diagnose(KEY, annealed_logistic(kernel, 1000, 60, problem), num_runs=4)
    assert any("of its proposals at temperatures" in note for note in found.notes) == flagged
    assert bool(found.notes) == flagged


def test_what_has_no_steps_is_refused():
    with pytest.raises(TypeError, match="has no steps to look at: aide.diagnose is for sir"):
        aide.diagnose(KEY, aide.Tractable.of(toys.PRIOR))
    with pytest.raises(ValueError, match="num_runs must be an integer of at least 2"):
        aide.diagnose(KEY, WEIGHTED["ais"], num_runs=1)


def test_nan_is_an_error():
    broken = aide.sir(toys.PRIOR, lambda x: jnp.log(x), num_particles=2)
    with pytest.raises(ValueError, match="log evidence of .* is NaN in .* of 20 runs"):
        aide.diagnose(KEY, broken, num_runs=20)
