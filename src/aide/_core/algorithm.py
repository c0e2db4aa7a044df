r"""The two operations on which everything in this library stands.

An inference algorithm draws random choices $u$ (its *trace*) and returns an output $x$; its joint
law is $q(u, x)$, and its *output density* is $q(x) = \int q(u, x)\,du$, which nobody can compute.
*Meta-inference* guesses a trace that could have led to a given output: $u \sim r(u; x)$. With

$$\xi(u, x) = Z\, q(u, x) / r(u; x)$$

a pair of operations suffices to measure the algorithm:

- `simulate(key)` runs it and returns $x$ together with $\log\xi(u, x)$ for the trace it used;
- `regenerate(key, value)` samples $u \sim r(u; x)$ and returns $\log\xi(u, x)$.

Laws of every correct pair:

1. $E_{u\sim r(\cdot;x)}[\xi(u,x)] = Z\,q(x)$ for every $x$.
2. With $(x, \xi_1)$ from `simulate`, $\xi_2$ from `regenerate` at that $x$ and
   $l = \log\xi_2 - \log\xi_1$: given $|l|$, $P(l > 0) = 1/(1 + e^{|l|})$.
3. If the output determines the trace, $l = 0$.
4. AIDE of an algorithm against itself is an upper bound on 0, and 0 if it is tractable.
5. $E_{simulate}[h(x)/\xi] = 1/Z$ for every normalised density $h$ with support inside that of
   $q$, if every trace that $r$ proposes there is possible: $\xi(u, x) > 0$ for $u \sim r(u; x)$.
   Otherwise the mean is $E_h[P_r(\xi > 0)]/Z$, which is smaller.
6. Let $(x_0, \xi_0)$ come from `simulate`, $x_1, \dots, x_K$ from $x_0$ by moves whose joint
   density is symmetric in all $K + 1$ places, and $\xi_k$ from `regenerate` at $x_k$. Given the set
   of pairs, number $k$ is the one from `simulate` with probability $\xi_k/\sum_j \xi_j$.

The laws are tests (`tests/laws`), run on every algorithm of the library.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from aide._core.types import LogProb, Value


class Draw(NamedTuple):
    r"""One run of an inference algorithm: its output $x$ and $\log\xi(u, x)$ for its own trace.

    Args:
        value: The output $x$.
        log_xi: The score $\log\xi(u, x)$ of the run's own trace and output.

    Example:
        >>> value, log_xi = aide.Draw(jnp.zeros(2), jnp.array(-1.8))
    """

    value: Value
    log_xi: LogProb


@runtime_checkable
class InferenceAlgorithm(Protocol):
    r"""Anything with `simulate` and `regenerate`; no base class is needed.

    Both methods handle *one* run; callers use `jax.vmap`. `simulate` may return any pair (value,
    $\log\xi$) instead of a `Draw`. An optional attribute `log_z` states $\log Z$: 0.0 if $\xi$ is
    an unbiased estimate of the normalised $q(x)$ (SMC, AIS, MCMC, variational fits), `None` if $Z$
    is unknown; an algorithm without the attribute counts as one with `None`. An optional class
    attribute `determines_log_xi = True` states that $\xi$ is a function of the output alone.

    Example:
        >>> class StandardNormal:
        ...     log_z = 0.0
        ...     def simulate(self, key):
        ...         x = jax.random.normal(key)
        ...         return aide.Draw(x, jax.scipy.stats.norm.logpdf(x))
        ...     def regenerate(self, key, value):
        ...         return jax.scipy.stats.norm.logpdf(value)
        ...
        >>> isinstance(StandardNormal(), aide.InferenceAlgorithm)
        True
    """

    def simulate(self, key: Any, /) -> tuple[Value, Any]:
        r"""Sample $(u, x) \sim q(u, x)$; return $x$ and $\log\xi(u, x)$."""
        ...

    def regenerate(self, key: Any, value: Any, /) -> Any:
        r"""Sample $u \sim r(u; x)$ for the given $x$; return $\log\xi(u, x)$."""
        ...


@runtime_checkable
class ScoredApart(Protocol):
    r"""An algorithm whose runs and whose scores are two separate programs.

    `simulate(key)` is `run_with_trace(key)`, then `score_trace` of the trace of that run, with the
    same key; `regenerate(key, value)` is `score_trace` with a trace that `score_trace` samples
    itself. Where scoring is most of the work, one scoring program for `simulate` and `regenerate`
    halves the time of compilation.
    """

    def run_with_trace(self, key: Any, /) -> tuple[Value, Any]:
        r"""Sample $(u, x)$; return $x$ and $u$."""
        ...

    def score_trace(self, key: Any, value: Any, trace: Any, is_own: Any, /) -> LogProb:
        r"""Return $\log\xi(u, x)$ of `trace` where `is_own` is true, else of $u \sim r(u; x)$."""
        ...


class Label(str):
    """The name of an algorithm: a text that plays no part in what the algorithm computes.

    Inside a pytree a label has no leaves, and all labels have the same structure, so that an
    algorithm with a new name uses the compiled programs of the old one. Elsewhere a label is an
    ordinary string.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> "Label":
        return super().__new__(cls, text)


