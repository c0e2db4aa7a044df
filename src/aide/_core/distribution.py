r"""Distributions and log densities of others: what the rest of the code asks of them.

**Distributions** of any library can be sampled and have a normalised log density.

**Where a log density is NaN or $+\infty$**, one rule holds. In floating point a log density may
have no value far outside of everything that matters: $\infty - \infty$ after an overflow, the log
of a rounded-off negative number. As in Stan, NumPyro and PyMC such a point is impossible: the
density that algorithms of this library sample is

$$\bar\gamma(x) = \gamma(x)\,1\{\log\gamma(x) \text{ is a number below } +\infty\},$$

one function of $x$, the same in every weight, proposal and step back. It is a density like any
other, so that all laws of algorithms hold for it as they are. A proposal at such a point is
rejected, a particle there has weight 0.

- *Who applies the rule*: the assemblies (`aide.mcmc`, `aide.ais`, `aide.tempered_smc`,
  `aide.annealed_langevin`, `aide.gold_standard`) hand `possible(log_density)` to kernels and
  weights. Kernels, weights and moves do what the density they are given says.
- *Where NaN stays an error*: at outputs, which are scored by the log density as it was written; in
  importance sampling, whose outputs are its proposals; and everywhere for `aide.algorithms.strict`.
- *Who counts*: `aide.gold_standard`, at draws of its start and along trajectories of its pilots.
"""

import inspect
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from aide._core.algorithm import describe
from aide._core.numerics import as_log
from aide._core.types import Key, LogDensity, LogProb, Value
from aide._core.validate import check_scalar


class DensityDistribution(Protocol):
    """A distribution with `sample(key)` and a scalar `log_density(x)`, as in this library."""

    def sample(self, key: Any, /) -> Value:
        """Draw one value."""
        ...

    def log_density(self, x: Any, /) -> Any:
        """The log density of one value."""
        ...


class ProbabilityDistribution(Protocol):
    """A distribution with `sample(key)` and `log_prob(x)`, as in NumPyro and flowjax."""

    def sample(self, key: Any, /) -> Value:
        """Draw one value."""
        ...

    def log_prob(self, x: Any, /) -> Any:
        """The log density of one value, or of each member of a batch."""
        ...


class SeededDistribution(Protocol):
    """A distribution with `sample(seed=key)` and `log_prob(x)`, as in distrax and TFP."""

    def sample(self, *, seed: Any) -> Value:
        """Draw one value."""
        ...

    def log_prob(self, x: Any, /) -> Any:
        """The log density of one value, or of each member of a batch."""
        ...


Distribution = DensityDistribution | ProbabilityDistribution | SeededDistribution
"""Anything that can be sampled and has a normalised log density; no base class is needed."""


def sample_from(distribution: Any, key: Key) -> Value:
    """Draw one value from any object with `sample`; distrax and TFP call the key `seed`."""
    sample = distribution.sample
    if "seed" in inspect.signature(sample).parameters:
        return in_full_precision(sample(seed=key))
    return in_full_precision(sample(key))


def in_full_precision(value: Value) -> Value:
    r"""The same with all reals in JAX's default precision: double, where estimates are made.

    A draw in single precision would be scored in single precision, and its $\log\xi$ would differ
    by rounding (1e-7) between programs: what is exact would look random.
    """

    def promote(leaf: Any) -> Any:
        is_real = jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
        return jnp.asarray(leaf, float) if is_real else leaf

    return jax.tree.map(promote, value)


def log_density_of(distribution: Any, x: Value) -> LogProb:
    r"""The scalar log density of one value: a batch of distributions counts as their product.

    It is normalised: the constant of an `aide.Tractable` (its `log_z`) is taken off. NumPyro's
    `log_prob` may return anything outside the support; its `support` says where that is, and the
    result is $-\infty$ there.
    """
    log_density = getattr(distribution, "log_density", None)
    if log_density is not None:
        _check_normalised("the distribution", distribution)
        return as_log(log_density(x)) - getattr(distribution, "log_z", 0.0)
    log_prob = as_log(distribution.log_prob(x))
    support = getattr(distribution, "support", None)
    if callable(support):
        log_prob = jnp.where(jnp.asarray(support(x)), log_prob, -jnp.inf)
    return jnp.sum(log_prob)


