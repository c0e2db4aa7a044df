"""Logistic regressions of tens of dimensions, and Gaussians fitted to their posteriors."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class LogisticRegression(eqx.Module):
    """Weights ~ N(0, I), y ~ Bernoulli(logit(X w))."""

    features: np.ndarray
    signs: np.ndarray

    def __call__(self, w: Any) -> Any:
        """The log joint density, normalised in w and y."""
        margins = jnp.asarray(self.signs) * (jnp.asarray(self.features) @ w)
        prior = -0.5 * jnp.sum(w**2) - 0.5 * w.size * np.log(2 * np.pi)
        return prior - jnp.sum(jax.nn.softplus(-margins))

    @staticmethod
    def of(path: str) -> "LogisticRegression":
        """From a file: features, which get mean 0, scale 1 and an intercept, and a label 0 or 1."""
        table = np.loadtxt(path, delimiter=",", skiprows=1)
        x, labels = table[:, :-1], table[:, -1]
        scale = x.std(axis=0)
        x = (x - x.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
        return LogisticRegression(np.insert(x, 0, 1.0, axis=1), 2.0 * labels - 1.0)

    @staticmethod
    def simulated(size: int, seed: int = 0) -> "LogisticRegression":
        """200 rows of an intercept and correlated normal features, weights from the prior."""
        rng = np.random.default_rng(seed)
        shared = rng.normal(size=(200, 1))
        x = np.insert(0.8 * rng.normal(size=(200, size - 1)) + 0.6 * shared, 0, 1.0, axis=1)
        chance = 1.0 / (1.0 + np.exp(-x @ rng.normal(size=size)))
        return LogisticRegression(x, np.where(rng.random(200) < chance, 1.0, -1.0))


class Gaussian(eqx.Module):
    """N(mean, L L^T)."""

    mean: np.ndarray
    root: np.ndarray

    def sample(self, key: Any) -> Any:
        """Draw one value."""
        noise = jax.random.normal(key, self.mean.shape, float)
        return jnp.asarray(self.mean) + jnp.asarray(self.root) @ noise

    def log_prob(self, x: Any) -> Any:
        """Normalised log density."""
        root = jnp.asarray(self.root)
        white = jax.scipy.linalg.solve_triangular(root, x - self.mean, lower=True)
        return -0.5 * jnp.sum(white**2 + np.log(2 * np.pi)) - jnp.sum(jnp.log(jnp.diag(root)))


class Laplace(NamedTuple):
    """The mode of a posterior and the precision there."""

    mode: np.ndarray
    precision: np.ndarray

    @staticmethod
    def of(model: LogisticRegression) -> "Laplace":
        """By Newton's method."""
        with jax.enable_x64(True):
            slope, bend = jax.jit(jax.grad(model)), jax.jit(jax.hessian(model))
            mode = np.zeros(model.features.shape[1])
            for _ in range(30):
                mode = mode - np.linalg.solve(np.asarray(bend(mode)), np.asarray(slope(mode)))
            return Laplace(mode, -np.asarray(bend(mode)))

    def full(self, spread: float = 1.0) -> Gaussian:
        """Mode and covariance."""
        return Gaussian(self.mode, spread * np.linalg.cholesky(np.linalg.inv(self.precision)))

    def mean_field(self) -> Gaussian:
        """Mode and marginal variances."""
        return Gaussian(self.mode, np.diag(np.sqrt(np.diag(np.linalg.inv(self.precision)))))
