r"""Gradient-based kernels: leapfrog steps, HMC, and MALA as HMC with one leapfrog step.

With a metric $L L^\top$, one leapfrog step of size $\epsilon$ is
$v \leftarrow v + \frac\epsilon2 L^\top\nabla\log\gamma(x)$, $x \leftarrow x + \epsilon L v$, and
the first line again; a step of size $-\epsilon$ undoes it. Each line is a shear: the Jacobian is 1.
NUTS and underdamped Langevin make the same steps.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Int

from aide._core.numerics import as_parameter, ravel_reals
from aide._core.types import LogDensity, LogProb, Parameter, Value
from aide._core.validate import check_positive, check_scalar, check_size
from aide.kernels.coordinates import Metric, as_metric, pulled, stretched
from aide.kernels.metropolis import AbstractMetropolis, NormalNoise, ProposedMove

ValueAndSlope = Callable[[Array], tuple[Array, Array]]
r"""A flat position to $\log\gamma(x)$ and the slope $L^\top\nabla\log\gamma(x)$."""

DIVERGED = 1000.0
"""Nats by which the energy must grow before a trajectory counts as diverged, as in Stan.

On a diverged trajectory a log density that is NaN is a rejection, not an error."""


def value_and_slope_of(
    log_density: LogDensity, unravel: Callable[[Array], Value], metric: Metric | None
) -> ValueAndSlope:
    """The log density of flat positions with its slope."""

    def log_density_of(flat: Array) -> Array:
        value = check_scalar("log_density", log_density(unravel(flat)))
        return jnp.asarray(value, flat.dtype)

    def evaluate(flat: Array) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(log_density_of)(flat)
        return value, pulled(metric, gradient)

    return evaluate


class Leap(NamedTuple):
    """A leapfrog step without its last half step of the momentum."""

    position: Array
    half_momentum: Array
    log_density: Array
    slope: Array


def leap(
    evaluate: ValueAndSlope,
    step_size: Parameter,
    metric: Metric | None,
    position: Array,
    momentum: Array,
    slope: Array,
) -> Leap:
    """Make one step from a position with its slope, and a momentum."""
    middle = momentum + 0.5 * step_size * slope
    ahead = position + step_size * stretched(metric, middle)
    return Leap(ahead, middle, *evaluate(ahead))


def _as_count(count: ArrayLike) -> Any:
    """Convert NumPy integers to Python's, which are compiled in; arrays are traced."""
    return int(count) if isinstance(count, np.integer) else count


class _Carry(NamedTuple):
    position: Array
    momentum: Array
    value: Array
    slope: Array
    broken: Array
    diverged: Array
    first_value: Array
    first_energy: Array


