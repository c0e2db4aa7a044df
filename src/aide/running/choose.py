"""Which runner an algorithm needs: the one place that knows all kinds."""

from typing import Any

from aide._core.algorithm import ScoredApart, underlying
from aide.algorithms.existing_code import PythonAlgorithm
from aide.algorithms.reference import ReferenceDraws
from aide.running.plain import PythonRunner
from aide.running.runner import Runner
from aide.running.scored_apart import ScoredApartRunner
from aide.running.stored import StoredRunner
from aide.running.traced import TracedRunner


def runner_of(algorithm: Any) -> Runner:
    """The runner of an algorithm; it runs where JAX computes now."""
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
