"""Hierarchies, mixtures, a growth curve and Gaussian processes of posteriordb."""

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


def mixture_without_order(y: np.ndarray, sds: tuple[float, ...], means_sd: float) -> None:
    """Two normal components whose labels can be exchanged where the priors allow that.

    Args:
        y: Observations.
        sds: Standard deviations of the components where they are known; otherwise they are
            half-normal with scale 2, and the weight is Beta(5, 5) in place of uniform.
        means_sd: Standard deviation of the means' prior.
    """
    mu: Any = numpyro.sample("mu", dist.Normal(0.0, means_sd).expand([2]).to_event(1))
    sigma: Any = jnp.asarray(sds)
    if not sds:
        sigma = numpyro.sample("sigma", dist.HalfNormal(2.0).expand([2]).to_event(1))
    weight = dist.Uniform(0.0, 1.0) if sds else dist.Beta(5.0, 5.0)
    theta: Any = numpyro.sample("theta", weight)
    weights = dist.Categorical(jnp.stack([theta, 1.0 - theta]))
    with numpyro.plate("observations", len(y)):
        numpyro.sample("y", dist.MixtureSameFamily(weights, dist.Normal(mu, sigma)), obs=y)


def pilots(y: np.ndarray, group: np.ndarray, scenario: np.ndarray) -> None:
    """Successes of pilots: effects of groups and of scenarios, which only their sum informs."""
    shape = int(group.max()) + 1, int(scenario.max()) + 1
    effects = []
    for name, index, num in (("a", group, shape[0]), ("b", scenario, shape[1])):
        mu: Any = numpyro.sample(f"mu_{name}", dist.Normal(0.0, 1.0))
        sigma: Any = numpyro.sample(f"sigma_{name}", dist.Uniform(0.0, 100.0))
        each: Any = numpyro.sample(name, dist.Normal(10.0 * mu, sigma).expand([num]).to_event(1))
        effects.append(each[index])
    sigma_y = numpyro.sample("sigma_y", dist.Uniform(0.0, 100.0))
    numpyro.sample("y", dist.Normal(effects[0] + effects[1], sigma_y), obs=y)


def sea_cows(x: np.ndarray, y: np.ndarray) -> None:
    """Length against age: a curve that grows towards a limit; tau is the precision."""
    alpha: Any = numpyro.sample("alpha", dist.Normal(0.0, 1000.0))
    beta: Any = numpyro.sample("beta", dist.Normal(0.0, 1000.0))
    ratio: Any = numpyro.sample("lambda", dist.Uniform(0.5, 1.0))
    tau: Any = numpyro.sample("tau", dist.Gamma(1e-4, 1e-4))
    numpyro.sample("y", dist.Normal(alpha - beta * ratio**x, 1.0 / jnp.sqrt(tau)), obs=y)


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


def _pilots(data: Data) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    groups, scenarios = (np.asarray(data[name]) - 1 for name in ("group_id", "scenario_id"))
    return column(data, "y"), groups, scenarios


STRUCTURED = {
    "eight_schools_noncentered": Model(schools, _effects, _unit_effects),
    "eight_schools_centered": Model(schools_centred, _effects),
    "low_dim_gauss_mix": Model(mixture, lambda data: (column(data, "y"),)),
    "low_dim_gauss_mix_collapse": Model(
        mixture_without_order, lambda data: (column(data, "y"), (), 2.0)
    ),
    "normal_mixture": Model(
        mixture_without_order, lambda data: (column(data, "y"), (1.0, 1.0), 10.0)
    ),
    "pilots": Model(pilots, _pilots),
    "dugongs_model": Model(sea_cows, lambda data: (column(data, "x"), column(data, "Y"))),
    "gp_regr": Model(process_regression, lambda data: (column(data, "x"), column(data, "y"))),
    "gp_pois_regr": Model(
        process_counts, lambda data: (column(data, "x"), column(data, "k")), _unit_values
    ),
}
"""By the name of the Stan program."""
