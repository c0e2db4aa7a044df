"""Algorithms whose output density is known: exact posteriors, variational fits, flows."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx

from aide._core.algorithm import Draw, Label, log_z_of
from aide._core.distribution import (
    Distribution,
    LogDensityOf,
    SampleFrom,
    check_distribution,
    in_full_precision,
)
from aide._core.jax_compat import is_traced
from aide._core.numerics import as_log
from aide._core.types import Key, LogDensity, LogProb, Value
from aide._core.versions import AbstractAlgorithm


class Tractable(AbstractAlgorithm):
    r"""A sampler with a density: $\log\xi = \log q(x) + \log Z$, the same in both operations.

    Args:
        sample: Draws $x$ from a key.
        log_density: $\log q(x) + \log Z$ of one output: a scalar.
        log_z: $\log Z$; 0.0 if the density is normalised (the default), `None` if it is known up
            to a constant only.
        label: A name for tables.

    Example:
        >>> normal = Normal(0.0, 1.0)
        >>> one = aide.Tractable(normal.sample, normal.log_prob)
        >>> same = aide.Tractable.of(normal)  # anything with sample and log_prob
        >>> unnormalised = aide.Tractable(normal.sample, lambda x: -0.5 * x**2, log_z=None)
    """

    determines_log_xi: ClassVar[bool] = True

    sample: Callable[[Key], Value]
    log_density: LogDensity
    log_z: float | None = 0.0
    label: str = eqx.field(converter=Label, default="")

    def __check_init__(self) -> None:
        if not is_traced(self.log_z):
            log_z_of(self)

    def __repr__(self) -> str:
        """The algorithm's name and the knowledge of its density, on one line."""
        if self.log_z is None:
            known = "its density up to a constant"
        elif is_traced(self.log_z) or self.log_z != 0.0:
            known = f"its density times exp({self.log_z})"
        else:
            known = "its normalised density"
        return f"{super().__repr__()}, a sampler with {known}"

    def simulate(self, key: Key) -> Draw:
        r"""Sample $x$; return it with $\log q(x) + \log Z$."""
        x = in_full_precision(self.sample(key))
        return Draw(x, self.regenerate(key, x))

    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""$\log q(x) + \log Z$; the key is not used."""
        return as_log(self.log_density(value))

    @staticmethod
    def of(distribution: Distribution, label: str = "") -> "Tractable":
        """A `Tractable` from anything with `sample(key)` and `log_prob(x)` (or `log_density(x)`).

        Distributions of NumPyro, flowjax and distrax qualify. A batch of distributions counts as
        one product distribution: its log probabilities are added up.
        """
        check_distribution("distribution", distribution)
        name = label or type(distribution).__name__
        return Tractable(SampleFrom(distribution), LogDensityOf(distribution), label=name)


class Amortized(AbstractAlgorithm):
    """An amortised variational family: one encoder, reused for every observation.

    Args:
        encoder: Maps an observation to a distribution over $x$ (with `sample` and `log_prob`). If
            the encoder is a pytree (an equinox network), neither new weights nor new observations
            recompile anything.
        observation: The data set; `with_observation` changes it.

    Example:
        >>> encoder = lambda y: Normal(0.5 * y, 0.7)
        >>> fit = aide.Amortized(encoder, jnp.array(2.0))
        >>> other = fit.with_observation(jnp.array(-1.0))
        >>> float(fit.simulate(jax.random.key(0)).log_xi) < 0.0
        True
    """

    determines_log_xi: ClassVar[bool] = True

    encoder: Callable[[Any], Distribution]
    observation: Value
    label: str = eqx.field(converter=Label, default="")

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

    def with_observation(self, observation: Value) -> "Amortized":
        """The same approximation for another data set."""
        return Amortized(self.encoder, observation, self.label)
