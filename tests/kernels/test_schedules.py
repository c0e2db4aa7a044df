"""Kernels that change from step to step: what may differ, and that step t runs kernel t."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aide
from aide.engine.programs import programs
from aide.kernels.kernel import AbstractInvariantKernel
from aide.problems.distributions import Normal

HMC, WALK = aide.kernels.Hmc, aide.kernels.RandomWalk
START = Normal(np.zeros(2), 1.5)


def log_joint(x):
    return START.log_prob(x) - jnp.sum((x - 0.5) ** 2)


class Doubling(AbstractInvariantKernel):
    """x to 2x + shift, with its inverse: the output tells the order of the shifts."""

    shift: float
    inverse: bool = eqx.field(static=True, default=False)

    def step(self, key, log_density, x):
        return (x - self.shift) / 2 if self.inverse else 2 * x + self.shift

    def reversal(self):
        return Doubling(self.shift, not self.inverse)


class Origin:
    def sample(self, key):
        return jnp.zeros(())

    def log_density(self, x):
        return -0.01 * (x - 2.0) ** 2


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("build", ["ais", "mcmc"])
def test_step_t_runs_kernel_t_there_and_back(build):
    kernels = [Doubling(shift) for shift in (1.0, 10.0, 100.0)]
    flat = lambda x: 0.01 * x
    if build == "ais":
        algorithm = aide.ais(Origin(), flat, kernel=kernels, num_temperatures=4)
    else:
        algorithm = aide.mcmc(Origin(), flat, kernel=kernels, num_steps=3)
        short = algorithm.with_steps(2)
        assert float(short.simulate(jax.random.key(0)).value) == 2 * 1.0 + 10.0
        assert getattr(algorithm.with_budget(0.7), "num_steps", None) == 2
        assert algorithm.with_budget(2.0) is None
    out, log_xi = algorithm.simulate(jax.random.key(0))
    assert float(out) == 4 * 1.0 + 2 * 10.0 + 100.0
    # Nothing is random: the way back visits the same states and finds the same weights.
    again = algorithm.regenerate(jax.random.key(1), out)
    np.testing.assert_allclose(again, log_xi, rtol=0, atol=1e-12)


def test_numbers_may_differ_and_integers_that_do_not_stay_compiled_in():
    same = aide.kernels.stack_kernels([HMC(0.1, 5), HMC(0.2, 5)])
    assert same.num_kernels == 2
    assert same.common.num_leapfrog == 5
    assert same.at(1) == HMC(0.2, 5)
    other = aide.kernels.stack_kernels([HMC(0.1, 5), HMC(0.2, 7)])
    assert other.common.num_leapfrog is None
    assert other.pick(slice(1, 2)).at(0) == HMC(0.2, 7)
    cycles = [aide.kernels.Cycle(WALK(s), aide.kernels.Repeat(HMC(s, 2), 3)) for s in (0.1, 0.2)]
    assert aide.kernels.stack_kernels(cycles).at(0) == cycles[0]


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        ([], "at least one kernel"),
        ([WALK(0.1), HMC(0.1, 2)], "number 2 is not like the first: Hmc"),
        ([HMC(0.1, 2), HMC(0.1, 2), HMC(0.1, 2, [1.0, 2.0])], "number 3 is not like the first"),
        ([WALK(0.1), WALK([0.1, 0.2])], r"the same shapes, got \(\) and \(2,\)"),
        (
            [aide.kernels.Repeat(WALK(0.1), 2), aide.kernels.Repeat(WALK(0.1), 3)],
            "number 2 is not like the first",
        ),
        (
            [aide.kernels.Kernel(lambda key, density, x: x, reversible=True)] * 2,
            "Kernel has no numbers that could differ",
        ),
    ],
)
def test_what_cannot_be_stacked_is_named(kernels, message):
    with pytest.raises(ValueError, match=message):
        aide.kernels.stack_kernels(kernels)


def test_there_is_a_kernel_for_every_move():
    path = {"kernel": [WALK(0.1), WALK(0.2)], "num_temperatures": 4}
    with pytest.raises(ValueError, match="2 kernels.*3 moves: one at every temperature but the la"):
        aide.ais(START, log_joint, **path)
    with pytest.raises(ValueError, match="2 kernels.*3 moves: give one per step"):
        aide.mcmc(START, log_joint, kernel=path["kernel"], num_steps=3)
    ulas: Any = [aide.kernels.Ula(0.1), aide.kernels.Ula(0.2)]
    with pytest.raises(ValueError, match="Ula has no reversal"):
        aide.ais(START, log_joint, kernel=ulas, num_temperatures=3)
    with pytest.raises(ValueError, match="Ula has no reversal"):
        aide.mcmc(START, log_joint, kernel=ulas, num_steps=2).canonical()


def annealed(kernels):
    return aide.ais(START, log_joint, kernel=kernels, num_temperatures=len(kernels) + 1)


def test_other_numbers_compile_nothing():
    first, second = (
        annealed([HMC(size, num, np.diag([size, 1.0])) for num in lengths])
        for size, lengths in ((0.2, (1, 3, 2)), (0.4, (4, 1, 5)))
    )
    target = aide.Tractable.of(START)
    with programs.compile_quickly():
        aide.draw(jax.random.key(0), first, target, num_gold=4, num_target=4)
        before = programs.num_executables()
        aide.draw(jax.random.key(0), second, target, num_gold=4, num_target=4)
    assert programs.num_executables() == before


def test_versions_keep_the_kernels():
    kernels = [WALK(scale) for scale in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)]
    path: Any = annealed(kernels)
    (steps,) = path.moves
    uses: Any = [(kernel.scale, density.temperature) for kernel, density in path.kernels()]
    np.testing.assert_allclose(uses, [(0.1, 1 / 7), (0.4, 4 / 7), (0.6, 6 / 7)])
    short = steps.shortened(3)
    assert short.inputs[2].scale.tolist() == [0.1, 0.3, 0.5]
    assert short.inputs[0] == pytest.approx(np.array([1, 3, 5]) / 7)
    assert steps.first(2).inputs[2].scale.tolist() == [0.1, 0.2]
    moved: Any = path.with_start(Normal(np.ones(2), 3.0))
    assert moved.moves[0].inputs[2].scale.tolist() == [k.scale for k in kernels]
    assert len(path.prefixes()) == 6


@pytest.mark.full
def test_refined_paths_and_chains_take_schedules():
    """Learned meta-inference retraces step t with kernel t."""
    kernels = [HMC(0.5, 2, [1.0, 0.5]), HMC(0.4, 3, [0.8, 0.6]), HMC(0.3, 1, [0.7, 0.7])]
    effort = {"num_reverse": 5, "num_pilots": 200, "num_components": 2, "progress": False}
    with programs.compile_quickly():
        for algorithm in (
            annealed(kernels),
            aide.mcmc(START, log_joint, kernel=kernels, num_steps=3),
        ):
            refined = aide.refine(jax.random.key(1), algorithm, **effort)
            result = aide.estimate(
                jax.random.key(2), refined, refined, num_gold=200, num_target=200
            )
            assert -0.2 < result.value < 0.5
