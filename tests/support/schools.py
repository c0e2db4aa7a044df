"""Eight schools (Rubin 1981), centred and not, in every library that there is an adapter for.

Stan comes without Stan, too: `BridgedSchools` has the interface of `bridgestan.StanModel`, in
NumPy. The NumPyro models are in `support.numpyro_schools`.
"""

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


def log_normal(x, mean, std):
    return -0.5 * ((x - mean) / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))


class BridgedSchools:
    """Eight schools, centred: mu, tau > 0, theta[8]; a transformed parameter `spread`."""

    def param_names(self, *, include_tp=False, include_gq=False):
        names = ["mu", "tau", *(f"theta.{i}" for i in range(1, 9))]
        return names + ["spread"] * (include_tp or include_gq)

    def param_unc_num(self) -> int:
        return 10

    def param_constrain(self, theta_unc):
        return np.array([theta_unc[0], np.exp(theta_unc[1]), *theta_unc[2:]])

    def param_unconstrain(self, theta):
        if theta[1] <= 0:
            raise RuntimeError("tau must be positive")
        return np.array([theta[0], np.log(theta[1]), *theta[2:]])

    def log_density(self, theta_unc, *, propto=True, jacobian=True):
        if theta_unc[1] > 700:
            raise RuntimeError("Scale parameter is inf")
        mu, log_tau, theta = theta_unc[0], theta_unc[1], theta_unc[2:]
        tau = np.exp(log_tau)
        prior = log_normal(mu, 0, 5) - np.log(np.pi * 2.5 * (1 + (tau / 5) ** 2)) + log_tau
        value = (
            prior + np.sum(log_normal(theta, mu, tau)) + np.sum(log_normal(EFFECTS, theta, ERRORS))
        )
        return float(value + 39.0 * propto - log_tau * (not jacobian))

    def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True):
        mu, tau, theta = theta_unc[0], np.exp(theta_unc[1]), theta_unc[2:]
        z, heavy = (theta - mu) / tau, (tau / 5) ** 2
        of_mu = -mu / 25 + np.sum(z) / tau
        of_log_tau = 1 - 2 * heavy / (1 + heavy) + np.sum(z**2 - 1)
        of_theta = -z / tau + (EFFECTS - theta) / ERRORS**2
        slope = np.array([of_mu, of_log_tau, *of_theta])
        return self.log_density(theta_unc, propto=propto), slope


class BridgedOddities(BridgedSchools):
    """matrix[2, 2] in Stan's order, then a variable above another one, then a simplex of 3."""

    keeps_constants = False

    def param_names(self, *, include_tp=False, include_gq=False):
        matrix = ["B.1.1", "B.2.1", "B.1.2", "B.2.2"]
        return [*matrix, "low", "high", "s.1", "s.2", "s.3"]

    def param_unc_num(self) -> int:
        return 8

    def param_constrain(self, theta_unc):
        low, gap, *logits = theta_unc[4:]
        shares = np.exp([0.0, *logits])
        return np.array([*theta_unc[:4], low, low + np.exp(gap), *(shares / shares.sum())])

    def param_unconstrain(self, theta):
        logits = np.log(theta[7:] / theta[6])
        return np.array([*theta[:4], theta[4], np.log(theta[5] - theta[4]), *logits])

    def log_density(self, theta_unc, *, propto=True, jacobian=True):
        return -0.5 * float(np.sum(theta_unc**2))

    def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True):
        return self.log_density(theta_unc), -theta_unc