def is_distribution(thing: object) -> bool:
    """Whether it is an instance with `sample` and a log density."""
    density = getattr(thing, "log_density", None) or getattr(thing, "log_prob", None)
    methods = (getattr(thing, "sample", None), density)
    return not isinstance(thing, type) and all(callable(method) for method in methods)


def check_distribution(name: str, thing: object) -> None:
    """Raise unless `thing` can be sampled and its normalised density evaluated."""
    if not is_distribution(thing):
        raise TypeError(
            f"{name} must be an object with sample(key) and log_prob(x) (or log_density(x)), got "
            f"{thing!r}. Pass an instance, or the two functions as aide.Tractable(sample, "
            "log_density)."
        )
    _check_normalised(name, thing)


def _check_normalised(name: str, thing: object) -> None:
    """Raise if it says itself that its constant is unknown; saying nothing means normalised."""
    if hasattr(thing, "log_density") and getattr(thing, "log_z", 0.0) is None:
        raise ValueError(
            f"{name} must have a normalised density, but log_z of {describe(thing)} is None "
            "(unknown). State its constant, log_z=...; a density without one can be log_joint, "
            "never a start, prior or proposal."
        )


class LogDensityOf(eqx.Module):
    """The log density of a distribution as a function that is a pytree."""

    distribution: Distribution

    def __call__(self, x: Value) -> LogProb:
        """Evaluate it."""
        return log_density_of(self.distribution, x)


class SampleFrom(eqx.Module):
    """The sampler of a distribution as a function that is a pytree."""

    distribution: Distribution

    def __call__(self, key: Key) -> Value:
        """Draw one value."""
        return sample_from(self.distribution, key)


class Possible(eqx.Module):
    r"""$\log\bar\gamma$: a log density that is $-\infty$ where the given one has no value."""

    log_density: LogDensity

    def __call__(self, x: Value) -> Any:
        """Evaluate it; what is not one real number is returned as it is."""
        value = self.log_density(x)
        if value is None or np.shape(value) != () or not is_real(value):
            return value  # an error, which those who asked have better words for
        return jnp.where(has_no_value(value), -jnp.inf, value)


class Strict(eqx.Module):
    r"""A log density for which NaN and $+\infty$ are errors wherever they occur; see `strict`."""

    log_density: LogDensity

    def __call__(self, x: Value) -> LogProb:
        """Evaluate it."""
        return self.log_density(x)


def strict(log_density: LogDensity) -> Strict:
    r"""The same log density, for which NaN and $+\infty$ are errors wherever they occur.

    Without it a proposal or a particle at a point where the log density has no value counts as
    impossible, and NaN is an error at outputs alone. Use it where NaN could only mean a mistake in
    the program: `aide.mcmc(start, strict(log_joint), kernel=kernel, num_steps=100)`.
    """
    return Strict(log_density)


def possible(log_density: LogDensity) -> LogDensity:
    r"""$\log\bar\gamma$, or the log density itself if it is strict or has been wrapped before."""
    return log_density if isinstance(log_density, Strict | Possible) else Possible(log_density)


def as_written(log_density: LogDensity) -> LogDensity:
    """The log density behind `possible`, as its author wrote it."""
    return log_density.log_density if isinstance(log_density, Possible) else log_density


def evaluate(log_density: LogDensity, x: Value) -> tuple[LogProb, Bool[Array, ""]]:
    """The value by the rule, and whether there was none as the log density is written."""
    written = check_scalar("log_joint", as_written(log_density)(x))
    lost = has_no_value(written)
    rule = isinstance(log_density, Possible)
    return (jnp.where(lost, -jnp.inf, written) if rule else written), lost


def has_no_value(log_density: Array) -> Bool[Array, "..."]:
    r"""Whether the value of a log density is NaN or $+\infty$."""
    return jnp.isnan(log_density) | (log_density == jnp.inf)


def is_real(value: object) -> bool:
    """Whether a value is of a real floating-point type, the only one that can be NaN here."""
    return jnp.issubdtype(jnp.result_type(value), jnp.floating)
