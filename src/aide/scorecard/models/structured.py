"""Hierarchies, mixtures and Gaussian processes of posteriordb."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from aide.scorecard.models.model import Data, Draws, Model, column, flat

JITTER = 1e-10
"""What the Stan program `gp_pois_regr` adds to the variance of each function value."""


def schools(y: np.ndarray, sigma: np.ndarray) -> None:
    """Eight schools, not centred: effects are mu + tau * theta_trans."""
    mu: Any = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau: Any = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", len(y)):
        unit: Any = numpyro.sample("theta_trans", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * unit)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def schools_centred(y: np.ndarray, sigma: np.ndarray) -> None:
    """Eight schools, centred: the same posterior in coordinates that have a funnel."""
    mu: Any = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau: Any = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", len(y)):
        theta: Any = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def _unit_effects(draws: Draws, data: Data) -> Draws:
    """The database stores theta."""
    mu, tau = draws["mu"], draws["tau"]
    unit = (draws["theta"] - mu[..., None]) / tau[..., None]
    return {"mu": mu, "tau": tau, "theta_trans": unit}


def mixture(y: np.ndarray) -> None:
    """Two normal components with ordered means."""
    mu = flat("mu", constraints.ordered_vector, (2,))
    numpyro.factor("prior of mu", jnp.sum(dist.Normal(0.0, 2.0).log_prob(mu)))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0).expand([2]))
    theta: Any = numpyro.sample("theta", dist.Beta(5.0, 5.0))
    weights = dist.Categorical(jnp.stack([theta, 1.0 - theta]))
    with numpyro.plate("observations", len(y)):
        numpyro.sample("y", dist.MixtureSameFamily(weights, dist.Normal(mu, sigma)), obs=y)


def covariance(x: Any, alpha: Any, rho: Any) -> Any:
    """Squared exponential covariance of a Gaussian process, height alpha and length rho."""
    apart = (x[:, None] - x[None, :]) / rho
    return alpha**2 * jnp.exp(-0.5 * apart**2)


def process_regression(x: np.ndarray, y: np.ndarray) -> None:
    """Normal observations of a Gaussian process; sigma is a variance here, as in the program."""
    rho: Any = numpyro.sample("rho", dist.Gamma(25.0, 4.0))
    alpha: Any = numpyro.sample("alpha", dist.HalfNormal(2.0))
    sigma: Any = numpyro.sample("sigma", dist.HalfNormal(1.0))
    factor = jnp.linalg.cholesky(covariance(x, alpha, rho) + sigma * jnp.eye(len(x)))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), scale_tril=factor), obs=y)


def process_counts(x: np.ndarray, counts: np.ndarray) -> None:
    """Counts whose log rate is a Gaussian process, not centred."""
    rho: Any = numpyro.sample("rho", dist.Gamma(25.0, 4.0))
    alpha: Any = numpyro.sample("alpha", dist.HalfNormal(2.0))
    unit: Any = numpyro.sample("f_tilde", dist.Normal(0.0, 1.0).expand([len(x)]).to_event(1))
    factor = jnp.linalg.cholesky(covariance(x, alpha, rho) + JITTER * jnp.eye(len(x)))
    f = numpyro.deterministic("f", factor @ unit)
    numpyro.sample("counts", dist.Poisson(jnp.exp(jnp.asarray(f))).to_event(1), obs=counts)


def _unit_values(draws: Draws, data: Data) -> Draws:
    """The database stores f, the values of the process."""
    x = jnp.asarray(column(data, "x"))

    def unit(alpha: Any, rho: Any, f: Any) -> Any:
        factor = jnp.linalg.cholesky(covariance(x, alpha, rho) + JITTER * jnp.eye(x.size))
        return jax.scipy.linalg.solve_triangular(factor, f, lower=True)

    with jax.enable_x64(True):
        both = jax.jit(jax.vmap(jax.vmap(unit)))
        parts = (jnp.asarray(np.asarray(draws[name])) for name in ("alpha", "rho", "f"))
        found = np.asarray(both(*parts))
    return {"rho": draws["rho"], "alpha": draws["alpha"], "f_tilde": found}


def _effects(data: Data) -> tuple[np.ndarray, np.ndarray]:
    return column(data, "y"), column(data, "sigma")


STRUCTURED = {
    "eight_schools_noncentered": Model(schools, _effects, _unit_effects),
    "eight_schools_centered": Model(schools_centred, _effects),
    "low_dim_gauss_mix": Model(mixture, lambda data: (column(data, "y"),)),
    "gp_regr": Model(process_regression, lambda data: (column(data, "x"), column(data, "y"))),
    "gp_pois_regr": Model(
        process_counts, lambda data: (column(data, "x"), column(data, "k")), _unit_values
    ),
}
"""By the name of the Stan program."""
