"""Tests of a fixed algorithm by fresh runs: looseness, evidence, agreement between versions."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.numerics import as_log
from aide._core.types import Key, LogProb, Value
from aide.comparing.compare import compare
from aide.comparing.comparison import Comparison
from aide.diagnosing.diagnose import Diagnosis, diagnose, observation_of
from aide.engine.programs.map_runs import compiling_beside, map_runs
from aide.engine.runners.choose import Pairs
from aide.estimation.closeness import Closeness
from aide.estimation.errors.tolerance import ErrorCloseness
from aide.gold_standards.budget import Budget, TooLate, now
from aide.gold_standards.record import Agreement, Record
from aide.gold_standards.sizing import NUM_RUNS
from aide.reporting.numbers import UNDECIDED

NUM_OBSERVED = 10
"""Number of runs whose steps are observed: a choice."""
TOLERANCE = 0.5
"""Largest accepted divergence between two versions, in nats: a choice."""
MOST_META = 30
"""Largest number of meta-runs per output, if looseness hides whether versions agree: a choice."""
UNLIMITED = Budget()
"""A budget without limits."""


class Tested(NamedTuple):
    """Fresh runs, with keys that no tuning used.

    Attributes:
        pairs: Runs of the algorithm, each regenerated once.
        log_evidence: Log evidence of each of these runs.
        diagnosis: Observed steps of a few other runs; `None` if that failed.
        agreements: Comparisons with other versions, by AIDE.
        num_runs: Number of runs and regenerations of all versions together.
        failures: Sentences on tests that could not be made.
    """

    pairs: Pairs
    log_evidence: np.ndarray
    diagnosis: Diagnosis | None
    agreements: tuple[Agreement, ...]
    num_runs: int
    failures: tuple[str, ...] = ()

    def failing(self, name: str, reason: str) -> "Tested":
        """Add another version that could not be made."""
        agreements = (*self.agreements, _not_compared(name))
        return self._replace(agreements=agreements, failures=(*self.failures, reason))

    def record(
        self,
        title: str,
        chosen: tuple[tuple[str, str], ...],
        remarks: tuple[str, ...],
        goal: float,
        evaluations: tuple[float, float],
        begun: float,
        objections: tuple[str, ...] = (),
    ) -> Record:
        """The record of what was chosen and what these runs showed.

        Args:
            title: The algorithm in a line.
            chosen: Name and text of everything that was chosen.
            remarks: Shortcomings, and what to try.
            goal: Largest accepted looseness, in nats.
            evaluations: Evaluations before these runs, and by one run.
            begun: Time at which the making began, by the clock of budgets.
            objections: Reasons why the gold standard does not pass, besides these runs.
        """
        before, cost = evaluations
        return Record(
            title=title,
            goal=goal,
            chosen=chosen,
            looseness=(self.pairs.looseness, self.pairs.std_error),
            log_evidence=mean_evidence(self.log_evidence),
            scatter=_scatter(self.log_evidence),
            agreements=self.agreements,
            remarks=remarks,
            steps=self.diagnosis.steps if self.diagnosis else (),
            num_evaluations=(before + self.num_runs * cost, cost),
            seconds=now() - begun,
            objections=objections,
        )


def run_tests(
    key: Key,
    algorithm: InferenceAlgorithm,
    half: InferenceAlgorithm | None,
    rivals: Mapping[str, InferenceAlgorithm],
    evaluations: tuple[float, float],
    progress: bool | None,
    budget: Budget = UNLIMITED,
) -> Tested:
    """Compare runs of the algorithm with its version at half the budget, if any, and with rivals.

    `evaluations` are the evaluations so far and those of one run: further meta-runs may cost as
    much as the making did. A test that the seconds of `budget` end counts as a failure.
    """
    versions = {} if half is None else {"itself at half the budget": half}
    key_compare, key_diagnosis = jax.random.split(key)
    spent, cost = evaluations
    # One more meta-run per output is one at the outputs of either algorithm of a comparison.
    more = spent / (2 * NUM_RUNS * cost * max(len(versions) + len(rivals), 1))
    settings: dict[str, Any] = {
        "tolerance": TOLERANCE,
        "num_gold": NUM_RUNS,
        "num_target": NUM_RUNS,
        "max_meta": 1 + int(min(more, MOST_META - 1)),
        "progress": progress,
        "keep_values": True,
    }
    with ExitStack() as beside:
        if not budget.is_timed:  # a time limit waits for no compilation
            observation = observation_of(algorithm, NUM_OBSERVED)
            beside.enter_context(compiling_beside(key_diagnosis, observation))
        everyone = {**versions, **rivals}
        found, failed = _compare_all(key_compare, algorithm, everyone, settings, budget)
    if not found:
        return _untested(failed)
    side = next(iter(found[0].values())).draws.gold
    rows = (jax.tree.map(np.asarray, side.values),)
    log_joint = map_runs(_log_joint, algorithm, key_diagnosis, rows, what="log_joint")
    diagnosis, failures = None, tuple(_sentence(name, error) for name, error in failed.items())
    try:
        with budget.until(1.0):
            diagnosis = diagnose(key_diagnosis, algorithm, num_runs=NUM_OBSERVED)
    except (ValueError, RuntimeError) as error:
        failures = (*failures, f"The steps of single runs could not be observed: {error}")
    pairs = Pairs(side.own[:, 0], side.own[:, 1])
    agreements = (*(a for one in found for a in agreements_of(one)), *map(_not_compared, failed))
    num = _num_runs(found)
    return Tested(pairs, log_joint - pairs.log_xi, diagnosis, agreements, num, failures)


def _compare_all(
    key: Key,
    algorithm: InferenceAlgorithm,
    versions: Mapping[str, InferenceAlgorithm],
    settings: dict[str, Any],
    budget: Budget,
) -> tuple[list[Comparison], dict[str, Exception]]:
    """Compare with all versions at once; after an error with each alone, collecting the errors.

    With a limit of seconds each version is compared alone: comparisons that end in time are kept.
    """
    found, failed = list[Comparison](), dict[str, Exception]()
    if not budget.is_timed:
        with suppress(ValueError, RuntimeError):
            return [compare(key, algorithm, versions, **settings)], {}
    for name, version in versions.items():
        try:
            with budget.until(1.0):
                found.append(compare(key, algorithm, {name: version}, **settings))
        except (ValueError, RuntimeError) as error:
            failed[name] = error
    return found, failed


def _untested(failed: Mapping[str, Exception]) -> Tested:
    """The result if no comparison came to an end: it does not pass, with the reasons."""
    nothing = Pairs(np.zeros(2), np.full(2, np.inf))
    failures = tuple(_sentence(name, error) for name, error in failed.items())
    return Tested(
        nothing, np.full(2, -np.inf), None, tuple(map(_not_compared, failed)), 0, failures
    )


def _not_compared(name: str) -> Agreement:
    return Agreement(name, np.inf, np.inf, np.inf, UNDECIDED)


def _sentence(name: str, error: Exception) -> str:
    """A sentence on a failure, with the names that the two algorithms have here."""
    if isinstance(error, TooLate):
        return f"The test against {name} was given up: {error}"
    words = str(error).replace("the gold algorithm", "the gold standard")
    words = words.replace("the target algorithm", f"the gold standard's version ({name})")
    return f"The test against {name} ended in an error; the gold standard is what was made. {words}"


def _num_runs(found: list[Comparison]) -> int:
    draws = [one.draws for comparison in found for one in comparison.values()]
    crossed = sum(d.gold.cross.size + d.target.cross.size + d.target.own.size for d in draws)
    return crossed + draws[0].gold.own.size


def _log_joint(algorithm: Any, key: Key, x: Value) -> LogProb:
    """The log joint at one output, as an operation of the engine."""
    return as_log(algorithm.log_joint(x))


def agreements_of(comparison: Comparison) -> tuple[Agreement, ...]:
    """The agreements of all comparisons, as a record keeps them."""
    return tuple(
        Agreement(
            name,
            one.value,
            one.std_error,
            _upper(comparison.closeness[name]),
            comparison.outcomes[name],
            max(one.unseen()),
        )
        for name, one in comparison.items()
    )


def _upper(closeness: Closeness | ErrorCloseness) -> float:
    """The upper limit in nats: tolerances here are limits of the divergence."""
    return closeness.upper if isinstance(closeness, Closeness) else np.inf


def mean_evidence(log_evidence: np.ndarray) -> tuple[float, float]:
    r"""$\log\frac1n\sum\hat p$ and its standard error, by the delta method."""
    peak = log_evidence.max()
    if not np.isfinite(peak):
        return float(peak), float("inf")
    shares = np.exp(log_evidence - peak)
    error = shares.std(ddof=1) / np.sqrt(shares.size) / shares.mean()
    return float(peak + np.log(shares.mean())), float(error)


def _scatter(log_evidence: np.ndarray) -> float:
    """Standard deviation of the log evidence between runs; infinite if it was not measured."""
    known = bool(np.isfinite(log_evidence).all())
    return float(np.std(log_evidence, ddof=1)) if known else float("inf")
