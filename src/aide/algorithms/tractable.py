"""Algorithms whose output density is known: exact posteriors, variational fits, flows."""

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from aide._algorithm import Draw
from aide._types import Key, LogDensity, LogProb, Value


class Tractable(eqx.Module):
    r"""A sampler with a density: $\log\xi = \log q(x) + \log Z$, the same in both operations.

    Args:
        sample: Draws $x$ from a key.
        log_density: $\log q(x) + \log Z$ of one output: a scalar.
        log_z: $\log Z$; 0.0 if the density is normalised (the default), `None` if it is known up
            to a constant only.
        label: A name for tables.
    """

    sample: Callable[[Key], Value]
    log_density: LogDensity
    log_z: float | None = 0.0
    label: str = eqx.field(static=True, default="")

    def simulate(self, key: Key) -> Draw:
        r"""Sample $x$; return it with $\log q(x) + \log Z$."""
        x = self.sample(key)
        return Draw(x, self.regenerate(key, x))

    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""$\log q(x) + \log Z$; the key is not used."""
        return jnp.asarray(self.log_density(value), float)

    @staticmethod
    def of(distribution: Any, label: str = "") -> "Tractable":
        """A `Tractable` from anything with `sample(key)` and `log_prob(x)` (or `log_density(x)`).

        Distributions of NumPyro, flowjax and distrax qualify. A batch of distributions counts as
        one product distribution: its log probabilities are added up.
        """
        methods = (getattr(distribution, "sample", None), _density_method(distribution))
        if not all(callable(method) for method in methods):
            raise TypeError(
                f"{type(distribution).__name__} needs sample(key) and log_prob(x) (or "
                "log_density(x)); pass the two functions to aide.Tractable instead."
            )
        name = label or type(distribution).__name__
        return Tractable(_Sample(distribution), _LogDensity(distribution), label=name)


class _Sample(eqx.Module):
    distribution: Any

    def __call__(self, key: Key) -> Value:
        return sample_from(self.distribution, key)


class _LogDensity(eqx.Module):
    distribution: Any

    def __call__(self, x: Value) -> LogProb:
        return log_density_of(self.distribution, x)


def sample_from(distribution: Any, key: Key) -> Value:
    """Draw one value from any object with `sample`; distrax and TFP call the key `seed`."""
    sample = distribution.sample
    if "seed" in inspect.signature(sample).parameters:
        return sample(seed=key)
    return sample(key)


def log_density_of(distribution: Any, x: Value) -> LogProb:
    """The scalar log density of one value under any object with `log_prob` or `log_density`."""
    return jnp.sum(jnp.asarray(_density_method(distribution)(x), float))


def _density_method(distribution: Any) -> Any:
    return getattr(distribution, "log_prob", None) or getattr(distribution, "log_density", None)


class Amortized(eqx.Module):
    """An amortised variational family: one encoder, reused for every observation.

    Args:
        encoder: Maps an observation to a distribution over $x$ (with `sample` and `log_prob`). If
            it is a pytree (an equinox network), neither new weights nor new observations
            recompile anything.
        observation: The data set at hand; `with_observation` changes it.
    """

    encoder: Callable[[Any], Any]
    observation: Any
    label: str = eqx.field(static=True, default="")

    @property
    def log_z(self) -> float:
        r"""$\log Z = 0$: the approximation is normalised."""
        return 0.0

    def simulate(self, key: Key) -> Draw:
        """Sample from the approximation for this observation."""
        return Tractable.of(self.encoder(self.observation)).simulate(key)

    def regenerate(self, key: Key, value: Value) -> LogProb:
        """The approximation's log density; the key is not used."""
        return Tractable.of(self.encoder(self.observation)).regenerate(key, value)

    def with_observation(self, observation: Any) -> "Amortized":
        """The same approximation for another data set."""
        return Amortized(self.encoder, observation, self.label)
