"""Approximations with one fault each, whose true divergence is known, and the models they are of.

Every model can be simulated, has the exact posterior of every data set, and one data set that was
observed. All but the chains have two unknowns.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import integrate, stats

import aide
from aide.problems import Normal

PRIOR_STD = 3.0
STEPS = 60
"""Steps of the chains."""


class Mixture(eqx.Module):
    """Normals of equal weight with one covariance matrix."""

    means: Any
    covariance: Any

    def sample(self, key: Any) -> Any:
        """Draw one value."""
        key_which, key_noise = jax.random.split(key)
        mean = jax.random.choice(key_which, jnp.asarray(self.means))
        root = jnp.linalg.cholesky(jnp.asarray(self.covariance))
        return mean + root @ jax.random.normal(key_noise, mean.shape)

    def log_prob(self, x: Any) -> Any:
        """Normalised log density."""
        parts = jax.vmap(jax.scipy.stats.multivariate_normal.logpdf, (None, 0, None))
        logs = parts(x, jnp.asarray(self.means), jnp.asarray(self.covariance))
        return jax.nn.logsumexp(logs) - jnp.log(len(self.means))


class Students(eqx.Module):
    """Independent t distributions."""

    location: Any
    scale: Any
    degrees: float

    def sample(self, key: Any) -> Any:
        """Draw one value."""
        return self.location + self.scale * jax.random.t(key, self.degrees, self.location.shape)

    def log_prob(self, x: Any) -> Any:
        """Normalised log density."""
        logs = jax.scipy.stats.t.logpdf(x, self.degrees, self.location, self.scale)
        return jnp.sum(logs)


class LastState(eqx.Module):
    """The state of a random walk Metropolis chain after some steps, started from the prior."""

    posterior: Any
    width: float

    def path(self, key: Any) -> Any:
        """All states after the start."""
        key_start, key_steps = jax.random.split(key)

        def step(x: Any, key: Any) -> tuple[Any, Any]:
            key_noise, key_accept = jax.random.split(key)
            y = x + self.width * jax.random.normal(key_noise, x.shape)
            log_ratio = self.posterior.log_prob(y) - self.posterior.log_prob(x)
            x = jnp.where(jnp.log(jax.random.uniform(key_accept)) < log_ratio, y, x)
            return x, x

        start = PRIOR_STD * jax.random.normal(key_start, (1,))
        return jax.lax.scan(step, start, jax.random.split(key_steps, STEPS))[1]

    def sample(self, key: Any) -> Any:
        """The last state."""
        return self.path(key)[-1]


class Case(NamedTuple):
    """A model, an approximation of its posteriors, and an observed data set.

    `simulate(key)` returns parameters and data, `posterior(data)` and `fit(data)` distributions;
    `divergence` is that of the two for the observed data, in nats.
    """

    name: str
    simulate: Callable[[Any], tuple[Any, Any]]
    posterior: Callable[[Any], Any]
    fit: Callable[[Any], Any]
    observed: Any
    divergence: float

    @property
    def is_chain(self) -> bool:
        """Whether the fit is a Markov chain, which has no density that could be evaluated."""
        return isinstance(self.fit(self.observed), LastState)


def gaussian_case(name: str, correlation: float, fit: Callable[[Any, Any], Any]) -> Case:
    """Prior N(0, 3²), noise with unit variances; `fit` is given mean and covariance."""
    noise = np.array([[1.0, correlation], [correlation, 1.0]])
    prior = PRIOR_STD**2 * np.eye(2)
    gain = prior @ np.linalg.inv(prior + noise)
    covariance = gain @ noise
    observed = np.array([4.0, 1.0])

    def simulate(key: Any) -> tuple[Any, Any]:
        key_x, key_y = jax.random.split(key)
        x = PRIOR_STD * jax.random.normal(key_x, (2,))
        return x, x + np.linalg.cholesky(noise) @ jax.random.normal(key_y, (2,))

    posterior = lambda y: Mixture((jnp.asarray(gain) @ y)[None], covariance)
    fitted = lambda y: fit(jnp.asarray(gain) @ y, covariance)
    truth = between_normals(gain @ observed, covariance, fitted(observed))
    return Case(name, simulate, posterior, fitted, observed, truth)


def between_normals(mean: np.ndarray, covariance: np.ndarray, other: Mixture) -> float:
    """Symmetrised divergence of two normals."""
    shift, second = mean - np.asarray(other.means)[0], np.asarray(other.covariance)
    first_inverse, second_inverse = np.linalg.inv(covariance), np.linalg.inv(second)
    traces = np.trace(first_inverse @ second) + np.trace(second_inverse @ covariance)
    return float(0.5 * (traces - 2 * len(mean) + shift @ (first_inverse + second_inverse) @ shift))


def lost_sign() -> Case:
    """The sign of the first parameter is lost when it is observed; the fit keeps one sign."""
    gain = PRIOR_STD**2 / (PRIOR_STD**2 + 1)
    covariance, flip, observed = gain * np.eye(2), np.array([-1.0, 1.0]), np.array([9.0, 1.0])

    def simulate(key: Any) -> tuple[Any, Any]:
        key_x, key_y, key_sign = jax.random.split(key, 3)
        x = PRIOR_STD * jax.random.normal(key_x, (2,))
        y = x + jax.random.normal(key_y, (2,))
        return x, jnp.where(jax.random.bernoulli(key_sign), y, y * flip)

    posterior = lambda y: Mixture(gain * jnp.stack([y, y * flip]), covariance)
    fit = lambda y: Mixture(gain * (y * jnp.array([jnp.sign(y[0]), 1.0]))[None], covariance)
    log_normal = lambda mean: lambda x: stats.norm.logpdf(x, mean, gain**0.5)
    near, far = log_normal(gain * 9.0), log_normal(-gain * 9.0)
    truth = by_quadrature(lambda x: np.logaddexp(near(x), far(x)) - np.log(2.0), near)
    return Case("a missed mode", simulate, posterior, fit, observed, truth)


def unknown_variance() -> Case:
    """One observation with unknown variance: the posterior of the mean is t with 3 degrees.

    The fit is the Laplace approximation: a normal with the curvature of the log density.
    """
    spread, degrees = 0.5**0.5, 3.0
    observed = np.array([2.0, -1.0])
    # Variance v ~ inverse gamma(1, 1), mean ~ N(0, v), observation ~ N(mean, v), twice.
    location = lambda y: y / 2
    scale = lambda y: spread * jnp.sqrt((2 + y**2 / 2) / degrees)

    def simulate(key: Any) -> tuple[Any, Any]:
        key_v, key_x, key_y = jax.random.split(key, 3)
        std = jax.random.gamma(key_v, 1.0, (2,)) ** -0.5
        x = std * jax.random.normal(key_x, (2,))
        return x, x + std * jax.random.normal(key_y, (2,))

    posterior = lambda y: Students(location(y), scale(y), degrees)
    narrower = (degrees / (degrees + 1)) ** 0.5
    fit = lambda y: Normal(location(y), narrower * scale(y))
    log_t = lambda x: stats.t.logpdf(x, degrees)
    log_normal = lambda x: stats.norm.logpdf(x, 0.0, narrower)
    truth = 2 * by_quadrature(log_t, log_normal, np.inf)
    return Case("heavy tails, Laplace", simulate, posterior, fit, observed, truth)


def by_quadrature(log_p: Any, log_q: Any, end: float = 25.0) -> float:
    """Symmetrised divergence of two densities on the line."""
    integrand = lambda x: (np.exp(log_p(x)) - np.exp(log_q(x))) * (log_p(x) - log_q(x))
    cuts = {} if np.isinf(end) else {"points": [-8.1, 0.0, 8.1]}
    return float(integrate.quad(integrand, -end, end, limit=500, **cuts)[0])


def chain_case(name: str, width: float) -> Case:
    """Prior N(0, 3²), noise 0.3; the fit is the last state of a random walk from the prior."""
    noise, observed = 0.3, np.array([4.0])
    gain = PRIOR_STD**2 / (PRIOR_STD**2 + noise**2)

    def simulate(key: Any) -> tuple[Any, Any]:
        x, e = jax.random.normal(key, (2, 1))
        return PRIOR_STD * x, PRIOR_STD * x + noise * e

    posterior = lambda y: Normal(gain * y, gain**0.5 * noise)
    fit = lambda y: LastState(posterior(y), width)
    truth = on_a_grid(gain * 4.0, gain**0.5 * noise, width)
    return Case(name, simulate, posterior, fit, observed, truth)


def on_a_grid(mean: float, std: float, width: float, spacing: float = 0.02) -> float:
    """Symmetrised divergence of the last state's density from the posterior N(mean, std²)."""
    x = np.arange(mean - 18.0, mean + 12.0, spacing)
    log_p = stats.norm.logpdf(x, mean, std)
    accepted = np.exp(np.minimum(0.0, log_p[None] - log_p[:, None]))
    moves = spacing * stats.norm.pdf(x[None], x[:, None], width) * accepted
    np.fill_diagonal(moves, 0.0)
    stays = 1 - moves.sum(axis=1)
    q = stats.norm.pdf(x, 0.0, PRIOR_STD)
    for _ in range(STEPS):
        q = q @ moves + q * stays
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = (np.exp(log_p) - q) * (log_p - np.log(q))
    return float(spacing * terms[q > 0].sum())


