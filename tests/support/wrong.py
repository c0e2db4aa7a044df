"""Algorithms that are wrong on purpose, one common mistake each. The laws must reject all of them.

Every mistake is a function (or class) from a right algorithm to a wrong one. Those that the
published code of the method made come first: the retained particle's weight taken at the wrong
state, a Gibbs sweep that is not reversed.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import aide
from aide.algorithms.annealed import AnnealingMove, AnnealingStep
from aide.algorithms.particle_filter import Extend
from aide.smc.moves import Rejuvenate
from aide.smc.resampling import AbstractScheme
from aide.smc.steps import Steps


def retained_weight(right):
    """The retained particle is weighed with x_t where x_{t-1} belongs."""
    return WrongRetainedFilter(right.model, right.num_particles, right.proposal, right.resampler)


class WrongRetainedFilter(aide.ParticleFilter):
    """See `retained_weight`."""

    def _steps(self):
        move_at = lambda inputs: WrongRetainedExtend(self.model, self.proposal, *inputs)
        return Steps(move_at, super()._steps().inputs)


class WrongRetainedExtend(Extend):
    """`forward` is right; `log_weight`, which `regenerate` alone calls from outside, is not."""

    def forward(self, key, x):
        """As it should be."""
        return Extend(self.model, self.proposal, self.y, self.t).forward(key, x)

    def log_weight(self, x, after):
        """The mistake."""
        return super().log_weight(after, after)


def sweep_not_reversed(right):
    """The Gibbs sweep of an annealing path claims to be its own reversal."""
    (steps,) = right.moves
    sites = WrongGibbsSites(steps.move_at.kernel.sites, steps.move_at.kernel.num_values)
    return _with_step(right, dataclasses.replace(steps.move_at, kernel=sites))


class WrongGibbsSites(aide.kernels.GibbsSites):
    """See `sweep_not_reversed`."""

    def reversal(self):
        """The mistake."""
        return self


def temperature(right):
    """The kernel of an annealing path runs at another temperature backward than forward."""
    step = right.moves[0].move_at
    return _with_step(right, WrongTemperatureStep(step.log_start, step.log_end, step.kernel))


class WrongTemperatureStep(AnnealingStep):
    """See `temperature`."""

    def __call__(self, temperatures):
        """The move between two neighbouring temperatures."""
        return WrongTemperatureMove(self, *temperatures)


class WrongTemperatureMove(AnnealingMove):
    """See `temperature`."""

    def backward(self, key, y):
        """The mistake: the density at `after` where the one at `before` belongs."""
        density = aide.algorithms.Tempered(self.step.log_start, self.step.log_end, self.after)
        x, _ = Rejuvenate(self.step.kernel, density).backward(key, y)
        return x, self.log_weight(y)


def one_temperature_ahead(right):
    """The kernel of an annealing path moves at the temperature it is about to reweight to."""
    step = right.moves[0].move_at
    return _with_step(right, WrongOrderStep(step.log_start, step.log_end, step.kernel))


class WrongOrderStep(AnnealingStep):
    """See `one_temperature_ahead`."""

    def __call__(self, temperatures):
        """The move between two neighbouring temperatures."""
        return WrongOrderMove(self, *temperatures)


class WrongOrderMove(AnnealingMove):
    """See `one_temperature_ahead`."""

    @property
    def log_density(self):
        """The mistake: the density at `after` where the one at `before` belongs."""
        return aide.algorithms.Tempered(self.step.log_start, self.step.log_end, self.after)


def unconditional_resampling(right):
    """The conditional run resamples as if nothing were retained, and pins the slot."""
    scheme = WrongTwin(right.resampler.scheme)
    return dataclasses.replace(right, resampler=aide.smc.EveryStep(scheme))


class WrongTwin(AbstractScheme):
    """See `unconditional_resampling`."""

    right: AbstractScheme

    def ancestors(self, key, weights):
        """As it should be."""
        return self.right.ancestors(key, weights)

    def conditional(self, key, weights, retained):
        """The mistake."""
        return self.right.ancestors(key, weights), retained


class _Mistake(eqx.Module):
    """A right algorithm, of which subclasses tamper with one operation."""

    right: Any
    log_z: float = eqx.field(static=True, default=0.0)

    def simulate(self, key):
        """As it should be."""
        return self.right.simulate(key)

    def regenerate(self, key, value):
        """As it should be."""
        return self.right.regenerate(key, value)

    def _shifted(self, key, shift):
        value, log_xi = self.right.simulate(key)
        return aide.Draw(value, log_xi + shift)


class WrongSum(_Mistake):
    """Meta-inference forgets log P: the sum of the weights instead of their mean."""

    def regenerate(self, key, value):
        """The mistake."""
        return self.right.regenerate(key, value) - jnp.log(self.right.num_particles)


class WrongSumTwice(WrongSum):
    """Both operations forget log P; they agree with each other."""

    def simulate(self, key):
        """The mistake."""
        return self._shifted(key, -jnp.log(self.right.num_particles))


class WrongConstant(_Mistake):
    """A density that is off by a constant and claims to be normalised."""

    def simulate(self, key):
        """The mistake."""
        return self._shifted(key, 0.3)

    def regenerate(self, key, value):
        """The mistake."""
        return self.right.regenerate(key, value) + 0.3


class WrongUnconditional(_Mistake):
    """Meta-inference runs a fresh SMC and drops the retained particle."""

    def regenerate(self, key, value):
        """The mistake."""
        other, log_xi = self.right.simulate(key)
        log_evidence = self.right.log_joint(other) - log_xi
        return self.right.log_joint(value) - log_evidence


class WrongExtraParticle(_Mistake):
    """The retained particle is added to P others instead of replacing one."""

    def regenerate(self, key, value):
        """The mistake."""
        more = dataclasses.replace(self.right, num_particles=self.right.num_particles + 1)
        return more.regenerate(key, value)


class WrongPolicy(_Mistake):
    """Meta-inference never resamples where the algorithm does now and then."""

    def regenerate(self, key, value):
        """The mistake."""
        never = dataclasses.replace(self.right, resampler=aide.smc.Never())
        return never.regenerate(key, value)


class WrongKernelOrder(_Mistake):
    """Meta-inference runs the kernels of a schedule in the wrong order."""

    def regenerate(self, key, value):
        """The mistake."""
        (steps,) = self.right.moves
        *temperatures, numbers = steps.inputs
        flipped = jax.tree.map(lambda stack: stack[::-1], numbers)
        moves = (Steps(steps.move_at, (*temperatures, flipped)),)
        return dataclasses.replace(self.right, moves=moves).regenerate(key, value)


class WrongSign(_Mistake):
    """Both operations multiply by the evidence estimate where they should divide."""

    def simulate(self, key):
        """The mistake."""
        value, log_xi = self.right.simulate(key)
        return aide.Draw(value, 2 * self.right.log_joint(value) - log_xi)

    def regenerate(self, key, value):
        """The mistake."""
        return 2 * self.right.log_joint(value) - self.right.regenerate(key, value)


class WrongCycle(eqx.Module):
    """A cycle of kernels whose reversal keeps the forward order."""

    right: aide.kernels.Cycle

    def step(self, key, log_density, x):
        """As it should be."""
        return self.right.step(key, log_density, x)

    def reversal(self):
        """The mistake."""
        return self


class WrongMetric(aide.kernels.Hmc):
    """Half of the trajectory knows the metric, the other half does not."""

    def involution(self, log_density, x, v):
        """The mistake."""
        plain = aide.kernels.Hmc(self.step_size, self.num_leapfrog)
        y, w = super().involution(log_density, x, v)
        return plain.involution(log_density, y, jax.tree.map(jnp.negative, w))


class WrongDrift(aide.kernels.RandomWalk):
    """A random walk that drifts upwards and accepts as if it did not."""

    def noise(self, key, x):
        """The mistake: noise with mean 0.5 whose density is taken for symmetric."""
        return super().noise(key, x) + 0.5


def _with_step(algorithm, step):
    (steps,) = algorithm.moves
    return dataclasses.replace(algorithm, moves=(Steps(step, steps.inputs),))
