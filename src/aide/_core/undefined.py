r"""Where a log density is NaN or $+\infty$: the one rule.

In floating point a log density may have no value far outside of everything that matters:
$\infty - \infty$ after an overflow, the log of a rounded-off negative number. As in Stan, NumPyro
and PyMC such a point is impossible: the density that algorithms of this library sample is

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

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from aide._core.types import LogDensity, LogProb, Value
from aide._core.validate import check_scalar


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