def refined_chain(case: Case) -> Any:
    """The chain of a case with learned meta-inference, for the observed data."""
    last = case.fit(case.observed)
    start, log_joint = Normal(np.zeros(1), PRIOR_STD), last.posterior.log_prob
    kernel = aide.kernels.RandomWalk(last.width)
    chain = aide.mcmc(start, log_joint, kernel=kernel, num_steps=STEPS)
    return aide.refine(0, chain, num_reverse=100)


def all_cases() -> list[Case]:
    """Two approximations that are right, and six with one fault each."""
    exact = lambda mean, covariance: Mixture(mean[None], covariance)
    narrow = lambda mean, covariance: Mixture(mean[None], 0.7**2 * covariance)
    apart = lambda mean, covariance: Mixture(mean[None], np.diag(np.diag(covariance)))
    prior = lambda mean, covariance: Mixture(0 * mean[None], PRIOR_STD**2 * np.eye(2))
    return [
        gaussian_case("exact draws", 0.8, exact),
        chain_case("a chain that has arrived", 2.0),
        lost_sign(),
        gaussian_case("sds 30% too small", 0.8, narrow),
        gaussian_case("correlation 0.8 missed", 0.8, apart),
        chain_case("a chain that is stuck", 20.0),
        unknown_variance(),
        gaussian_case("the prior returned", 0.8, prior),
    ]
