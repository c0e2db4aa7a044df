r"""Distributions of any library, log densities of users, and where a density has no value.

**Distributions** can be sampled and have a normalised log density. `sample_from` and
`log_density_of` call those of this library, NumPyro, flowjax, distrax and TFP alike.

**Where a log density is NaN or $+\infty$**, one rule holds. In floating point a log density may
have no value far outside of everything that matters: $\infty - \infty$ after an overflow, the log
of a rounded-off negative number. As in Stan, NumPyro and PyMC such a point is impossible: the
density that algorithms of this library sample is

$$\bar\gamma(x) = \gamma(x)\,1\{\log\gamma(x) \text{ is a number below } +\infty\},$$

one function of $x$, the same in every weight, proposal and step back. It is a density like any
other, so that all laws of algorithms hold for it as they are. A proposal at such a point is
rejected, a particle there has weight 0.

- *Who applies the rule*: the functions that build algorithms (`aide.mcmc`, `aide.ais`,
  `aide.tempered_smc`, `aide.annealed_langevin`, `aide.gold_standard`) hand
  `possible(log_density)` to kernels and weights. Kernels, weights and moves use the density that
  they are given.
- *Where NaN stays an error*: at outputs, which are scored by the log density as it was written; in
  importance sampling, whose outputs are its proposals; and everywhere for `aide.algorithms.strict`.
- *Who counts such points*: `aide.gold_standard`, at draws of its start and along trajectories of
  its pilots.
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
    """Draw one value in full precision from an object with `sample(key)` or `sample(seed=key)`."""
    sample = distribution.sample
    if "seed" in inspect.signature(sample).parameters:
        return in_full_precision(sample(seed=key))
    return in_full_precision(sample(key))


def in_full_precision(value: Value) -> Value:
    r"""Return the value with all reals in JAX's default precision, which is double in estimates.

    A draw in single precision would be scored in single precision, and its $\log\xi$ would differ
    by rounding (1e-7) between programs: an exact score would look random.
    """

    def promote(leaf: Any) -> Any:
        is_real = jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
        return jnp.asarray(leaf, float) if is_real else leaf

    return jax.tree.map(promote, value)


def log_density_of(distribution: Any, x: Value) -> LogProb:
    r"""Return the scalar log density of one value; a batch of distributions is their product.

    The log density is normalised: `log_z` of an `aide.Tractable` is subtracted. `log_prob` of a
    NumPyro distribution may return any number outside of the `support`; the result there is
    $-\infty$.
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
    """Whether an object is an instance (not a class) with `sample` and a log density."""
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
    """Raise if the object states `log_z = None`; without `log_z` it counts as normalised."""
    if hasattr(thing, "log_density") and getattr(thing, "log_z", 0.0) is None:
        raise ValueError(
            f"{name} must have a normalised density, but log_z of {describe(thing)} is None "
            "(unknown). State the constant, log_z=...; a density whose constant is unknown can be "
            "a log_joint, never a start, prior or proposal."
        )


class LogDensityOf(eqx.Module):
    """The log density of a distribution as a function that is a pytree."""

    distribution: Distribution

    def __call__(self, x: Value) -> LogProb:
        """Return the log density of the distribution at `x`."""
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
        """Return the value by the rule; a result that is not one real number is left as it is."""
        value = self.log_density(x)
        if value is None or np.shape(value) != () or not is_real(value):
            return value  # the caller raises an error that names the argument
        return jnp.where(has_no_value(value), -jnp.inf, value)


class Strict(eqx.Module):
    r"""A log density for which NaN and $+\infty$ are errors wherever they occur; see `strict`."""

    log_density: LogDensity

    def __call__(self, x: Value) -> LogProb:
        """Return the log density at `x`, as its author wrote it."""
        return self.log_density(x)


def strict(log_density: LogDensity) -> Strict:
    r"""Mark a log density as one for which NaN and $+\infty$ are errors wherever they occur.

    Without the mark, a proposal or a particle at a point where the log density has no value counts
    as impossible, and NaN is an error at outputs alone. Use `strict` where NaN could only mean a
    mistake in the program: `aide.mcmc(start, strict(log_joint), kernel=kernel, num_steps=100)`.

    Args:
        log_density: A function of one output $x$ that returns a scalar.

    Returns:
        The log density, marked.

    Example:
        >>> import jax.numpy as jnp
        >>> from aide.algorithms import strict
        >>> log_density = strict(lambda x: -0.5 * jnp.sum(x**2))
        >>> float(log_density(jnp.ones(2)))
        -1.0
    """
    return Strict(log_density)


def possible(log_density: LogDensity) -> LogDensity:
    r"""Return $\log\bar\gamma$; a log density that is strict or a `Possible` is left as it is."""
    return log_density if isinstance(log_density, Strict | Possible) else Possible(log_density)


def as_written(log_density: LogDensity) -> LogDensity:
    """Return the log density inside a `Possible`, as its author wrote it."""
    return log_density.log_density if isinstance(log_density, Possible) else log_density


def evaluate(log_density: LogDensity, x: Value) -> tuple[LogProb, Bool[Array, ""]]:
    r"""Evaluate a log density, and tell whether it has a value at that point.

    Returns:
        The value ($-\infty$ where a `Possible` density has none), and whether the log density as
        its author wrote it is NaN or $+\infty$.
    """
    written = check_scalar("log_joint", as_written(log_density)(x))
    has_none = has_no_value(written)
    if isinstance(log_density, Possible):
        return jnp.where(has_none, -jnp.inf, written), has_none
    return written, has_none


def has_no_value(log_density: Array) -> Bool[Array, "..."]:
    r"""Whether the value of a log density is NaN or $+\infty$."""
    return jnp.isnan(log_density) | (log_density == jnp.inf)


def is_real(value: object) -> bool:
    """Whether a value is of a real floating-point type, the only one that can be NaN here."""
    return jnp.issubdtype(jnp.result_type(value), jnp.floating)
