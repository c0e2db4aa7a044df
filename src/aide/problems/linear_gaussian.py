"""Linear Gaussian models, of which the posterior is known exactly: a regression, a local level."""

import csv
from importlib import resources
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from aide._core.numerics import as_parameter
from aide._core.types import Key, LogProb
from aide.algorithms.particle_filter import Proposal, StateSpaceModel
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


class LocalLevelModel(eqx.Module):
    r"""$x_1 \sim N(m, s_0^2)$, $x_t \sim N(\phi x_{t-1}, s_x^2)$, $y_t \sim N(x_t, s_y^2)$.

    Args:
        observations: $y_{1:T}$.
        level_std: $s_x$.
        noise_std: $s_y$.
        first_mean: $m$.
        first_std: $s_0$.
        persistence: $\phi$; 1 is the random walk.

    Example:
        >>> model = aide.problems.LocalLevelModel([1.0, 2.0, 1.5], level_std=0.5, noise_std=1.0)
        >>> round(float(model.log_evidence()), 3)
        -4.573
    """

    observations: Float[Array, " T"] = eqx.field(converter=as_parameter)
    level_std: Array = eqx.field(converter=as_parameter)
    noise_std: Array = eqx.field(converter=as_parameter)
    first_mean: Array = eqx.field(converter=as_parameter, default=0.0)
    first_std: Array = eqx.field(converter=as_parameter, default=1.0)
    persistence: Array = eqx.field(converter=as_parameter, default=1.0)

    def state_space(self) -> StateSpaceModel:
        """The model for `ParticleFilter`."""
        first = Normal(self.first_mean, self.first_std)
        return StateSpaceModel(first, self._next_level, self._measured, self.observations)

    def optimal_proposal(self) -> Proposal:
        r"""$p(x_t \mid x_{t-1}, y_t)$."""
        return Proposal(self._first_given_measured, self._next_given_measured)

    def posterior(self) -> Tractable:
        """Exact posterior of the path: Kalman filter, backward sampling; normalised."""
        return Tractable(self._sample_path, self._log_posterior, label="exact posterior")

    def log_evidence(self) -> LogProb:
        r"""$\log p(y_{1:T})$ by the Kalman filter."""
        return self._filter()[2]

    def _filter(self) -> tuple[Array, Array, LogProb]:
        def update(carry: Any, y: Array) -> tuple[Any, tuple[Array, Array]]:
            mean, variance, total = carry
            spread = variance + self.noise_std**2
            total = total + Normal(mean, jnp.sqrt(spread)).log_prob(y)
            gain = variance / spread
            mean, variance = mean + gain * (y - mean), (1 - gain) * variance
            ahead = (self.persistence * mean, self.persistence**2 * variance + self.level_std**2)
            return (*ahead, total), (mean, variance)

        first = (self.first_mean, self.first_std**2, 0.0)
        first = tuple(jnp.asarray(part, float) for part in first)
        (_, _, total), (means, variances) = jax.lax.scan(
            update, first, jnp.asarray(self.observations, float)
        )
        return means, variances, total

    def _sample_path(self, key: Key) -> Float[Array, " T"]:
        means, variances, _ = self._filter()
        noise = jax.random.normal(key, means.shape, float)
        last = means[-1] + jnp.sqrt(variances[-1]) * noise[-1]

        def backward(after: Array, step: Any) -> tuple[Array, Array]:
            mean, variance, z = step
            ahead = self.persistence**2 * variance + self.level_std**2
            gain = self.persistence * variance / ahead
            mean = mean + gain * (after - self.persistence * mean)
            state = mean + jnp.sqrt(variance - gain**2 * ahead) * z
            return state, state

        steps = (means[:-1], variances[:-1], noise[:-1])
        _, earlier = jax.lax.scan(backward, last, steps, reverse=True)
        return jnp.concatenate([earlier, last[None]])

    def _log_posterior(self, path: Float[Array, " T"]) -> LogProb:
        return self.state_space().log_joint(path) - self.log_evidence()

    def _next_level(self, x: Array, t: Array) -> Normal:
        return Normal(self.persistence * x, self.level_std)

    def _measured(self, x: Array, t: Array) -> Normal:
        return Normal(x, self.noise_std)

    def _first_given_measured(self, y: Array) -> Normal:
        return _combine(self.first_mean, self.first_std, y, self.noise_std)

    def _next_given_measured(self, x: Array, y: Array, t: Array) -> Normal:
        return _combine(self.persistence * x, self.level_std, y, self.noise_std)


def nile() -> LocalLevelModel:
    """The annual flow of the Nile at Aswan, 1871-1970, under a local-level model.

    Data: public domain, 100 years in 10^8 m^3 (`data/nile.csv`). Parameters: maximum-likelihood
    values of Durbin & Koopman (2012), Time Series Analysis by State Space Methods, chapter 2.

    Returns:
        The model with its data; `posterior()` is exact, `state_space()` is for particle filters.

    Example:
        >>> nile = aide.problems.nile()
        >>> nile.observations.shape, round(float(nile.log_evidence()), 2)
        ((100,), -638.95)
    """
    text = resources.files("aide").joinpath("data/nile.csv").read_text()
    flow = np.array([float(row["volume"]) for row in csv.DictReader(text.splitlines())])
    return LocalLevelModel(
        flow, np.sqrt(1469.1), np.sqrt(15099.0), first_mean=1000.0, first_std=200.0
    )


def _combine(mean: ArrayLike, std: ArrayLike, y: Array, noise_std: ArrayLike) -> Normal:
    gain = std**2 / (std**2 + noise_std**2)
    return Normal(mean + gain * (y - mean), jnp.sqrt(1 - gain) * std)
