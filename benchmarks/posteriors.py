"""Five models of posteriordb in NumPyro, and how its reference draws name their variables."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

Draws = dict[str, np.ndarray]


class Posterior(NamedTuple):
    """A model, the arguments it takes from the data, and draws as its variables."""

    model: Callable[..., Any]
    arguments: tuple[str, ...]
    draws: Callable[[Draws], Draws] = dict


def flat(name: str, support: Any = constraints.real, size: tuple[int, ...] = ()) -> Any:
    """A variable with a flat prior, as Stan gives to a parameter that has none."""
    return numpyro.sample(name, dist.ImproperUniform(support, (), size))


def eight_schools(y: Any, sigma: Any) -> None:
    """Non-centred."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", len(y)):
        unit = numpyro.sample("theta_trans", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu + tau * unit, sigma), obs=y)


def eight_schools_draws(draws: Draws) -> Draws:
    """The database stores theta."""
    mu, tau = draws["mu"][..., None], draws["tau"][..., None]
    unit = (draws["theta"] - mu) / tau
    return {"mu": draws["mu"], "tau": draws["tau"], "theta_trans": unit}


def eight_schools_centred(y: Any, sigma: Any) -> None:
    """Centred: the same posterior, whose funnel a normal fit misses."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", len(y)):
        theta: Any = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def kidscore(kid_score: Any, mom_hs: Any, mom_iq: Any) -> None:
    """A regression on two covariates, neither of them centred."""
    beta: Any = flat("beta", constraints.real_vector, (3,))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    mean = beta[0] + beta[1] * mom_hs + beta[2] * mom_iq
    numpyro.sample("kid_score", dist.Normal(mean, sigma), obs=kid_score)


def garch(y: Any, sigma1: float) -> None:
    """beta1, flat on (0, 1 - alpha1), is `unit` times that length, so that its support is fixed."""
    mu = flat("mu")
    alpha0 = flat("alpha0", constraints.positive)
    alpha1 = numpyro.sample("alpha1", dist.Uniform(0.0, 1.0))
    unit = numpyro.sample("unit", dist.Uniform(0.0, 1.0))
    numpyro.factor("length", jnp.log1p(-jnp.asarray(alpha1)))
    garch_likelihood(y, sigma1, mu, alpha0, alpha1, (1.0 - alpha1) * unit)


def garch_draws(draws: Draws) -> Draws:
    """The database stores beta1."""
    unit = draws["beta1"] / (1.0 - draws["alpha1"])
    return {"mu": draws["mu"], "alpha0": draws["alpha0"], "alpha1": draws["alpha1"], "unit": unit}


def garch_dependent(y: Any, sigma1: float) -> None:
    """The same with a support that depends on another variable."""
    mu = flat("mu")
    alpha0 = flat("alpha0", constraints.positive)
    alpha1 = numpyro.sample("alpha1", dist.Uniform(0.0, 1.0))
    beta1 = flat("beta1", constraints.interval(0.0, 1.0 - alpha1))
    garch_likelihood(y, sigma1, mu, alpha0, alpha1, beta1)


def garch_likelihood(y: Any, sigma1: Any, mu: Any, alpha0: Any, alpha1: Any, beta1: Any) -> None:
    """A variance that depends on the last one and on the last observation."""

    def step(variance: Any, last: Any) -> tuple[Any, Any]:
        following = alpha0 + alpha1 * (last - mu) ** 2 + beta1 * variance
        return following, following

    first = jnp.asarray(sigma1, float) ** 2
    _, later = jax.lax.scan(step, first, jnp.asarray(y)[:-1])
    variances = jnp.concatenate([first[None], later])
    numpyro.sample("y", dist.Normal(mu, jnp.sqrt(variances)), obs=y)


def autoregression(y: Any, K: int) -> None:  # noqa: N803
    """Each value given the K before it."""
    alpha = numpyro.sample("alpha", dist.Normal(0.0, 10.0))
    beta = numpyro.sample("beta", dist.Normal(0.0, 10.0).expand([K]))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    lagged = jnp.stack([y[K - lag : len(y) - lag] for lag in range(1, K + 1)], axis=1)
    numpyro.sample("y", dist.Normal(alpha + lagged @ beta, sigma), obs=y[K:])


def mixture(y: Any) -> None:
    """Two normals with ordered means."""
    mu = flat("mu", constraints.ordered_vector, (2,))
    numpyro.factor("mu_prior", jnp.sum(dist.Normal(0.0, 2.0).log_prob(mu)))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0).expand([2]))
    theta = numpyro.sample("theta", dist.Beta(5.0, 5.0))
    weights = dist.Categorical(jnp.stack([theta, 1.0 - theta]))
    with numpyro.plate("observations", len(y)):
        numpyro.sample("y", dist.MixtureSameFamily(weights, dist.Normal(mu, sigma)), obs=y)


POSTERIORS = {
    "eight_schools-eight_schools_noncentered": Posterior(
        eight_schools, ("y", "sigma"), eight_schools_draws
    ),
    "kidiq-kidscore_momhsiq": Posterior(kidscore, ("kid_score", "mom_hs", "mom_iq")),
    "garch-garch11": Posterior(garch, ("y", "sigma1"), garch_draws),
    "arK-arK": Posterior(autoregression, ("y", "K")),
    "low_dim_gauss_mix-low_dim_gauss_mix": Posterior(mixture, ("y",)),
}
"""By their names in the database."""
DEPENDENT = Posterior(garch_dependent, ("y", "sigma1"))
"""garch again; automatic guides do not take it."""
CENTRED = Posterior(eight_schools_centred, ("y", "sigma"))
"""Eight schools again, with the draws as the database stores them."""
