r"""Gold draws and target draws for many observations: one program for all observations.

For each observation $y$: $n$ outputs $x$ of the gold standard for $y$ with their $\log\xi$, the
$\log\xi$ of the target at them, and the same with the roles exchanged. A side is either a function
from $y$ to an algorithm that JAX can trace, run for all observations by one compiled program, or an
object with `sample_batch` and `log_prob_batch`, called with a block of observations at a time.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.algorithm import InferenceAlgorithm, describe, log_z_of
from aide._core.distribution import Distribution, check_distribution
from aide._core.numerics import as_log, row_log_mean_exp
from aide._core.random import derive_keys, run_key, stream_key
from aide._core.types import GOLD, TARGET, Key, Role, Value
from aide.algorithms.tractable import Amortized, Tractable
from aide.engine.outputs import check_algorithm
from aide.engine.programs.map_runs import in_double, map_runs
from aide.engine.programs.prepared import Report

BLOCK = 256
"""Number of observations whose outputs are kept in memory at a time."""
OWN, CROSS = 0, 1
"""Purposes of keys: runs of an algorithm, and its meta-inference at outputs of the other."""


class BatchPosterior(Protocol):
    """An amortised posterior of any library that samples for many observations in one call."""

    def sample_batch(self, key: Key, observations: Any, num: int) -> np.ndarray:
        """Draws for each observation, shape (observations, num, ...)."""
        ...

    def log_prob_batch(self, values: np.ndarray, observations: Any) -> np.ndarray:
        """Normalised log densities of such draws, shape (observations, num)."""
        ...


AnyPosterior = Callable[[Any], InferenceAlgorithm | Distribution] | Amortized | BatchPosterior
"""What a user may give: from one observation to an algorithm or a distribution, or for many."""


class ObservedSide(Protocol):
    """A gold standard or a target for all observations."""

    name: str
    log_z: float | None

    def simulate(self, key: Key, index: np.ndarray, data: Any, num: int) -> tuple[Any, np.ndarray]:
        """Outputs for every observation and their log xi, shape (observations, num)."""
        ...

    def score(self, key: Key, index: np.ndarray, data: Any, values: Any) -> np.ndarray:
        """Log xi of given outputs, shape (observations, num)."""
        ...


class TracedSide(eqx.Module):
    """A function from an observation to an algorithm, traced once for all observations."""

    algorithm_for: Callable[[Any], Any]
    num_meta: int = eqx.field(static=True)
    name: str = eqx.field(static=True)
    log_z: float | None = eqx.field(static=True)

    def simulate(self, key: Key, index: np.ndarray, data: Any, num: int) -> tuple[Any, np.ndarray]:
        """See `ObservedSide`; with M > 1 the log xi is that of the average over M traces."""
        runs = SimulateObserved(self, num)
        values, log_xi = map_runs(_call, runs, key, (index, data), what=self.name)
        return values, _averaged(log_xi)

    def score(self, key: Key, index: np.ndarray, data: Any, values: Any) -> np.ndarray:
        """See `ObservedSide`."""
        runs = ScoreObserved(self)
        return _averaged(map_runs(_call, runs, key, (index, data, values), what=self.name))

    def log_xi(self, algorithm: Any, keys: Any, value: Value) -> Any:
        """Log xi of fresh traces at one output, one per key."""
        return jax.vmap(lambda key: as_log(algorithm.regenerate(key, value)))(keys)


class SimulateObserved(eqx.Module):
    """All runs of a side for one observation."""

    side: TracedSide
    num: int = eqx.field(static=True)

    def run(self, stream: Key, index: Any, y: Any) -> tuple[Value, Any]:
        """All outputs for one observation."""
        algorithm = self.side.algorithm_for(y)

        def one(key: Key) -> tuple[Value, Any]:
            keys = derive_keys(key, self.side.num_meta)
            value, log_xi = algorithm.simulate(keys[0])
            own = as_log(log_xi)[None]
            if self.side.num_meta == 1:
                return value, own
            return value, jnp.concatenate([own, self.side.log_xi(algorithm, keys[1:], value)])

        return jax.vmap(one)(derive_keys(run_key(stream, index, OWN), self.num))


class ScoreObserved(eqx.Module):
    """Scores of a side at the outputs of the other for one observation."""

    side: TracedSide

    def run(self, stream: Key, index: Any, y: Any, values: Value) -> Any:
        """Log xi at all outputs of the other side for one observation."""
        algorithm = self.side.algorithm_for(y)
        num = jax.tree.leaves(values)[0].shape[0]

        def one(key: Key, value: Value) -> Any:
            return self.side.log_xi(algorithm, derive_keys(key, self.side.num_meta), value)

        return jax.vmap(one)(derive_keys(run_key(stream, index, CROSS), num), values)


def _call(runs: SimulateObserved | ScoreObserved, stream: Key, *row: Any) -> Any:
    return runs.run(stream, *row)


def _averaged(log_xi: np.ndarray) -> np.ndarray:
    return row_log_mean_exp(log_xi.reshape(-1, log_xi.shape[-1])).reshape(log_xi.shape[:-1])


class BatchSide:
    """An object with `sample_batch` and `log_prob_batch`."""

    log_z: float | None = 0.0

    def __init__(self, posterior: BatchPosterior):
        self._posterior = posterior
        self.name = str(getattr(posterior, "label", "") or type(posterior).__name__)

    def simulate(self, key: Key, index: np.ndarray, data: Any, num: int) -> tuple[Any, np.ndarray]:
        """See `ObservedSide`."""
        key = run_key(key, int(index[0]), OWN)
        values = np.asarray(self._posterior.sample_batch(key, data, num), float)
        if values.shape[:2] != (index.size, num):
            raise ValueError(
                f"sample_batch of {self.name} must return an array of shape (observations, num, "
                f"...) = ({index.size}, {num}, ...), got {values.shape}."
            )
        return values, self.score(key, index, data, values)

    def score(self, key: Key, index: np.ndarray, data: Any, values: Any) -> np.ndarray:
        """See `ObservedSide`; the key is not used."""
        found = np.asarray(self._posterior.log_prob_batch(values, data), float)
        if found.shape != np.shape(values)[:2]:
            raise ValueError(
                f"log_prob_batch of {self.name} must return an array of shape (observations, num) "
                f"= {np.shape(values)[:2]}, got {found.shape}."
            )
        return found


def as_side(name: str, given: Any, first: Any, num_meta: int) -> ObservedSide:
    """A side from what a user gives; `first` is one observation, on which it is tried."""
    if callable(getattr(given, "sample_batch", None)):
        return BatchSide(given)
    make = given.with_observation if isinstance(given, Amortized) else given
    if not callable(make):
        raise TypeError(
            f"{name} must be a function from one observation to an algorithm or a distribution, "
            f"an aide.Amortized, or an object with sample_batch and log_prob_batch, got {given!r}."
        )
    algorithm = _algorithm(make, name, first)
    check_algorithm(f"{name}(y)", algorithm)
    if make is not given:
        return TracedSide(AmortizedFor(given), num_meta, describe(algorithm), 0.0)
    return TracedSide(
        MadeForObservation(make, name), num_meta, describe(algorithm), log_z_of(algorithm)
    )


class MadeForObservation(eqx.Module):
    """A function of a user from an observation to an algorithm or a distribution."""

    make: Callable[[Any], Any]
    name: str = eqx.field(static=True)

    def __call__(self, y: Any) -> Any:
        """The algorithm for one observation."""
        return _as_algorithm(self.make(y), self.name)


class AmortizedFor(eqx.Module):
    """An amortised approximation as such a function."""

    amortized: Amortized

    def __call__(self, y: Any) -> Any:
        """The approximation for one observation."""
        return self.amortized.with_observation(y)


def _algorithm(make: Callable[[Any], Any], name: str, first: Any) -> Any:
    return in_double(lambda: _as_algorithm(make(first), name))


def _as_algorithm(made: Any, name: str) -> Any:
    if callable(getattr(made, "simulate", None)):
        return made
    check_distribution(f"{name}(y)", made)
    return Tractable.of(made)


class ObservedScores(NamedTuple):
    r"""Log xi of both sides at outputs of both, shape (observations, num).

    Attributes:
        gold_at_gold: $\log\xi$ of the gold standard at its own outputs.
        target_at_gold: That of the target there.
        target_at_target: That of the target at its own outputs.
        gold_at_target: That of the gold standard there.
    """

    gold_at_gold: np.ndarray
    target_at_gold: np.ndarray
    target_at_target: np.ndarray
    gold_at_target: np.ndarray


def run_observed(
    key: Key,
    data: Any,
    gold: ObservedSide,
    target: ObservedSide,
    num_gold: int,
    num_target: int,
    report: Report,
) -> ObservedScores:
    """Run both sides for every observation, a block of observations at a time."""

    def one_way(role: Role, block: tuple[np.ndarray, Any], num: int) -> tuple[Any, Any]:
        own, other = (gold, target) if role == GOLD else (target, gold)
        values, log_xi = own.simulate(stream_key(key, role, OWN), *block, num)
        return log_xi, other.score(stream_key(key, role, CROSS), *block, values)

    found, num = [], len(jax.tree.leaves(data)[0])
    for block in _blocks(num, data):
        of_gold = one_way(GOLD, block, num_gold)
        of_target = one_way(TARGET, block, num_target)
        found.append(ObservedScores(*of_gold, *of_target))
        report(min(BLOCK, num))
    return ObservedScores(*(np.concatenate(column)[:num] for column in zip(*found, strict=True)))


def _blocks(num: int, data: Any) -> Iterator[tuple[np.ndarray, Any]]:
    """Blocks of one size, so that they share programs: the last repeats its last observation."""
    size = min(BLOCK, num)
    for begin in range(0, num, size):
        rows = np.minimum(np.arange(begin, begin + size), num - 1).astype(np.uint32)
        yield rows, jax.tree.map(lambda a, rows=rows: a[rows], data)
