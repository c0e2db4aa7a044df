"""The choice of a runner for an algorithm."""

from typing import Any

import jax

from aide._core.algorithm import ScoredApart, underlying
from aide._core.random import as_key
from aide._core.types import Key
from aide.algorithms.existing_code import PythonAlgorithm
from aide.algorithms.reference import ReferenceDraws
from aide.engine.programs.identity import Identity
from aide.engine.programs.places import current_place
from aide.engine.programs.tracing import one_call
from aide.engine.runners.plain import PythonRunner
from aide.engine.runners.runner import Runner
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
