"""Time series of posteriordb: autoregressions, volatility, hidden Markov models, three ODEs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from aide.scorecard.models.model import Data, Draws, Model, column, flat

STEPS_A_YEAR = 20
"""Runge-Kutta steps in a year of the hares and lynxes: doubling them moves no population by more
than a millionth of its size."""
STEPS_A_WEEK = 20
"""Runge-Kutta steps between two counts of the infected; likewise."""
HALF_INFECTIVE = 1e6
"""Concentration of bacteria at which half of the largest rate of infection is reached."""
STEPS_A_SAMPLE = 20
"""Runge-Kutta steps between two blood samples, half a day apart; likewise."""


def autoregression(y: np.ndarray, order: int) -> None:
    """Each value given the `order` values before it."""
    alpha: Any = numpyro.sample("alpha", dist.Normal(0.0, 10.0))
    beta: Any = numpyro.sample("beta", dist.Normal(0.0, 10.0).expand([order]))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    lagged = jnp.stack([y[order - lag : len(y) - lag] for lag in range(1, order + 1)], axis=1)
    numpyro.sample("y", dist.Normal(alpha + lagged @ beta, sigma), obs=y[order:])


def moving_average(y: np.ndarray) -> None:
    """ARMA(1, 1); the error before the first observation is 0, the value before it the mean."""
    mu: Any = numpyro.sample("mu", dist.Normal(0.0, 10.0))
    phi: Any = numpyro.sample("phi", dist.Normal(0.0, 2.0))
    theta: Any = numpyro.sample("theta", dist.Normal(0.0, 2.0))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    first = y[0] - (mu + phi * mu)

    def step(error: Any, pair: Any) -> tuple[Any, Any]:
        before, now = pair
        following = now - (mu + phi * before + theta * error)
        return following, following

    _, later = jax.lax.scan(step, first, (jnp.asarray(y[:-1]), jnp.asarray(y[1:])))
    errors = jnp.concatenate([first[None], later])
    numpyro.factor("y", jnp.sum(dist.Normal(0.0, sigma).log_prob(errors)))


def volatility(y: np.ndarray, first_sd: float) -> None:
    """GARCH(1, 1); beta1, flat on (0, 1 - alpha1), is `share` times the length of that interval."""
    mu = flat("mu")
    alpha0 = flat("alpha0", constraints.positive)
    alpha1: Any = numpyro.sample("alpha1", dist.Uniform(0.0, 1.0))
    share: Any = numpyro.sample("share", dist.Uniform(0.0, 1.0))
    numpyro.factor("length of the interval", jnp.log1p(-jnp.asarray(alpha1)))
    beta1 = (1.0 - alpha1) * share

    def step(variance: Any, last: Any) -> tuple[Any, Any]:
        following = alpha0 + alpha1 * (last - mu) ** 2 + beta1 * variance
        return following, following

    first = jnp.asarray(first_sd, float) ** 2
    _, later = jax.lax.scan(step, first, jnp.asarray(y)[:-1])
    variances = jnp.concatenate([first[None], later])
    numpyro.sample("y", dist.Normal(mu, jnp.sqrt(variances)), obs=y)


def _shares(draws: Draws, data: Data) -> Draws:
    """The database stores beta1."""
    share = draws["beta1"] / (1.0 - draws["alpha1"])
    return {**{name: draws[name] for name in ("mu", "alpha0", "alpha1")}, "share": share}


def forward_pass(log_emissions: Any, transitions: Any) -> Any:
    """Log likelihood of a hidden Markov model whose two initial states have weight 1 each."""

    def step(log_alpha: Any, log_emission: Any) -> tuple[Any, None]:
        moved = jax.nn.logsumexp(log_alpha[:, None] + jnp.log(transitions), axis=0)
        return moved + log_emission, None

    last, _ = jax.lax.scan(step, log_emissions[0], log_emissions[1:])
    return jax.nn.logsumexp(last)


def _transitions(concentrations: np.ndarray) -> Any:
    """Rows of the transition matrix, theta1 and theta2."""
    rows = [
        numpyro.sample(f"theta{row + 1}", dist.Dirichlet(concentrations[row]))
        for row in range(len(concentrations))
    ]
    return jnp.stack([jnp.asarray(row) for row in rows])


def _ordered(name: str, centres: tuple[float, float], support: Any) -> Any:
    """Two values in increasing order, with normal priors of sd 1."""
    values = flat(name, support, (2,))
    log_prior = dist.Normal(jnp.asarray(centres), 1.0).log_prob(values)
    numpyro.factor(f"prior of {name}", jnp.sum(log_prior))
    return values


def hidden_markov(y: np.ndarray) -> None:
    """Two states with normal emissions of sd 1."""
    transitions = _transitions(np.ones((2, 2)))
    mu = _ordered("mu", (3.0, 10.0), constraints.positive_ordered_vector)
    emissions = dist.Normal(mu, 1.0).log_prob(jnp.asarray(y)[:, None])
    numpyro.factor("y", forward_pass(emissions, transitions))


def drives(
    u: np.ndarray, v: np.ndarray, concentrations: np.ndarray, sds: tuple[float, ...]
) -> None:
    """Drives of a basketball player: exponential emissions, or normal ones with known `sds`."""
    transitions = _transitions(concentrations)
    support = constraints.ordered_vector if sds else constraints.positive_ordered_vector
    phi = _ordered("phi", (0.0, 3.0), support)
    lam = _ordered("lambda", (0.0, 3.0), support)
    of_u: Any = dist.Normal(phi, sds[0]) if sds else dist.Exponential(phi)
    of_v: Any = dist.Normal(lam, sds[1]) if sds else dist.Exponential(lam)
    emissions = of_u.log_prob(jnp.asarray(u)[:, None]) + of_v.log_prob(jnp.asarray(v)[:, None])
    numpyro.factor("u and v", forward_pass(emissions, transitions))


def solve(slope: Callable[[Any, Any], Any], begin: Any, times: np.ndarray, num_steps: int) -> Any:
    """Solve an ODE by classical Runge-Kutta steps of equal length between consecutive times.

    Args:
        slope: The slope, a function of time and state.
        begin: The state at time 0.
        times: Increasing times at which the state is returned.
        num_steps: Steps between two of them.
    """
    ends = jnp.asarray(times)
    begins = jnp.concatenate([jnp.zeros(1), ends[:-1]])

    def between(state: Any, span: Any) -> tuple[Any, Any]:
        first, last = span
        size = (last - first) / num_steps

        def step(z: Any, index: Any) -> tuple[Any, None]:
            t = first + size * index
            one = slope(t, z)
            two = slope(t + size / 2, z + size / 2 * one)
            three = slope(t + size / 2, z + size / 2 * two)
            four = slope(t + size, z + size * three)
            return z + size / 6 * (one + 2 * two + 2 * three + four), None

        state, _ = jax.lax.scan(step, state, jnp.arange(num_steps, dtype=float))
        return state, state

    return jax.lax.scan(between, begin, (begins, ends))[1]


def lotka_volterra(times: np.ndarray, first: np.ndarray, measured: np.ndarray) -> None:
    """Hares and lynxes: an ODE with multiplicative errors."""
    rates: Any = numpyro.sample(
        "theta",
        dist.TruncatedNormal(
            jnp.array([1.0, 0.05, 1.0, 0.05]), jnp.array([0.5, 0.05, 0.5, 0.05]), low=0.0
        ).to_event(1),
    )
    begin: Any = numpyro.sample("z_init", dist.LogNormal(np.log(10.0), 1.0).expand([2]).to_event(1))
    sigma: Any = numpyro.sample("sigma", dist.LogNormal(-1.0, 1.0).expand([2]).to_event(1))

    def slope(t: Any, z: Any) -> Any:
        hares, lynxes = z[0], z[1]
        growth = (rates[0] - rates[1] * lynxes) * hares
        return jnp.stack([growth, (-rates[2] + rates[3] * hares) * lynxes])

    found = solve(slope, begin, times, STEPS_A_YEAR)
    numpyro.sample("first", dist.LogNormal(jnp.log(begin), sigma).to_event(1), obs=first)
    numpyro.sample("measured", dist.LogNormal(jnp.log(found), sigma).to_event(2), obs=measured)


def elimination(times: np.ndarray, measured: np.ndarray, dose: float, volume: float) -> None:
    """Absorption of a dose and its saturable elimination from one compartment."""
    absorbed: Any = numpyro.sample("k_a", dist.HalfCauchy(1.0))
    half: Any = numpyro.sample("K_m", dist.HalfCauchy(1.0))
    fastest: Any = numpyro.sample("V_m", dist.HalfCauchy(1.0))
    sigma: Any = numpyro.sample("sigma", dist.HalfCauchy(1.0))

    def slope(t: Any, z: Any) -> Any:
        given = jnp.exp(-absorbed * t) * dose * absorbed / volume
        return given - fastest / volume * z / (half + z)

    found = solve(slope, jnp.zeros(()), times, STEPS_A_SAMPLE)
    numpyro.sample("measured", dist.LogNormal(jnp.log(found), sigma), obs=measured)


def epidemic(times: np.ndarray, y0: np.ndarray, infected: np.ndarray, water: np.ndarray) -> None:
    """An epidemic through water: susceptible, infected, recovered, and bacteria per volume."""
    scales = {"beta": 2.5, "gamma": 1.0, "xi": 25.0, "delta": 1.0}
    rates: dict[str, Any] = {
        name: numpyro.sample(name, dist.HalfCauchy(scale)) for name, scale in scales.items()
    }

    def slope(t: Any, z: Any) -> Any:
        healthy, ill, bacteria = z[0], z[1], z[3]
        new = rates["beta"] * bacteria / (bacteria + HALF_INFECTIVE) * healthy
        gone = rates["gamma"] * ill
        return jnp.stack([-new, new - gone, gone, rates["xi"] * ill - rates["delta"] * bacteria])

    found = solve(slope, jnp.asarray(y0), times, STEPS_A_WEEK)
    healthy = jnp.concatenate([jnp.asarray(y0[:1]), found[:, 0]])
    numpyro.sample("infected", dist.Poisson(healthy[:-1] - healthy[1:]), obs=infected)
    numpyro.sample("water", dist.LogNormal(jnp.log(found[:, 3]), 0.15), obs=water)


def _epidemic(data: Data) -> tuple[np.ndarray, ...]:
    return tuple(column(data, name) for name in ("t", "y0", "stoi_hat", "B_hat"))


def _drives(data: Data) -> tuple[Any, ...]:
    sds = (float(data["tau"]), float(data["rho"])) if "tau" in data else ()
    return column(data, "u"), column(data, "v"), column(data, "alpha"), sds


def _hares(data: Data) -> tuple[Any, ...]:
    return column(data, "ts"), column(data, "y_init"), column(data, "y")


def _doses(data: Data) -> tuple[Any, ...]:
    return column(data, "times"), column(data, "C_hat"), float(data["D"]), float(data["V"])


SERIES = {
    "arK": Model(autoregression, lambda data: (column(data, "y"), int(data["K"]))),
    "arma11": Model(moving_average, lambda data: (column(data, "y"),)),
    "garch11": Model(volatility, lambda data: (column(data, "y"), float(data["sigma1"])), _shares),
    "hmm_example": Model(hidden_markov, lambda data: (column(data, "y"),)),
    "hmm_drive_0": Model(drives, _drives),
    "hmm_drive_1": Model(drives, _drives),
    "lotka_volterra": Model(lotka_volterra, _hares),
    "sir": Model(epidemic, _epidemic),
    "one_comp_mm_elim_abs": Model(elimination, _doses),
}
"""By the name of the Stan program."""
