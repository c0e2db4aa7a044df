"""Bayesian linear regression with known noise: posterior known exactly."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from aide._core.numerics import as_parameter
from aide._core.types import Key, LogProb
from aide.algorithms.tractable import Tractable
from aide.problems.distributions import Normal


class LinearRegression(eqx.Module):
    r"""$y_i \sim N(a + b\,x_i, s^2)$ with $a, b \sim N(0, s_p^2)$; the state is $(a, b)$.

    The defaults are the regression of the paper's Figure 2: AIDE of posterior against prior is
    8.1728 nats.

    Args:
        x: Explanatory variable $x_i$.
        y: Response $y_i$.
        noise_std: $s$.
        prior_std: $s_p$.

    Example:
        >>> model = aide.problems.LinearRegression()
        >>> fit = aide.sir(model.prior(), model.log_joint, num_particles=100)
        >>> round(float(model.log_evidence()), 3)
        -3.93
    """

    x: Float[Array, " num"] = eqx.field(converter=as_parameter, default=(-2.0, 2.0))
    y: Float[Array, " num"] = eqx.field(converter=as_parameter, default=(-2.0, 2.0))
    noise_std: Array = eqx.field(converter=as_parameter, default=1.0)
    prior_std: Array = eqx.field(converter=as_parameter, default=1.0)

    def prior(self) -> Tractable:
        """The prior of intercept and slope as an algorithm."""
        return Tractable.of(Normal(np.zeros(2), self.prior_std), "prior")

    def log_likelihood(self, state: Float[Array, "2"]) -> LogProb:
        r"""$\log p(y \mid a, b)$."""
        return Normal(state[0] + state[1] * self.x, self.noise_std).log_prob(self.y)

    def log_joint(self, state: Float[Array, "2"]) -> LogProb:
        r"""$\log p(a, b, y)$."""
        return Normal(np.zeros(2), self.prior_std).log_prob(state) + self.log_likelihood(state)

    def posterior(self) -> Tractable:
        """The exact Gaussian posterior, normalised."""
        return Tractable(self._sample, self._log_density, label="exact posterior")

    def log_evidence(self) -> LogProb:
        r"""$\log p(y)$: joint over posterior density, at any state."""
        mean, _ = self.moments()
        return self.log_joint(mean) - self._log_density(mean)

    def moments(self) -> tuple[Float[Array, "2"], Float[Array, "2 2"]]:
        """Mean and precision matrix of the posterior."""
        design = jnp.stack([jnp.ones_like(jnp.asarray(self.x, float)), jnp.asarray(self.x, float)])
        precision = design @ design.T / self.noise_std**2 + jnp.eye(2) / self.prior_std**2
        return jnp.linalg.solve(precision, design @ self.y) / self.noise_std**2, precision

    def _sample(self, key: Key) -> Float[Array, "2"]:
        mean, precision = self.moments()
        root = jnp.linalg.cholesky(precision)
        noise = jax.random.normal(key, (2,), float)
        return mean + jax.scipy.linalg.solve_triangular(root.T, noise, lower=False)

    def _log_density(self, state: Float[Array, "2"]) -> LogProb:
        mean, precision = self.moments()
        root = jnp.linalg.cholesky(precision)
        z = root.T @ (state - mean)
        return jnp.sum(-0.5 * z * z + jnp.log(jnp.diagonal(root)) - 0.5 * jnp.log(2 * jnp.pi))
