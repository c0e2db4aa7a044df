r"""The joint model of a state and a step's record where pilots show only a part of all states.

A coordinate $\varphi(y) = \log N_{here}(y) - \log N_{there}(y)$, of mixtures of Gaussians about
states that the chain visits and about states that it misses, divides all states in two. Where
$\varphi(y) \ge e$, one model holds. Beyond, the marginal is

$$\hat q(y) = e^{l(\varphi(y))}\,\gamma(y)/\hat Z,$$

$l$ being piecewise linear, and a second model gives the conditional law of the record. The walk
back weighs particles by ratios of $\hat q$: where $l$ rises towards the states that the chain
visits, the few particles that climb a barrier multiply instead of dying out. The bound is valid for
any $l$.
"""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from aide.learned.models.joint import (
    JointMixture,
    Proposed,
    Scores,
    States,
    Stored,
    log_scale,
    log_sum_exp,
)
from aide.learned.models.mean_weights import interpolate


class GaussianClusters(eqx.Module):
    """A mixture of Gaussians with one common covariance.

    Attributes:
        log_peaks: Logs of weights times densities at the means, [A].
        white: Inverse Cholesky factors, [A, d, d].
        shift: The factors times the means, [A, d].
    """

    log_peaks: Stored
    white: Stored
    shift: Stored

    @staticmethod
    def of(weights: np.ndarray, means: np.ndarray, covariance: np.ndarray) -> "GaussianClusters":
        """Gaussians with one common covariance."""
        root = np.linalg.cholesky(covariance)[None]
        white = np.linalg.inv(root).repeat(len(weights), axis=0)
        shift = (white @ means[:, :, None])[:, :, 0]
        return GaussianClusters(np.log(weights) + log_scale(root), white, shift)

    def log_density(self, y: Float[Array, "d P"]) -> Float[Array, " P"]:
        """The log density of many states."""
        white = jnp.einsum("aij,jp->aip", self.white, y) - self.shift[:, :, None]
        return log_sum_exp(self.log_peaks[:, None] - 0.5 * jnp.sum(white**2, axis=1))


class DividedModel(eqx.Module):
    r"""One model, or several stacked along a leading time axis.

    Attributes:
        here: The model $J$ where the chain goes.
        there: The model $J$ whose conditional law holds beyond.
        near: $N_{here}$.
        far: $N_{there}$.
        edge: $e$.
        knots: Values of $\varphi$, rising, [K].
        values: $l$ at the knots; beyond both ends $l$ is constant.
        log_z: $\log\hat Z$.
    """

    tilts: ClassVar[bool] = False

    here: JointMixture
    there: JointMixture
    near: GaussianClusters
    far: GaussianClusters
    edge: Stored
    knots: Stored
    values: Stored
    log_z: Stored

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of entries of a state and of a record's noise."""
        return self.here.sizes

    @property
    def log_kernel(self) -> Stored:
        """The log weight of the kernel in equilibrium, where the chain goes."""
        return self.here.log_kernel

    def coordinate(self, y: States) -> Float[Array, " P"]:
        r"""$\varphi(y)$."""
        return self.near.log_density(y) - self.far.log_density(y)

    def score(
        self, y: States, log_density: Float[Array, " P"]
    ) -> tuple[Scores, Float[Array, " P"]]:
        r"""The log terms of $\hat q(y)$, those of `here` first, and $\log\hat q(y)$."""
        phi = self.coordinate(y)
        knots = jnp.asarray(self.knots)
        stated = interpolate(jnp.clip(phi, knots[0], knots[-1]), knots, jnp.asarray(self.values))
        stated = stated + log_density - self.log_z
        scores_here, log_here = self.here.score(y, log_density)
        scores_there, log_there = self.there.score(y, log_density)
        beyond = phi < self.edge
        share = jnp.where(log_there == -jnp.inf, -jnp.inf, scores_there - log_there + stated)
        scores = jnp.concatenate(
            [jnp.where(beyond, -jnp.inf, scores_here), jnp.where(beyond, share, -jnp.inf)]
        )
        return scores, jnp.where(beyond, stated, log_here)

    def propose(
        self, uniform: Float[Array, " P"], white: Float[Array, "e P"], scores: Scores, y: States
    ) -> Proposed:
        r"""Draw a component given $y$, and $(v, b)$ from it if it is a Gaussian."""
        here, there, beyond = self._parts(scores)
        one = self.here.propose(uniform, white, jnp.where(beyond, 0.0, here), y)
        two = self.there.propose(uniform, white, jnp.where(beyond, there, 0.0), y)
        return Proposed(*(jnp.where(beyond, b, a) for a, b in zip(one, two, strict=True)))

    def log_joint(
        self,
        scores: Scores,
        y: States,
        noise: Float[Array, "e P"],
        branch: Int[Array, " P"],
        possible: Bool[Array, "B P"],
        log_own: Float[Array, " P"],
    ) -> Float[Array, " P"]:
        r"""$\log J(y, v, b)$, given the scores of $y$ and $\log g(v, b \mid y)$."""
        here, there, beyond = self._parts(scores)
        record = (y, noise, branch, possible, log_own)
        return jnp.where(
            beyond, self.there.log_joint(there, *record), self.here.log_joint(here, *record)
        )

    def _parts(self, scores: Scores) -> tuple[Scores, Scores, Bool[Array, " P"]]:
        """Scores of both models, and where the second model holds."""
        number = 1 + self.here.log_gauss.shape[-1]
        return scores[:number], scores[number:], jnp.max(scores[:number], axis=0) == -jnp.inf
