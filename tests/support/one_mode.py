"""What a missing mode looks like to AIDE and to the diagnostics people use.

The posterior is p = ½ N(−8, 1) + ½ N(8, 1). One approximation is exact; the others sit in one mode.
All are looked at by

- AIDE, against exact draws of p, and its 95% sandwich; the truth by quadrature (all in nats);
- R-hat (ArviZ) of four batches of draws, and of four NUTS chains (BlackJAX) that start there;
- the Pareto k of the importance weights p/q (PSIS, ArviZ);
- the kernel Stein discrepancy with the inverse multiquadric kernel (`stein-thinning`).

ArviZ, BlackJAX and stein-thinning are installed by `make install`.
"""

import warnings
from typing import Any, NamedTuple

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import integrate, stats
from stein_thinning.kernel import make_imq
from stein_thinning.stein import ksd

import aide
from aide.problems.distributions import Normal

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its next version at every import
    import arviz

MODE = 8.0
NUM_CHAINS, NUM_STEPS = 4, 1000
NUM_RUNS = NUM_CHAINS * NUM_STEPS
NUM_POINTS = 1000
"""Draws for the kernel Stein discrepancy, which compares all pairs."""


class Mixture(eqx.Module):
    """½ N(−8, 1) + ½ N(8, 1)."""

    def sample(self, key: Any) -> Any:
        """Draw one value."""
        key_side, key_x = jax.random.split(key)
        return jnp.where(jax.random.bernoulli(key_side), MODE, -MODE) + jax.random.normal(key_x)

    def log_prob(self, x: Any) -> Any:
        """Normalised log density."""
        left, right = Normal(-MODE, 1.0).log_prob(x), Normal(MODE, 1.0).log_prob(x)
        return jnp.logaddexp(left, right) - jnp.log(2.0)


class Row(NamedTuple):
    """One approximation and what is said about it."""

    name: str
    truth: float
    aide: aide.estimation.Estimate
    rhat: float
    rhat_nuts: float
    pareto_k: float
    stein: float


def measure(name: str, approximation: Any, seed: int = 0) -> Row:
    """Everything about one approximation, a distribution."""
    key = jax.random.key(seed)
    gold, target = aide.Tractable.of(Mixture(), "exact"), aide.Tractable.of(approximation, name)
    result = aide.estimate(key, gold, target, num_gold=NUM_RUNS, num_target=NUM_RUNS)
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.fold_in(key, 1), NUM_RUNS)
        draws = jax.vmap(approximation.sample)(keys)
        log_weights = jax.vmap(Mixture().log_prob)(draws) - jax.vmap(approximation.log_prob)(draws)
        scores = jax.vmap(jax.grad(Mixture().log_prob))(draws)
        chains = run_chains(jax.random.fold_in(key, 2), draws[:NUM_CHAINS])
    return Row(
        name,
        true_divergence(approximation),
        result,
        float(arviz.rhat(np.asarray(draws).reshape(NUM_CHAINS, NUM_STEPS))),
        float(arviz.rhat(np.asarray(chains))),
        pareto_k(np.asarray(log_weights)),
        stein_discrepancy(np.asarray(draws), np.asarray(scores)),
    )


def true_divergence(approximation: Any) -> float:
    """Symmetrised KL divergence by quadrature."""

    def integrand(x: float) -> float:
        log_p, log_q = float(log_mixture(x)), float(log_of(approximation, x))
        return (np.exp(log_p) - np.exp(log_q)) * (log_p - log_q)

    points = [-MODE, 0.0, MODE]
    value, _ = integrate.quad(integrand, -25.0, 25.0, points=points, limit=500)
    return float(value)


def log_mixture(x: float) -> float:
    """Log density of p with SciPy."""
    parts = stats.norm.logpdf(x, [-MODE, MODE])
    return float(np.logaddexp(*parts) - np.log(2.0))


def log_of(approximation: Any, x: float) -> float:
    """Log density of q with SciPy."""
    if isinstance(approximation, Normal):
        return float(stats.norm.logpdf(x, approximation.mean, approximation.std))
    return log_mixture(x)


@jax.jit
def run_chains(key: Any, starts: Any) -> Any:
    """NUTS from every start, shape (chains, steps)."""
    log_density = lambda x: Mixture().log_prob(x[0])
    nuts: Any = blackjax.nuts(log_density, 0.7, np.ones(1))

    def chain(key: Any, start: Any) -> Any:
        def step(state: Any, subkey: Any) -> Any:
            state, _ = nuts.step(subkey, state)
            return state, state.position[0]

        return jax.lax.scan(step, nuts.init(start[None]), jax.random.split(key, NUM_STEPS))[1]

    return jax.vmap(chain)(jax.random.split(key, NUM_CHAINS), starts)


def pareto_k(log_weights: np.ndarray) -> float:
    """The Pareto k of ArviZ's PSIS; equal weights have no tail at all."""
    if np.ptp(log_weights) < 1e-9:
        return -np.inf
    return float(arviz.psislw(log_weights)[1])


def stein_discrepancy(draws: np.ndarray, scores: np.ndarray) -> float:
    """KSD of the first draws, with the kernel (1 + |x - y|²)^(-½)."""
    x, s = draws[:NUM_POINTS, None], scores[:NUM_POINTS, None]
    kernel = make_imq(x, "id")
    values = ksd(lambda i, j: kernel(x[i], x[j], s[i], s[j]), NUM_POINTS)
    return float(values[-1])


def rows(seed: int = 0) -> list[Row]:
    """The table."""
    return [
        measure("exact", Mixture(), seed),
        measure("one mode, N(8, 1)", Normal(MODE, 1.0), seed),
        measure("one mode, N(8.1, 1.1²)", Normal(8.1, 1.1), seed),
    ]