class NumWorkers(int):
    """The number of processes that run an algorithm; it plays no part in what is computed."""

    __slots__ = ()


@dataclass(frozen=True)
class _AnyLabel:
    """A label inside a pytree's structure, where all labels count as equal."""

    text: Label = field(compare=False)


jax.tree_util.register_pytree_node(
    Label, lambda label: ((), _AnyLabel(label)), lambda structure, _: structure.text
)


class Aside:
    """An attachment of an algorithm that plays no part in what it computes, such as its history.

    Inside a pytree an `Aside` has no leaves, all `Aside`s have the same structure, and the identity
    of the algorithm does not depend on the content.
    """

    __slots__ = ("content",)

    def __init__(self, content: Any):
        self.content = content


@dataclass(frozen=True)
class _AnyAside:
    """An `Aside` inside a pytree's structure, where all `Aside`s count as equal."""

    aside: Aside = field(compare=False)


jax.tree_util.register_pytree_node(
    Aside, lambda aside: ((), _AnyAside(aside)), lambda structure, _: structure.aside
)


WITHOUT_EFFECT = (Label, NumWorkers, Aside, _AnyLabel, _AnyAside)
"""Types of parts that play no part in what an algorithm computes."""


def log_z_of(algorithm: object) -> float | None:
    r"""Return the algorithm's claim about $\log Z$, or `None` if the algorithm makes no claim.

    Raises:
        ValueError: `log_z` is not one finite number.
    """
    log_z = getattr(algorithm, "log_z", None)
    if log_z is None:
        return None
    try:
        is_scalar = np.shape(log_z) == () and not isinstance(log_z, str)
        number = float(log_z) if is_scalar else np.nan
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(
            f"log_z of {describe(algorithm)} must be a finite number, or None if it is unknown, "
            f"got {log_z!r}."
        )
    return number


def describe(algorithm: object) -> str:
    """A short name for tables and messages: the algorithm's `label`, or its class and sizes."""
    label = getattr(algorithm, "label", None)
    if isinstance(label, str) and str(label):
        return str(label)
    name = type(algorithm).__name__
    particles = getattr(algorithm, "num_particles", None)
    return f"{name}, {particles} particles" if isinstance(particles, int) else name


def plain(text: str) -> str:
    r"""Return a text that a user gave, such as a name, on one line without control characters.

    Spaces of all kinds, line ends and tabs become a space; every other character that is not
    printable (controls such as ESC, marks that change the direction of writing) becomes U+FFFD.
    """
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)


def underlying(algorithm: InferenceAlgorithm) -> InferenceAlgorithm:
    """Return the algorithm whose programs are compiled: `algorithm.underlying`, or the algorithm.

    An algorithm that only adds words to another one names the other by an attribute `underlying`,
    so that both share compiled programs.
    """
    return getattr(algorithm, "underlying", algorithm)
