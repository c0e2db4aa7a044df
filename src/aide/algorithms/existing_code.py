"""Existing code as an inference algorithm: plain Python or NumPy; forward and reverse runs."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from aide._core.algorithm import Draw, InferenceAlgorithm, Label, NumWorkers, describe, log_z_of
from aide._core.distribution import Distribution
from aide._core.numerics import as_log
from aide._core.types import Key, LogDensity, LogProb, Value
from aide._core.validate import check_count, refuse_unresolved
from aide._core.versions import (
    AbstractAlgorithm,
    KernelUse,
    Prefix,
    Version,
    budget_version,
    determines_trace,
    kernels_of,
    prefixes_of,
    small_versions,
    started_version,
)


class PythonAlgorithm:
    r"""Wraps an object whose methods JAX cannot trace.

    The methods receive a `numpy.random.Generator` (Philox) in place of a JAX key:
    `simulate(rng)` returns `(value, log_xi)`, `regenerate(rng, value)` a number. Each run and
    meta-inference run gets a generator of its own, derived from (key, role, run, purpose, meta
    index), so that the same key gives the same numbers, and runs that are added repeat none. Values
    are arrays, numbers, or tuples, lists and dicts of them, of the same shape in every run.

    Args:
        algorithm: The object with `simulate(rng)` and `regenerate(rng, value)`.
        log_z: $\log Z$; taken from the object's own `log_z` if it has one.
        num_workers: Processes that share the runs, with the results of one process. They start on
            first use and end with the call. The object must be importable: its class and functions
            belong in a module, and a script is guarded by `if __name__ == "__main__"`.
        label: A name for tables.

    Example:
        >>> class StandardNormal:
        ...     log_z = 0.0
        ...     def simulate(self, rng):
        ...         x = rng.normal()
        ...         return x, self.regenerate(rng, x)
        ...     def regenerate(self, rng, value):
        ...         return -0.5 * value**2 - 0.5 * np.log(2 * np.pi)
        ...
        >>> wrapped = aide.PythonAlgorithm(StandardNormal())
        >>> exact = aide.Tractable.of(Normal(0.0, 1.0))
        >>> abs(aide.estimate(0, exact, wrapped, num_gold=20, num_target=20).value) < 1e-5
        True
    """

    def __init__(
        self,
        algorithm: InferenceAlgorithm,
        *,
        log_z: float | None = None,
        num_workers: int = 1,
        label: str = "",
    ):
        check_count("num_workers", num_workers)
        for method in ("simulate", "regenerate"):
            if not callable(getattr(algorithm, method, None)):
                raise TypeError(
                    f"{type(algorithm).__name__} has no method {method}; PythonAlgorithm wraps an "
                    "object with simulate(rng) and regenerate(rng, value)."
                )
        self.algorithm = algorithm
        self.log_z = getattr(algorithm, "log_z", None) if log_z is None else log_z
        self.num_workers = NumWorkers(num_workers)
        self.label = Label(label or describe(algorithm))
        log_z_of(self)

    def __repr__(self) -> str:
        return f"PythonAlgorithm({self.algorithm!r})"

    def simulate(self, rng: np.random.Generator) -> tuple[Value, float]:
        """Run the wrapped algorithm once; return the value as NumPy arrays."""
        result = self.algorithm.simulate(rng)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"{self.label}: simulate must return (value, log_xi), got {type(result).__name__}."
            )
        value, log_xi = result
        return jax.tree.map(np.asarray, value), _scalar(self.label, "simulate", log_xi)

    def regenerate(self, rng: np.random.Generator, value: Value) -> float:
        """Run the wrapped algorithm's meta-inference once."""
        return _scalar(self.label, "regenerate", self.algorithm.regenerate(rng, value))

    def shrunk(self) -> dict[str, Version]:
        """The small versions of the wrapped algorithm, each wrapped alike."""
        versions = small_versions(self.algorithm)
        return {
            name: version._replace(algorithm=self._around(version.algorithm))
            for name, version in versions.items()
        }

    def prefixes(self) -> list[Prefix]:
        """The prefixes of the wrapped algorithm, each wrapped alike."""
        return [
            (name, lambda build=build: self._around(build()))
            for name, build in prefixes_of(self.algorithm)
        ]

    def kernels(self) -> Sequence[KernelUse]:
        """The MCMC kernels of the wrapped algorithm."""
        return kernels_of(self.algorithm)

    def determines_trace(self) -> bool:
        r"""Whether the wrapped algorithm says that its output determines the trace, or $\xi$."""
        return determines_trace(self.algorithm)

    def with_budget(self, factor: float) -> "PythonAlgorithm | None":
        """The wrapped algorithm with `factor` times its budget; `None` without such a version."""
        inner = budget_version(self.algorithm, factor)
        label = f"{self.label}, budget times {factor:g}"
        return None if inner is None else self._around(inner, label)

    def with_start(self, start: Distribution, label: str = "") -> "PythonAlgorithm":
        """The wrapped algorithm with another start; raise if it has no such method."""
        inner = started_version(self.algorithm, start, label)
        return self._around(inner, label or f"{self.label}, other start")

    def _around(self, inner: InferenceAlgorithm, label: str = "") -> "PythonAlgorithm":
        if inner is self.algorithm:
            return self
        return PythonAlgorithm(
            inner, log_z=self.log_z, num_workers=self.num_workers, label=label or self.label
        )


