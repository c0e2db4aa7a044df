r"""The no-U-turn sampler with a fixed step size and metric."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from aide._core.numerics import as_parameter
from aide._core.types import LogDensity, Parameter, Value
from aide._core.validate import check_positive, check_size
from aide.kernels.doubling import CRITERIA, TreeRules
from aide.kernels.leapfrog import DIVERGED, climb_of, leap
from aide.kernels.metric import Metric, as_metric
from aide.kernels.noise import NormalNoise, ravel_reals
from aide.kernels.orbit import AbstractOrbitKernel, Point

DEEPEST = 12
"""Trees of 4,096 points; other libraries stop at 10 unless told."""


class Nuts(NormalNoise, AbstractOrbitKernel):
    r"""The no-U-turn sampler, as Stan, PyMC, NumPyro and BlackJAX run it after warm-up.

    The multinomial version (Betancourt 2017): a momentum $v \sim N(0, I)$, leapfrog steps
    (`aide.kernels.leapfrog`) to the left and to the right in a doubling tree until it turns back,
    and a point of the tree by biased progressive sampling. The law is in `aide.kernels.doubling`;
    directions of doubling are summed out, so that a step is the momentum and one draw among the
    points of its trajectory.

    A tree whose energies differ by more than `divergence` nats is not entered. Others compare with
    the energy of the first point alone, which depends on where the tree was entered and is
    not reversible; the two differ on trajectories with such errors only.

    Step size and metric are those of a finished warm-up. A run that adapts them on its way is no
    Markov chain, and its $\xi$ is out of reach.

    Args:
        step_size: A number, or numbers that broadcast against the flattened state.
        max_depth: Doublings at most: 10 in other libraries unless told. Memory and time of
            meta-inference double with each, so take one more than the deepest tree that is seen:
            the chain is the same if trees end before.
        metric: The inverse mass matrix: variances of the flattened state, or a matrix; the identity
            unless stated.
        criterion: When a tree turns back: `stan` (also PyMC) or `numpyro` (also BlackJAX).
        divergence: Nats.
    """

    mirrors: ClassVar[bool] = True

    step_size: Parameter = eqx.field(converter=as_parameter)
    max_depth: int = eqx.field(static=True)
    metric: Metric | None = eqx.field(converter=as_metric, default=None)
    criterion: str = eqx.field(static=True, default="stan")
    divergence: Parameter = eqx.field(converter=as_parameter, default=DIVERGED)

    def __check_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_positive("divergence", self.divergence)
        check_size("max_depth", self.max_depth)
        if self.max_depth > DEEPEST:
            raise ValueError(
                f"max_depth must be at most {DEEPEST}, got {self.max_depth}: a tree would have "
                f"2^{self.max_depth} points. A larger step size or a metric makes trees shallower."
            )
        if self.criterion not in CRITERIA:
            raise ValueError(
                f"criterion must be one of {', '.join(CRITERIA)}, got {self.criterion!r}."
            )

    @property
    def rules(self) -> TreeRules:
        """Those stated."""
        return TreeRules(self.max_depth, self.criterion, self.divergence)

    def momentum(self, x: Value, v: Value) -> Array:
        """The momentum itself, flat."""
        return ravel_pytree(v)[0]

    def begin(self, log_density: LogDensity, x: Value, v: Value) -> Point:
        """The first point, with the slope of the density there."""
        position, unravel = ravel_reals(x)
        value, slope = climb_of(log_density, unravel, self.metric)(position)
        momentum = ravel_pytree(v)[0].astype(position.dtype)
        return Point(unravel(position), unravel(momentum), value, slope, jnp.asarray(False))

    def advance(self, log_density: LogDensity, point: Point, sign: Array) -> Point:
        """One leapfrog step.

        Where the momentum halfway raises the energy by more than 1,000 nats, a log density that is
        NaN is put down to the divergence.
        """
        position, unravel = ravel_reals(point.value)
        climb, size = climb_of(log_density, unravel, self.metric), sign * self.step_size
        start = (position, ravel_pytree(point.noise)[0], point.slope)
        ahead, middle, value, slope = leap(climb, size, self.metric, *start)
        momentum = middle + 0.5 * size * slope
        rise = 0.5 * (jnp.sum(middle**2) - jnp.sum(start[1] ** 2))
        ahead, momentum = (a.astype(position.dtype) for a in (ahead, momentum))
        diverging = ~(rise <= DIVERGED)
        return Point(unravel(ahead), unravel(momentum), value, slope, diverging)