class AbstractHamiltonian(NormalNoise, AbstractMetropolis):
    r"""Leapfrog steps: $v$ is the momentum, $\varphi$ follows the dynamics and flips it.

    With $L L^\top$ the metric (the inverse mass matrix), steps are those of $v \sim N(0, I)$ in the
    coordinates $L^{-1}x$.

    A log density that is NaN is an error, except where the trajectory has diverged (its energy grew
    by more than 1,000 nats, a proposal never accepted): there the step is rejected.
    """

    step_size: eqx.AbstractVar[Parameter]

    @property
    @abstractmethod
    def preconditioner(self) -> Metric | None:
        """The metric; `None` is the identity."""

    @property
    @abstractmethod
    def length(self) -> int | Int[Array, ""]:
        """Leapfrog steps per transition."""

    def involution(self, log_density: LogDensity, x: Value, v: Value) -> tuple[Value, Value]:
        """Follow the dynamics for `length` leapfrog steps, then flip the momentum."""
        y, w, _, _ = self._follow(log_density, x, v)
        return y, w

    def propose(
        self, log_density: LogDensity, x: Value, v: Value, here: LogProb | None = None
    ) -> ProposedMove:
        """`involution`, with the log densities that leapfrog steps evaluate with gradients."""
        if type(self).involution is not AbstractHamiltonian.involution:  # a subclass has its own
            return super().propose(log_density, x, v, here)
        return self._follow(log_density, x, v)

    def _follow(self, log_density: LogDensity, x: Value, v: Value) -> ProposedMove:
        position, unravel = ravel_reals(x)
        momentum, _ = ravel_pytree(v)

        metric = self.preconditioner
        evaluate = value_and_slope_of(log_density, unravel, metric)

        def leapfrog(index: Any, carry: _Carry) -> _Carry:
            # Step 0 has size 0: it evaluates the start, by the code that later steps run.
            begins = jnp.asarray(index == 0)
            size = jnp.where(begins, 0.0, self.step_size)
            start = (carry.position, carry.momentum, carry.slope)
            ahead, middle, value, slope = leap(evaluate, size, metric, *start)
            # A step that is too long raises the energy before the position overflows.
            energy = 0.5 * jnp.sum(middle**2) - carry.value
            far = carry.diverged | ~(energy - carry.first_energy < DIVERGED)
            diverged = far & ~begins
            # Stop where the density is NaN: `step` then accepts the point and the NaN is seen.
            # An overflow, or a density of 0 without a gradient, is a rejection instead, and so is
            # a NaN (such as inf - inf) on a trajectory that diverges.
            lost = jnp.isnan(value) & jnp.all(jnp.isfinite(ahead)) & ~diverged & ~begins
            broken = carry.broken | lost
            first = 0.5 * jnp.sum(momentum**2) - value
            return _Carry(
                jnp.where(carry.broken, carry.position, ahead).astype(position.dtype),
                jnp.where(broken, 0.0, middle + 0.5 * size * slope).astype(position.dtype),
                jnp.where(broken, carry.value, value),
                jnp.where(broken, 0.0, slope).astype(position.dtype),
                broken,
                diverged & ~carry.broken,
                jnp.where(begins, value, carry.first_value),
                jnp.where(begins, first, carry.first_energy),
            )

        no, zero = jnp.asarray(False), jnp.zeros((), position.dtype)
        carry = _Carry(position, momentum, zero, jnp.zeros_like(position), no, no, zero, zero)
        if isinstance(self.length, int) and self.length == 1:
            end = leapfrog(1, leapfrog(0, carry))
        else:
            # A traced number of steps makes a loop whose length is known only at run time.
            length = self.length
            length = length if isinstance(length, int) else jnp.asarray(length).astype(int)
            end = jax.lax.fori_loop(0, length + 1, leapfrog, carry)
        value = end.first_value
        momentum = jnp.where(end.diverged & jnp.isnan(end.value), jnp.nan, end.momentum)
        there = jnp.where(end.broken, jnp.nan, end.value)
        return ProposedMove(unravel(end.position), unravel(-momentum), value, there)


class Hmc(AbstractHamiltonian):
    r"""Hamiltonian Monte Carlo: $v$ is the momentum, $\varphi$ leapfrog steps and a flip.

    Args:
        step_size: A number, or numbers that broadcast against the flattened state (a diagonal
            preconditioner).
        num_leapfrog: Leapfrog steps per transition.
        metric: The inverse mass matrix, an estimate of the covariance: variances of the flattened
            state, or a matrix; by default the identity. `step_size` is then in units of the
            spread.

    Example:
        >>> kernel = aide.kernels.Hmc(step_size=0.2, num_leapfrog=8, metric=[1.0, 9.0])
        >>> log_density = lambda x: -0.5 * jnp.sum(x**2 / jnp.array([1.0, 9.0]))
        >>> kernel.step(jax.random.key(0), log_density, jnp.zeros(2)).shape
        (2,)
    """

    step_size: Parameter = eqx.field(converter=as_parameter)
    num_leapfrog: int | Int[Array, ""] = eqx.field(converter=_as_count)
    metric: Metric | None = eqx.field(converter=as_metric, default=None)

    def __check_init__(self) -> None:
        check_positive("step_size", self.step_size)
        if not isinstance(self.num_leapfrog, jax.Array):
            check_size("num_leapfrog", self.num_leapfrog)

    @property
    def preconditioner(self) -> Metric | None:
        """`metric`."""
        return self.metric

    @property
    def length(self) -> int | Int[Array, ""]:
        """`num_leapfrog`."""
        return self.num_leapfrog


class Mala(AbstractHamiltonian):
    r"""The Metropolis-adjusted Langevin algorithm: $y = x + \frac{h^2}{2}\nabla\log\gamma + h v$.

    With a metric $L L^\top$, $y = x + \frac{h^2}{2} L L^\top\nabla\log\gamma + h L v$.

    Args:
        step_size: $h$; one leapfrog step of that size is the same transition.
        metric: As in `Hmc`.

    Example:
        >>> kernel = aide.kernels.Mala(0.3)
        >>> aide.mcmc(Normal(0.0, 2.0), lambda x: -x * x, kernel=kernel, num_steps=10)
        MarkovChain: MCMC, 10 steps
    """

    step_size: Parameter = eqx.field(converter=as_parameter)
    metric: Metric | None = eqx.field(converter=as_metric, default=None)

    def __check_init__(self) -> None:
        check_positive("step_size", self.step_size)

    @property
    def preconditioner(self) -> Metric | None:
        """`metric`."""
        return self.metric

    @property
    def length(self) -> int:
        """One step."""
        return 1
