r"""The kernel's own guess, tilted: a model for many dimensions, where mixtures need many pilots.

With $\gamma$ the density of the step's kernel and $z = v - \text{centre}(y)$ the noise relative to
the kernel's own guess, which is $N(0, I)$,

$$\hat q(y) = \gamma(y)^\rho\,e^{\frac12 y^\top Q y + l^\top y}, \qquad
r(z \mid y) = (1 - w)\,N(z; B y + D\,\nabla\log\gamma(y) + b, S) + w\,N(z; 0, I).$$

$\gamma$ has the shape of the posterior; the quadratic describes how the run lags behind the
posterior: $Q = 0$ and $B = 0$ where the run has arrived. A power $\rho$ other than 1 is for runs
that lag far behind: along an annealing path from a Gaussian it is an earlier temperature. $\hat q$
guides the walk back and needs no constant; $r$ is a density for all parameters. Branches are not
guessed: given $z$, the state before is
drawn in proportion to its chance (`aide.learned.reverse_particles`).
"""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from aide.learned.models.joint import Proposed, Scores, States, Stored, log_sum_exp


class TiltedKernel(eqx.Module):
    r"""One model, or several stacked along a leading time axis. Build with `of`.

    Attributes:
        quadratic: $Q$, [d, d].
        linear: $l$, [d].
        slope: $B$, [e, d]; with a power, $(B, D)$, [e, 2d].
        shift: $b$, [e].
        colour: The Cholesky factor of $S$, [e, e].
        white: The inverse of `colour`.
        log_shares: $\log(1 - w)$ with the constant of the first Gaussian, $\log w$ with that of the
            second, [2].
        share: $w$.
        power: $\rho$.
    """

    tilts: ClassVar[bool] = True

    quadratic: Stored
    linear: Stored
    slope: Stored
    shift: Stored
    colour: Stored
    white: Stored
    log_shares: Stored
    share: Stored
    power: Stored

    @property
    def uses_gradient(self) -> bool:
        r"""Whether proposals depend on $\nabla\log\gamma(y)$, which then follows $y$."""
        return self.slope.shape[-1] > self.quadratic.shape[-1]

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of entries of a state and of a record's noise."""
        return self.quadratic.shape[-1], self.slope.shape[-2]

    @staticmethod
    def of(
        quadratic: np.ndarray,
        linear: np.ndarray,
        slope: np.ndarray,
        shift: np.ndarray,
        covariance: np.ndarray,
        share: float,
        power: float = 1.0,
    ) -> "TiltedKernel":
        r"""Build from $Q$, $l$, $B$ (or $(B, D)$), $b$, $S$, $w$ and $\rho$, at one time."""
        colour = np.linalg.cholesky(covariance)
        logs = np.log(np.diag(colour)).sum()
        constant = -0.5 * len(shift) * math.log(2 * math.pi)
        with np.errstate(divide="ignore"):
            log_shares = np.log([1.0 - share, share]) + constant - np.array([logs, 0.0])
        white = np.linalg.inv(colour)
        numbers = (log_shares, np.asarray(share, float), np.asarray(power, float))
        return TiltedKernel(quadratic, linear, slope, shift, colour, white, *numbers)

    def score(
        self, y: States, log_density: Float[Array, " P"]
    ) -> tuple[Scores, Float[Array, " P"]]:
        r"""$\log\hat q(y)$, as the only term and as the sum."""
        product = jnp.asarray(self.quadratic) @ jax.lax.optimization_barrier(y)
        tilt = jnp.sum((0.5 * product + self.linear[:, None]) * y, axis=0)
        log_q = self.power * log_density + tilt
        return log_q[None], log_q

    def propose(
        self, uniform: Float[Array, " P"], white: Float[Array, "e P"], scores: Scores, y: States
    ) -> Proposed:
        r"""Draw $z$ from $r(\cdot \mid y)$, by a uniform and normals, without a branch."""
        tilted = self._centre(y) + jnp.asarray(self.colour) @ white
        noise = jnp.where(uniform < self.share, white, tilted)
        none = jnp.zeros(uniform.shape, bool)
        return Proposed(none, noise, jnp.zeros(uniform.shape, jnp.int32))

    def log_joint(
        self,
        scores: Scores,
        y: States,
        noise: Float[Array, "e P"],
        branch: Int[Array, " P"],
        possible: Bool[Array, "B P"],
        log_own: Float[Array, " P"],
    ) -> Float[Array, " P"]:
        r"""$\log\hat q(y)\,r(z \mid y)$, given the scores of $y$ and the relative noise $z$."""
        white = jnp.asarray(self.white) @ (noise - self._centre(y))
        squares = jnp.stack([jnp.sum(white**2, axis=0), jnp.sum(noise**2, axis=0)])
        return scores[0] + log_sum_exp(jnp.asarray(self.log_shares)[:, None] - 0.5 * squares)

    def _centre(self, y: States) -> Float[Array, "e P"]:
        return jnp.asarray(self.slope) @ jax.lax.optimization_barrier(y) + self.shift[:, None]
