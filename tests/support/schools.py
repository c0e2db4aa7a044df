"""Eight schools (Rubin 1981), centred and not, in every library that there is an adapter for."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
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
parameters { real mu; real<lower=0> tau; vector[8] theta_raw; }
transformed parameters { vector[8] theta = mu + tau * theta_raw; }
model {
  mu ~ normal(0, 5);
  tau ~ cauchy(0, 5);
  theta_raw ~ std_normal();
  y ~ normal(theta, sigma);
}
""",
}
DATA = {"y": EFFECTS.tolist(), "sigma": ERRORS.tolist()}


def variable(is_centred):
    """The name of the effects that are inferred."""
    return "theta" if is_centred else "theta_raw"


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


def numpyro_model(is_centred):
    import numpyro
    import numpyro.distributions as dist

    def schools():
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("school", 8):
            if is_centred:
                theta = numpyro.sample("theta", dist.Normal(mu, tau))
            else:
                theta = mu + tau * numpyro.sample("theta_raw", dist.Normal(0, 1))
            numpyro.sample("y", dist.Normal(theta, ERRORS), obs=EFFECTS)

    return schools


def pymc_model(is_centred) -> Any:
    import pymc as pm

    with pm.Model() as model:
        # Another order of variables than elsewhere, on purpose.
        tau = pm.HalfCauchy("tau", 5)
        mu = pm.Normal("mu", 0, 5)
        if is_centred:
            theta = pm.Normal("theta", mu, tau, shape=8)
        else:
            theta = pm.Deterministic("theta", mu + tau * pm.Normal("theta_raw", 0, 1, shape=8))
        pm.Normal("y", theta, ERRORS, observed=EFFECTS)
    return model
