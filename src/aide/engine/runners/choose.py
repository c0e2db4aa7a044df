r"""One algorithm by itself: its runner, its identity, and runs that are regenerated.

With $l = \log\xi_2 - \log\xi_1$ of a run and its regeneration, the sign given $|l|$ has a known
probability (law 2), so that the looseness $-E[l]$ is $E[|l|\tanh(|l|/2)]$: terms that are never
negative, with a relative error of $\sqrt{2/n}$ however small the looseness is.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from aide._core.algorithm import ScoredApart, underlying
from aide._core.random import as_key
from aide._core.types import Key, Role
from aide.algorithms.existing_code import PythonAlgorithm
from aide.algorithms.reference import ReferenceDraws
from aide.engine.programs.identity import Identity
from aide.engine.programs.places import Chunk, compile_all, current_place
from aide.engine.programs.prepared import ignore
from aide.engine.programs.sharing import current_sharing
from aide.engine.programs.tracing import one_call
from aide.engine.runners.plain import PythonRunner
from aide.engine.runners.runner import MetaRuns, Runner
from aide.engine.runners.stored import StoredRunner
from aide.engine.runners.traced import ScoredApartRunner, TracedRunner


def runner_of(algorithm: Any) -> Runner:
    """The runner of an algorithm; it runs on the device that JAX uses now."""
    if isinstance(algorithm, ReferenceDraws):
        return StoredRunner(algorithm)
    if is_plain_python(algorithm):
        return PythonRunner(algorithm)
    if isinstance(underlying(algorithm), ScoredApart):
        return ScoredApartRunner(algorithm)
    return TracedRunner(algorithm)


def is_plain_python(algorithm: Any) -> bool:
    """Whether an algorithm's methods are called run by run, and cannot be traced."""
    return isinstance(algorithm, PythonAlgorithm)


@one_call()
def identity_of(algorithm: Any, key: Key | None = None) -> Identity:
    """Trace an algorithm and digest its programs; nothing is compiled or run.

    Args:
        algorithm: The algorithm.
        key: A key of the kind of generator that will be used; by default of JAX's default
            generator.
    """
    key = jax.random.key(0) if key is None else as_key(key)
    with current_place().entered():
        return runner_of(algorithm).identity(key)


RARE = 0.1
"""Ratio of the median of the terms to their mean below which few outputs cause the looseness.

The ratio is 0.45 for normal gaps."""


class Pairs(NamedTuple):
    r"""Runs, each regenerated once.

    Attributes:
        log_xi: $\log\xi$ of the runs.
        regenerated: $\log\xi$ of one regeneration of each run.
        seconds: Estimated processor seconds of the regenerations, the same on every machine.
    """

    log_xi: Float[np.ndarray, " n"]
    regenerated: Float[np.ndarray, " n"]
    seconds: float = 0.0

    @property
    def terms(self) -> Float[np.ndarray, " n"]:
        r"""$|l|\tanh(|l|/2)$, whose mean is the looseness."""
        gap = np.abs(self.regenerated - self.log_xi)
        return np.where(np.isfinite(gap), gap * np.tanh(np.minimum(gap, 100.0) / 2), np.inf)

    @property
    def looseness(self) -> float:
        """The mean of `terms`."""
        return float(np.mean(self.terms))

    @property
    def is_rare(self) -> bool:
        """Whether few outputs cause the looseness: the median is far below the mean."""
        return bool(np.median(self.terms) < RARE * self.looseness)

    @property
    def std_error(self) -> float:
        """Standard error of the looseness."""
        if not np.isfinite(self.terms).all():
            return float("inf")
        return float(np.std(self.terms, ddof=1) / np.sqrt(len(self.terms)))


def run_pairs(key: Key, algorithm: Any, role: Role, num: int) -> Pairs:
    """Make `num` runs and regenerate each once, by the programs that estimates use."""
    runs = MetaTrial(key, algorithm, role, num)
    return Pairs(runs.log_xi, runs.regenerate(1, 1)[:, 0], num * runs.meta_seconds)


class MetaTrial:
    """`num` runs of an algorithm, which can be regenerated repeatedly."""

    def __init__(self, key: Key, algorithm: Any, role: Role, num: int):
        self._key, self._role, self._runner = key, role, runner_of(algorithm)
        self._runs, self._chunk = np.arange(num), Chunk(num)
        output = self._runner.look(key, role, 0, self._chunk).output
        if current_sharing() is None:
            compile_all(self._runner.compile_tasks(key, output, self._chunk, self._chunk))
        self.meta_seconds = self._runner.meta_seconds(key, output)
        self.values, self.log_xi = self._runner.simulate(key, role, self._runs, self._chunk, ignore)

    def regenerate(self, first: int, last: int) -> Float[np.ndarray, "n M"]:
        r"""$\log\xi$ of meta-inference runs `first` to `last` at every output."""
        metas = np.arange(first, last + 1)
        asked = MetaRuns(self._role, self.values, self._runs, metas, own=True)
        return self._runner.regenerate(self._key, asked, self._chunk, ignore)
