r"""Underdamped Langevin: positions with momenta, no accept step."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from aide._core.normal import standard_normal
from aide._core.numerics import as_log, as_parameter
from aide._core.types import Key, LogDensity, LogProb, Parameter, Value
from aide._core.validate import check_positive
from aide.kernels.kernel import AbstractKernel
from aide.kernels.leapfrog import climb_of, leap
from aide.kernels.metric import Metric, as_metric
from aide.kernels.noise import log_standard_normal, ravel_reals
from aide.kernels.retrace import Recorded, Retraced


class Phase(NamedTuple):
    """A position, and a momentum of the same structure."""

    position: Value
    momentum: Value


class PhaseDensity(eqx.Module):
    r"""$\gamma(x)\,N(p; 0, I)$, of which underdamped Langevin follows the gradient."""

    log_density: LogDensity

    def __call__(self, state: Phase) -> LogProb:
        r"""$\log\gamma(x) + \log N(p; 0, I)$."""
        return as_log(self.log_density(state.position)) + log_standard_normal(state.momentum)


class UnderdampedLangevin(AbstractKernel):
    r"""Refresh the momentum in part, $p' = \eta p + \sqrt{1-\eta^2}\,\epsilon$; one leapfrog step.

    States are `Phase`s, the density is one of them, $\gamma(x)\,N(p; 0, I)$ (`PhaseDensity`). The
    record of a step is what the rotation by $\eta$ leaves over,
    $v = \sqrt{1-\eta^2}\,p - \eta\,\epsilon$: then $p = \eta p' + \sqrt{1-\eta^2}\,v$ and
    $\epsilon = \sqrt{1-\eta^2}\,p' - \eta v$, the Jacobian is 1, and in equilibrium
    $v \sim N(0, I)$, which is the kernel's own guess.

    Args:
        step_size: $h$ of the leapfrog step: a number, or numbers that broadcast against the
            flattened position.
        persistence: $\eta$ between 0 and 1, how much momentum a step keeps;
            $e^{-\text{friction}\cdot h}$ in continuous time.
        metric: As in `Hmc`.
    """

    num_branches: ClassVar[int] = 1
    step_size: Parameter = eqx.field(converter=as_parameter)
    persistence: Parameter = eqx.field(converter=as_parameter)
    metric: Metric | None = eqx.field(converter=as_metric, default=None)

    def __check_init__(self) -> None:
        check_positive("step_size", self.step_size)
        if isinstance(self.persistence, jax.core.Tracer):
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
        """Make a step; the record is what the refreshment leaves over."""
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
        """The normals themselves."""
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
        climb = climb_of(lambda x: log_density(Phase(x, still)), unravel, self.metric)
        size = sign * jnp.asarray(self.step_size)
        ahead, middle, _, slope = leap(climb, size, self.metric, flat, momentum, climb(flat)[1])
        return Phase(
            unravel(ahead.astype(flat.dtype)),
            unravel((middle + 0.5 * size * slope).astype(flat.dtype)),
        )
