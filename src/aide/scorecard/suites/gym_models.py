"""Targets of the Inference Gym in NumPyro: `GYM_MODELS` has them by name.

The gym samples latent paths themselves; these models sample their standard normal noise, and
`quantities` computes the paths. The posterior of what is published is the same.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from aide.scorecard.suites.suite import Values

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
"""Effects of coaching in eight schools and their standard errors (Rubin 1981)."""
WALK_STEP = 0.1
"""Scale of the steps of the Brownian motion of known scale."""
LORENZ_SCALE = 0.1
"""Scale of the noise of the Lorenz system."""
LORENZ_STEP = 0.02
"""Time between two states of the Lorenz system."""
Arrays = Mapping[str, np.ndarray]


class GymModel(NamedTuple):
    """A target in NumPyro.

    Attributes:
        model: The NumPyro model.
        data: The file of its data in the checkout; empty if it needs none.
        arguments: The arguments of the model, computed from these arrays.
        quantities: What the gym publishes, computed from draws.
    """

    model: Callable[..., None]
    data: str
    arguments: Callable[[Arrays], tuple[Any, ...]]
    quantities: Callable[[Values], Values]


def _noise(shape: tuple[int, ...]) -> Any:
    return numpyro.sample("noise", dist.Normal(0.0, 1.0).expand(shape).to_event(len(shape)))


def _observe(path: Any, observed: np.ndarray, scale: Any) -> None:
    """Observe a path where the observation is not NaN."""
    seen = ~np.isnan(observed)
    each = dist.Normal(path[seen], scale).to_event(1)
    numpyro.sample("observed", each, obs=np.asarray(observed[seen], np.float64))


def schools() -> None:
    """Eight schools; the log of the spread of the effects is N(5, 1)."""
    mean: Any = numpyro.sample("avg_effect", dist.Normal(0.0, 10.0))
    log_sd: Any = numpyro.sample("log_stddev", dist.Normal(5.0, 1.0))
    effects = mean + jnp.exp(log_sd) * _noise((8,))
    numpyro.sample("effects", dist.Normal(effects, ERRORS).to_event(1), obs=EFFECTS)


def _school_effects(values: Values) -> Values:
    mean, log_sd = values["avg_effect"], values["log_stddev"]
    effects = mean[:, None] + np.exp(log_sd)[:, None] * values["noise"]
    return {"avg_effect": mean, "log_stddev": log_sd, "school_effects": effects}


def walk(observed: np.ndarray, error: float) -> None:
    """A Brownian motion of known scale; its middle is not observed."""
    _observe(WALK_STEP * jnp.cumsum(_noise(observed.shape)), observed, error)


def walk_of_unknown_scales(observed: np.ndarray) -> None:
    """A Brownian motion of unknown scale, observed with an unknown error."""
    step: Any = numpyro.sample("innovation_noise_scale", dist.LogNormal(0.0, 2.0))
    error = numpyro.sample("observation_noise_scale", dist.LogNormal(0.0, 2.0))
    _observe(step * jnp.cumsum(_noise(observed.shape)), observed, error)


def _known_walk(values: Values) -> Values:
    return {"x": WALK_STEP * np.cumsum(values["noise"], axis=1)}


def _unknown_walk(values: Values) -> Values:
    step = values["innovation_noise_scale"]
    path = step[:, None] * np.cumsum(values["noise"], axis=1)
    names = ("innovation_noise_scale", "observation_noise_scale")
    return {**{name: values[name] for name in names}, "locs": path}


def lorenz_path(noise: Any, scale: Any) -> Any:
    """Return states (time, 3) of a Lorenz system with noise in each of its Euler steps."""

    def step(state: Any, push: Any) -> tuple[Any, Any]:
        x, y, z = state
        slope = jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
        after = state + LORENZ_STEP * slope + LORENZ_STEP**0.5 * scale * push
        return after, after

    return jnp.concatenate([noise[:1], jax.lax.scan(step, noise[0], noise[1:])[1]])


def lorenz(observed: np.ndarray, error: float) -> None:
    """A Lorenz system whose first coordinate is observed, but not in the middle."""
    _observe(lorenz_path(_noise((observed.size, 3)), LORENZ_SCALE)[:, 0], observed, error)


def lorenz_of_unknown_scales(observed: np.ndarray) -> None:
    """The same with unknown scales of the noise and of the observations."""
    scale: Any = numpyro.sample("innovation_scale", dist.LogNormal(-1.0, 1.0))
    error = numpyro.sample("observation_scale", dist.LogNormal(-1.0, 1.0))
    _observe(lorenz_path(_noise((observed.size, 3)), scale)[:, 0], observed, error)


def _lorenz_latents(values: Values) -> Values:
    names = ("innovation_scale", "observation_scale")
    with jax.enable_x64(True):
        parts = jnp.asarray(values["noise"]), jnp.asarray(values[names[0]])
        path = jax.jit(jax.vmap(lorenz_path))(*parts)
    return {**{name: values[name] for name in names}, "latents": np.asarray(path)}


def _lorenz_states(values: Values) -> Values:
    with jax.enable_x64(True):
        both = jax.jit(jax.vmap(lambda noise: lorenz_path(noise, LORENZ_SCALE)))
        return {"x": np.asarray(both(jnp.asarray(values["noise"])))}


def volatility(returns: np.ndarray) -> None:
    """Returns whose log variance is an autoregressive series."""
    persistence: Any = numpyro.sample("persistence", dist.Beta(20.0, 1.5))
    mean: Any = numpyro.sample("mean_log_volatility", dist.Cauchy(0.0, 5.0))
    shock: Any = numpyro.sample("white_noise_shock_scale", dist.HalfCauchy(2.0))
    path = volatility_path(2 * persistence - 1, mean, shock, _noise(returns.shape))
    numpyro.sample("returns", dist.Normal(0.0, jnp.exp(path / 2)).to_event(1), obs=returns)


def volatility_path(rho: Any, mean: Any, shock: Any, noise: Any) -> Any:
    """Return the log volatility, whose first value has the law of all values."""

    def step(before: Any, push: Any) -> tuple[Any, Any]:
        after = rho * before + shock * push
        return after, after

    first = shock / jnp.sqrt(1 - rho**2) * noise[0]
    later = jax.lax.scan(step, first, noise[1:])[1]
    return mean + jnp.concatenate([first[None], later])


def _volatilities(values: Values) -> Values:
    names = ("mean_log_volatility", "white_noise_shock_scale")
    rho = 2 * values["persistence"] - 1
    with jax.enable_x64(True):
        parts = (rho, *(values[name] for name in names), values["noise"])
        path = jax.jit(jax.vmap(volatility_path))(*map(jnp.asarray, parts))
    found = {name: values[name] for name in names}
    return {**found, "persistence_of_volatility": rho, "log_volatility": np.asarray(path)}


def _walk_data(data: Arrays) -> tuple[Any, ...]:
    return (data["OBSERVED_LOC"],)


def _returns(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays], tuple[Any, ...]]:
    def arguments(data: Arrays) -> tuple[Any, ...]:
        last = np.diff(function(data["CLOSING_PRICES"]))[-100:]
        return (last - last.mean(),)

    return arguments


_WALK = "brownian_motion_missing_middle_observations"
GYM_MODELS = {
    "eight_schools": GymModel(schools, "", lambda data: (), _school_effects),
    _WALK: GymModel(
        walk,
        _WALK,
        lambda data: (*_walk_data(data), float(data["OBSERVATION_NOISE"])),
        _known_walk,
    ),
    "brownian_motion_unknown_scales_missing_middle_observations": GymModel(
        walk_of_unknown_scales, _WALK, _walk_data, _unknown_walk
    ),
    "convection_lorenz_bridge": GymModel(
        lorenz,
        "convection_lorenz_bridge",
        lambda data: (data["OBSERVED_VALUES"], float(data["OBSERVATION_SCALE"])),
        _lorenz_states,
    ),
    "convection_lorenz_bridge_unknown_scales": GymModel(
        lorenz_of_unknown_scales,
        "convection_lorenz_bridge",
        lambda data: (data["OBSERVED_VALUES"],),
        _lorenz_latents,
    ),
    "stochastic_volatility_sp500_small": GymModel(
        volatility, "sp500_closing_prices", _returns(np.asarray), _volatilities
    ),
    "stochastic_volatility_log_sp500_small": GymModel(
        volatility, "sp500_closing_prices", _returns(np.log), _volatilities
    ),
}
"""By the name of the file of ground truth."""
