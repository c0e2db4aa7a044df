"""Unadjusted Langevin, overdamped and underdamped: no accept step, so neither is ever exact."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from aide._core.jax_compat import is_traced
from aide._core.numerics import as_log, as_parameter, ravel_reals
from aide._core.random import derive_keys, standard_normal
from aide._core.types import Key, LogDensity, LogProb, Parameter, Value
from aide._core.validate import check_positive, check_size
from aide.kernels.coordinates import Metric, as_metric
from aide.kernels.hamiltonian import leap, value_and_slope_of
from aide.kernels.kernel import AbstractKernel
from aide.kernels.metropolis import log_standard_normal
from aide.kernels.retrace import Recorded, Retraced


class AbstractLangevin(AbstractKernel):
    r"""$y = x + \frac{h^2}{2} d_i(x) + h z$ with one of several drifts, drawn at random.

    The record of a step is $v = (x - y)/h$; the drift that was used is summed out:
    $k(y \mid x) = \frac1B\sum_i N(y; x + \frac{h^2}{2} d_i(x), h^2)$. Going back, the kernel
    guesses that the chain has arrived and the step is small, when it is nearly reversible:
    $x \sim N(y + \frac{h^2}{2}\nabla\log\gamma(y), h^2)$. For a Gaussian $\gamma$ that guess is
    the exact reversal in equilibrium with the *shadow*
    $\gamma\,e^{\frac{h^2}{8}|\nabla\log\gamma|^2}$ of the density, whatever the step size.
    """

    num_branches: ClassVar[int] = 1
    step_size: eqx.AbstractVar[Parameter]

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """One step with a drift drawn at random; `log_density` is not left invariant."""
        return self.record(key, log_density, x).value

    def record(self, key: Key, log_density: LogDensity, x: Value) -> Recorded:
        """Make a step; the record is $v = (x - y)/h$."""
        key_drift, key_noise = derive_keys(key, 2)
        flat, unravel = ravel_reals(x)
        drifts = self._drifts(log_density, x)
        drift = drifts[jax.random.randint(key_drift, (), 0, drifts.shape[0])]
        z = standard_normal(key_noise, flat.shape, flat.dtype)
        y = flat + 0.5 * self.step_size**2 * drift + self.step_size * z
        return Recorded(unravel(y), unravel((flat - y) / self.step_size), jnp.zeros((), int))

    def reverse_noise(self, key: Key, log_density: LogDensity, y: Value) -> Value:
        r"""$v \sim N(\frac h2 \nabla\log\gamma(y), I)$."""
        flat, unravel = ravel_reals(y)
        z = standard_normal(key, flat.shape, flat.dtype)
        return self.reverse_noise_from(unravel(z), log_density, y)

    def reverse_noise_from(self, z: Value, log_density: LogDensity, y: Value) -> Value:
        r"""$\frac h2 \nabla\log\gamma(y) + z$, with the normals $z$ given."""
        flat, unravel = ravel_pytree(z)
        return unravel(jnp.asarray(0.5 * self.step_size * _gradient(log_density, y) + flat))

    def retrace(
        self, log_density: LogDensity, y: Value, log_density_y: LogProb, noise: Value
    ) -> Retraced:
        """Undo a step: $x = y + h v$. Densities are those of $v$, so that $h$ cancels."""
        flat, unravel = ravel_reals(y)
        v, _ = ravel_pytree(noise)
        x = unravel(flat + self.step_size * v)
        z = -v - 0.5 * self.step_size * self._drifts(log_density, x)
        forward = jax.nn.logsumexp(jax.vmap(log_standard_normal)(z)) - jnp.log(z.shape[0])
        own = log_standard_normal(v - 0.5 * self.step_size * _gradient(log_density, y))
        there = as_log(log_density(x))
        return Retraced(
            jax.tree.map(lambda leaf: leaf[None], x), there[None], forward[None], own[None]
        )

    def shadow_step(self, size: int) -> Array:
        """$h$ for each number of a state: it says how far the shadow is from the density.

        Learned meta-inference calls this method of kernels that have one.
        """
        return jnp.broadcast_to(jnp.asarray(self.step_size, float), (size,))

    def _drifts(self, log_density: LogDensity, x: Value) -> Array:
        return _gradient(log_density, x)[None]


class Ula(AbstractLangevin):
    r"""Unadjusted Langevin: $y = x + \frac{h^2}{2}\nabla\log\gamma(x) + h z$.

    Args:
        step_size: $h$: a number, or numbers that broadcast against the flattened state.

    Example:
        >>> chain = aide.mcmc(
        ...     Normal(0.0, 2.0), lambda x: -x * x, kernel=aide.kernels.Ula(0.1), num_steps=20
        ... )
        >>> aide.refine(jax.random.key(0), chain, num_pilots=200).label  # Ula has no reversal
        'MCMC, 20 steps, refined'
    """

    step_size: Parameter = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        check_positive("step_size", self.step_size)


class Sgld(AbstractLangevin):
    r"""Stochastic-gradient Langevin (Welling & Teh 2011) with a fixed step size.

    Args:
        step_size: $h$, as in `Ula`.
        gradient: `gradient(i, x)` estimates $\nabla\log\gamma(x)$ from mini-batch `i`; it has the
            structure of `x`.
        num_batches: Mini-batches `i` = 0, 1, …, one of which is drawn uniformly at every step.

    Example:
        >>> data = np.array([0.9, 1.1, 1.3, 0.7])
        >>> gradient = lambda i, mean: 4 * (jnp.asarray(data)[i] - mean) - mean  # from one datum
        >>> kernel = aide.kernels.Sgld(0.1, gradient, num_batches=4)
        >>> log_joint = lambda mean: -0.5 * mean**2 - 0.5 * jnp.sum((data - mean) ** 2)
        >>> kernel.step(jax.random.key(0), log_joint, jnp.zeros(())).shape
        ()
    """

    step_size: Parameter = eqx.field(converter=as_parameter)
    gradient: Callable[[Array, Value], Value]
    num_batches: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_size("num_batches", self.num_batches)

    def _drifts(self, log_density: LogDensity, x: Value) -> Array:
        batches = jnp.arange(self.num_batches)
        return jax.vmap(lambda i: ravel_pytree(self.gradient(i, x))[0])(batches)


def _gradient(log_density: LogDensity, x: Value) -> Array:
    flat, unravel = ravel_reals(x)
    return value_and_slope_of(log_density, unravel, None)(flat)[1]


class Phase(NamedTuple):
    """A position, and a momentum of the same structure."""

    position: Value
    momentum: Value


class PhaseDensity(eqx.Module):
    r"""$\gamma(x)\,N(p; 0, I)$, whose gradient underdamped Langevin follows."""

    log_density: LogDensity

    def __call__(self, state: Phase) -> LogProb:
        r"""$\log\gamma(x) + \log N(p; 0, I)$."""
        return as_log(self.log_density(state.position)) + log_standard_normal(state.momentum)


class UnderdampedLangevin(AbstractKernel):
    r"""Refresh the momentum in part, $p' = \eta p + \sqrt{1-\eta^2}\,\epsilon$; one leapfrog step.

    States are `Phase`s, with the density $\gamma(x)\,N(p; 0, I)$ (`PhaseDensity`). The record of a
    step is the part of both normals that the rotation by $\eta$ does not keep,
    $v = \sqrt{1-\eta^2}\,p - \eta\,\epsilon$: then $p = \eta p' + \sqrt{1-\eta^2}\,v$ and
    $\epsilon = \sqrt{1-\eta^2}\,p' - \eta v$, the Jacobian is 1, and in equilibrium
    $v \sim N(0, I)$, which is the kernel's own guess.

    Args:
        step_size: $h$ of the leapfrog step: a number, or numbers that broadcast against the
            flattened position.
        persistence: $\eta$ between 0 and 1, the share of the momentum that a step keeps;
            $e^{-\text{friction}\cdot h}$ in continuous time.
        metric: As in `Hmc`.

    Example:
        >>> aide.annealed_langevin(
        ...     Normal(0.0, 2.0),
        ...     lambda x: -x * x,
        ...     kernel=aide.kernels.UnderdampedLangevin(0.3, persistence=0.8),
        ...     num_steps=10,
        ... )
        AnnealedLangevin: annealed Langevin, 10 steps
    """

    num_branches: ClassVar[int] = 1
    step_size: Parameter = eqx.field(converter=as_parameter)
    persistence: Parameter = eqx.field(converter=as_parameter)
    metric: Metric | None = eqx.field(converter=as_metric, default=None)

    def __check_init__(self) -> None:
        check_positive("step_size", self.step_size)
        if is_traced(self.persistence):
            return
        if not np.all((np.asarray(self.persistence) >= 0) & (np.asarray(self.persistence) < 1)):
            raise ValueError(
                f"persistence must be at least 0 and below 1, got {self.persistence}: 1 would "
                "never refresh the momentum."
            )

    def step(self, key: Key, log_density: LogDensity, x: Phase) -> Phase:
        """One step; `log_density` is not left invariant."""
        return self.record(key, log_density, x).value

    def record(self, key: Key, log_density: LogDensity, x: Phase) -> Recorded:
        """Make a step; the record is $v$, which the refreshment of the momentum does not keep."""
        momentum, unravel = ravel_reals(x.momentum)
        noise = standard_normal(key, momentum.shape, momentum.dtype)
        keep, renew = self._rotation()
        ahead = self._leap(1.0, log_density, x.position, keep * momentum + renew * noise)
        return Recorded(ahead, unravel(renew * momentum - keep * noise), jnp.zeros((), int))

    def reverse_noise(self, key: Key, log_density: LogDensity, y: Phase) -> Value:
        r"""$v \sim N(0, I)$."""
        flat, unravel = ravel_reals(y.momentum)
        return unravel(standard_normal(key, flat.shape, flat.dtype))

    def reverse_noise_from(self, z: Value, log_density: LogDensity, y: Phase) -> Value:
        """Return the normals $z$."""
        return z

    def retrace(
        self, log_density: LogDensity, y: Phase, log_density_y: LogProb, noise: Value
    ) -> Retraced:
        """Undo the leapfrog step and rotate back."""
        v, unravel = ravel_pytree(noise)
        position, refreshed = self._leap(-1.0, log_density, y.position, ravel_reals(y.momentum)[0])
        middle, _ = ravel_pytree(refreshed)
        keep, renew = self._rotation()
        before = Phase(position, unravel(keep * middle + renew * v))
        forward = log_standard_normal(renew * middle - keep * v)
        there = as_log(log_density(before))
        return Retraced(
            jax.tree.map(lambda leaf: leaf[None], before),
            there[None],
            forward[None],
            log_standard_normal(v)[None],
        )

    def _rotation(self) -> tuple[Array, Array]:
        r"""$\eta$ and $\sqrt{1-\eta^2}$."""
        keep = jnp.asarray(self.persistence)
        return keep, jnp.sqrt(1.0 - keep**2)

    @staticmethod
    def ended(numbers: "UnderdampedLangevin") -> "UnderdampedLangevin":
        r"""Stacked kernels with one more step that draws a new momentum: $h = 0$, $\eta = 0$."""
        longer = jax.tree.map(lambda a: jnp.concatenate([jnp.asarray(a), a[-1:]]), numbers)
        settings = lambda kernel: (kernel.step_size, kernel.persistence)
        none = tuple(jnp.asarray(a).at[-1].set(0.0) for a in settings(longer))
        return eqx.tree_at(settings, longer, none)

    def _leap(
        self, sign: float, log_density: LogDensity, position: Value, momentum: Array
    ) -> Phase:
        flat, unravel = ravel_reals(position)
        still = jax.tree.map(jnp.zeros_like, position)
        evaluate = value_and_slope_of(lambda x: log_density(Phase(x, still)), unravel, self.metric)
        size = sign * jnp.asarray(self.step_size)
        ahead, middle, _, slope = leap(
            evaluate, size, self.metric, flat, momentum, evaluate(flat)[1]
        )
        return Phase(
            unravel(ahead.astype(flat.dtype)),
            unravel((middle + 0.5 * size * slope).astype(flat.dtype)),
        )
