"""Eight schools (Rubin 1981), centred and not, in every library that there is an adapter for."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import aide
from support.numpyro_schools import DATA, EFFECTS, ERRORS, centred, noncentred

POINTS = np.random.default_rng(8).normal(size=(5, 10))

STAN = {
    True: """
data { array[8] real y; array[8] real<lower=0> sigma; }
parameters { real mu; real<lower=0> tau; array[8] real theta; }
model {
  mu ~ normal(0, 5);
  tau ~ cauchy(0, 5);
  theta ~ normal(mu, tau);
  y ~ normal(theta, sigma);
}
""",
    False: """
data { array[8] real y; array[8] real<lower=0> sigma; }
parameters { real mu; real<lower=0> tau; vector[8] unit; }
transformed parameters { vector[8] theta = mu + tau * unit; }
model {
  mu ~ normal(0, 5);
  tau ~ cauchy(0, 5);
  unit ~ std_normal();
  y ~ normal(theta, sigma);
}
""",
}
STAN_DATA = {"y": EFFECTS.tolist(), "sigma": ERRORS.tolist()}


def variable(is_centred):
    """The name of the effects that are inferred."""
    return "theta" if is_centred else "unit"


def parts(x, is_centred):
    """A point of the unconstrained space by name: mu, log tau, effects."""
    return {"mu": x[0], "tau": x[1], variable(is_centred): x[2:]}


def log_joint(x, is_centred):
    """By hand, with all constants: log p(mu, tau, theta, y) + log tau."""
    mu, tau, raw = x[0], jnp.exp(x[1]), x[2:]
    norm, cauchy = jax.scipy.stats.norm.logpdf, jax.scipy.stats.cauchy.logpdf
    theta = raw if is_centred else mu + tau * raw
    prior = jnp.sum(norm(raw, mu, tau) if is_centred else norm(raw))
    data = jnp.sum(norm(EFFECTS, theta, ERRORS))
    return norm(mu, 0, 5) + cauchy(tau, 0, 5) + jnp.log(2) + x[1] + prior + data


def numpyro_posterior(is_centred) -> Any:
    """In NumPyro."""
    return aide.numpyro.posterior(centred if is_centred else noncentred, **DATA)


def pymc_model(is_centred) -> Any:
    """In PyMC, with its variables in another order than elsewhere."""
    import pymc

    pm: Any = pymc
    with pm.Model() as model:
        tau = pm.HalfCauchy("tau", 5)
        mu = pm.Normal("mu", 0, 5)
        if is_centred:
            theta = pm.Normal("theta", mu, tau, shape=8)
        else:
            theta = pm.Deterministic("theta", mu + tau * pm.Normal("unit", 0, 1, shape=8))
        pm.Normal("y", theta, ERRORS, observed=EFFECTS)
    return model