def _scalar(label: str, method: str, log_xi: Any) -> float:
    try:
        array = None if np.iscomplexobj(log_xi) else np.asarray(log_xi, np.float64)
    except (TypeError, ValueError):
        array = None
    if array is None or log_xi is None:
        raise TypeError(f"{label}: {method} must return a real number log_xi, got {log_xi!r}.")
    if array.shape != ():
        raise ValueError(f"{label}: {method} must return a scalar log_xi, got shape {array.shape}.")
    return float(array)


class ForwardReverse(AbstractAlgorithm):
    r"""$\log\xi = \log p(x, y) - \log\hat p(y)$ from code that returns evidence estimates.

    Args:
        forward: `forward(key) -> (x, log_evidence)`: an AIS or SMC run, its output and its
            estimate of $\log p(y)$.
        reverse: `reverse(key, x) -> log_evidence`: the same chain run backwards from $x$ (AIS), or
            conditional SMC with $x$ retained.
        log_joint: $\log p(x, y)$.
        label: A name for tables.

    Example:
        >>> posterior = Normal(1.0, 0.5**0.5)
        >>> log_joint = lambda x: posterior.log_prob(x) - 1.5  # log p(y) = -1.5
        >>> perfect = lambda key: (posterior.sample(key), jnp.array(-1.5))
        >>> algorithm = aide.ForwardReverse(perfect, lambda key, x: jnp.array(-1.5), log_joint)
        >>> exact = aide.Tractable.of(posterior)
        >>> abs(aide.estimate(0, exact, algorithm, num_gold=50, num_target=50).value) < 1e-5
        True
    """

    forward: Callable[[Key], tuple[Value, ArrayLike]]
    reverse: Callable[[Key, Value], ArrayLike]
    log_joint: LogDensity
    label: str = eqx.field(converter=Label, default="")

    @property
    def log_z(self) -> float:
        r"""$\log Z = 0$, as for every SMC algorithm."""
        return 0.0

    def simulate(self, key: Key) -> Draw:
        """Run forward."""
        x, log_evidence = self.forward(key)
        log_joint = as_log(self.log_joint(x))
        return Draw(x, refuse_unresolved(_difference(log_joint, log_evidence), log_joint))

    def regenerate(self, key: Key, value: Value) -> LogProb:
        """Run in reverse from the given output."""
        return _difference(as_log(self.log_joint(value)), self.reverse(key, value))


def _difference(log_joint: LogProb, log_evidence: ArrayLike) -> LogProb:
    r"""$\log p(x, y) - \log\hat p(y)$, and $-\infty$ where the density is 0."""
    log_xi = log_joint - as_log(log_evidence)
    return jnp.where(log_joint == -jnp.inf, -jnp.inf, log_xi)
