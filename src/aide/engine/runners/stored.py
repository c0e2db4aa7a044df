"""Fixed lists of draws: run i takes the draw at its place, and nothing is simulated."""

from collections.abc import Callable, Iterator
from threading import RLock
from typing import Any

import jax
import numpy as np

from aide._core.algorithm import describe
from aide._core.types import Key, Role, Value
from aide.algorithms.existing_code import PythonAlgorithm
from aide.algorithms.reference import ReferenceDraws
from aide.algorithms.score_check import compare_score
from aide.engine.programs.identity import Identity, digest_of_words, facts_of_data, stated_identity
from aide.engine.programs.places import Chunk
from aide.engine.programs.prepared import Report, ignore
from aide.engine.runners.plain import PythonRunner
from aide.engine.runners.runner import Look, MetaRuns, Runner
from aide.engine.runners.traced import TracedRunner


class StoredRunner:
    r"""Runs `ReferenceDraws`: outputs are looked up, $\log p(x, y)$ is computed for all at once.

    Scores do not depend on keys or meta indices, so each output is scored once.
    """

    def __init__(self, algorithm: ReferenceDraws, scorer: Runner | None = None):
        self.algorithm = algorithm
        self.scorer = _scorer(algorithm) if scorer is None else scorer
        self._log_joint: np.ndarray | None = None
        self._lock = RLock()

    def __reduce__(self) -> Any:
        return StoredRunner, (self.algorithm, self.scorer)

    def look(self, key: Key, role: Role, first_run: int, chunk: Chunk) -> Look:
        """Score all draws, so that a log joint that fails at one of them raises at once."""
        self._scores(key, role, chunk)
        x = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[2:], a.dtype), self.algorithm.draws)
        inner = self.scorer.look(key, role, first_run, chunk)
        return Look(x, inner.chunk_size, inner.num_threads)

    def identity(self, key: Key) -> Identity:
        """The identity of the draws, their order, and the scorer."""
        scorer = self.scorer.identity(key)
        facts = {f"log_joint: {name}": digest for name, digest in scorer.facts.items()}
        facts |= facts_of_data(self.algorithm)
        facts["order of the draws"] = digest_of_words(repr(self.algorithm.chains))
        kind, unseen, call = type(self.algorithm).__qualname__, scorer.unseen, scorer.call
        stated = stated_identity(self.algorithm.log_joint) if unseen else None
        if stated is not None:
            facts, unseen = (
                facts_of_data(self.algorithm) | {"aide_identity of log_joint": stated},
                (),
            )
        return Identity.of(kind, facts, unseen, call)

    def compile_tasks(
        self, key: Key, output: Any, simulate: Chunk, regenerate: Chunk
    ) -> Iterator[Callable[[], None]]:
        """The tasks of the scorer."""
        return self.scorer.compile_tasks(key, output, simulate, regenerate)

    def simulate(
        self, key: Key, role: Role, runs: np.ndarray, chunk: Chunk, report: Report
    ) -> tuple[Value, np.ndarray]:
        r"""The draws of these runs (stacked) with $\log p(x, y)$."""
        scores = self._scores(key, role, chunk)[self.algorithm.chains.places(runs)]
        report(len(runs))
        return self.algorithm.take(runs), scores

    def regenerate(self, key: Key, asked: MetaRuns, chunk: Chunk, report: Report) -> np.ndarray:
        r"""$\log p(x, y)$ of every output, the same for every meta index."""
        if asked.own:
            places = self.algorithm.chains.places(asked.runs)
            scores = self._scores(key, asked.role, chunk)[places][:, None]
        else:
            once = asked._replace(metas=np.zeros(1, np.int64))
            scores = self.scorer.regenerate(key, once, chunk, ignore)
        report(len(asked.runs) * len(asked.metas))
        return np.repeat(scores, len(asked.metas), axis=1)

    def meta_seconds(self, key: Key, output: Any) -> float:
        """The seconds of the scorer."""
        return self.scorer.meta_seconds(key, output)

    def replay(self, key: Key, role: Role, run: int) -> None:
        """Do nothing: a log joint that fails at a draw has raised already."""

    def _scores(self, key: Key, role: Role, chunk: Chunk) -> np.ndarray:
        """The log joint at all draws, by place, computed once."""
        with self._lock:
            if self._log_joint is None:
                everywhere = np.arange(self.algorithm.chains.size)
                places = self.algorithm.chains.places(everywhere)
                values, once = self.algorithm.take(everywhere), np.zeros(1, np.int64)
                asked = MetaRuns(role, values, everywhere, once, own=False)
                whole = Chunk(everywhere.size, chunk.fixed)
                found = self.scorer.regenerate(key, asked, whole, ignore)
                scores = np.empty(everywhere.size)
                scores[places] = found[:, 0]
                _check_scores(self.algorithm, scores)
                self._compare(key, role, whole)
                self._log_joint = scores
            return self._log_joint

    def _compare(self, key: Key, role: Role, chunk: Chunk) -> None:
        """Test by the compiled log joint whether it fits the draws, unless that was tested."""
        checked, once = self.algorithm.checked, np.zeros(1, np.int64)
        if checked.content is not None or not self.algorithm.is_traceable:
            return

        def evaluate(values: Value) -> np.ndarray:
            runs = np.arange(len(jax.tree.leaves(values)[0]))
            asked = MetaRuns(role, values, runs, once, own=False)
            return self.scorer.regenerate(key, asked, chunk, ignore)[:, 0]

        checked.content = compare_score(self.algorithm.draws, evaluate, str(self.algorithm.label))


def _scorer(algorithm: ReferenceDraws) -> Runner:
    density = algorithm.scorer()
    if algorithm.is_traceable:
        return TracedRunner(density)
    return PythonRunner(PythonAlgorithm(density))


def _check_scores(algorithm: ReferenceDraws, scores: np.ndarray) -> None:
    """Raise if the log density of a draw is not finite."""
    wrong = np.flatnonzero(~np.isfinite(scores))
    if not wrong.size:
        return
    chain, position = divmod(int(wrong[0]), algorithm.chains.num_draws)
    x = jax.tree.map(lambda a: np.array2string(a[chain, position], threshold=8), algorithm.draws)
    raise ValueError(
        f"log_joint of {describe(algorithm)} is {scores[wrong[0]]} at {wrong.size} of "
        f"{scores.size} draws, the first at chain {chain}, draw {position}, x = {x}. Draws of a "
        "posterior have a finite log density: is log_joint a function of the same parameters, in "
        "the same space (constrained or not), as the draws?"
    )
