"""Eight schools in NumPyro, twice, and by hand.

Sites stand in an order that is not the alphabetical one, and their supports differ.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.stats import cauchy, norm

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
DATA = {"errors": ERRORS, "effects": EFFECTS}


def centred(errors, effects=None):
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    with numpyro.plate("schools", errors.shape[0]):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("effects", dist.Normal(theta, errors), obs=effects)


def noncentred(errors, effects=None):
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    with numpyro.plate("schools", errors.shape[0]):
        unit = numpyro.sample("unit", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * unit)
        numpyro.sample("effects", dist.Normal(theta, errors), obs=effects)


def log_joint_by_hand(mu, log_tau, theta, errors=ERRORS, effects=EFFECTS):
    r"""$\log p(\mu, \tau, \theta, y) + \log\tau$, a density of $\mu$, $\log\tau$ and $\theta$."""
    tau = jnp.exp(log_tau)
    log_prior = norm.logpdf(mu, 0.0, 5.0) + cauchy.logpdf(tau, 0.0, 5.0) + jnp.log(2.0) + log_tau
    log_prior += jnp.sum(norm.logpdf(theta, mu, tau))
    return log_prior + jnp.sum(norm.logpdf(effects, theta, errors))
