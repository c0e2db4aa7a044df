r"""What a classifier may look at, and what its terms may be balanced with.

The traces of each algorithm are divided in two: the first `num_balance` (the real trace among
them) give $\ell$ of `balance`, the pure `regenerate` draws after them give the *guess*
$s = \log\hat\xi_{gold} - \log\hat\xi_{target}$, a feature. Given the output $x$, $s$ has the same
law whichever algorithm made $x$: the KL divergence between the laws of $(x, s)$ is that of $x$, and
bounds stay valid. The real trace may not enter $s$, and no trace may enter both ($\ell$ must be
the log ratio of what $s$ does not see). A tractable algorithm has no trace and no such limits.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.numerics import row_log_mean_exp
from aide._core.types import GOLD, TARGET, Role
from aide.engine.draws import Draws
from aide.estimation.sandwich.balance import LogRatio, fold_of, log_ratio_of
from aide.estimation.terms import Metas, Sequences, is_tractable

FEWEST_TO_CUT = 20
"""Draws of a chain, at least, that is cut into folds and parts of folds: two for each part."""

Phases = tuple[np.ndarray | None, np.ndarray | None]


class ClassifierInputs(NamedTuple):
    """Outputs, guesses (`None`: no traces to make them from) and log ratios of all draws.

    `phases` says where in its chain a draw lies, between 0 and 1, of draws that depend on each
    other; `None` for independent runs.
    """

    values: tuple[Any, Any]
    guess: tuple[np.ndarray, np.ndarray] | None
    ratio: LogRatio | None
    phases: Phases = (None, None)

    @property
    def nums(self) -> tuple[int, int]:
        """Runs of the gold standard and of the target."""
        gold, target = (len(jax.tree.leaves(part)[0]) for part in self.values)
        return gold, target

    def take(self, gold: np.ndarray, target: np.ndarray) -> "ClassifierInputs":
        """Some of the runs."""
        values = [
            jax.tree.map(lambda leaf, rows=rows: np.asarray(leaf)[rows], part)
            for part, rows in zip(self.values, (gold, target), strict=True)
        ]
        guess = self.guess and (self.guess[0][gold], self.guess[1][target])
        ratio = self.ratio and self.ratio.take(gold, target)
        first, second = self.phases
        phases = (
            None if first is None else first[gold],
            None if second is None else second[target],
        )
        return ClassifierInputs((values[0], values[1]), guess, ratio, phases)

    def folds(self, num_folds: int, pieces: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The fold of every draw.

        Independent runs take turns. Neighbours in a chain stay together: each chain is cut into
        `pieces` times as many parts as there are folds, which take turns.
        """
        gold, target = (
            fold_of(num, num_folds)
            if phase is None
            else (phase * num_folds * pieces).astype(int) % num_folds
            for num, phase in zip(self.nums, self.phases, strict=True)
        )
        return gold, target


def find_inputs(draws: Draws) -> list[ClassifierInputs]:
    """From samples and guesses alone, and, if $Z$ is known on both sides, balanced."""
    values = (draws.gold.values, draws.target.values)
    exact = {role: is_tractable(draws, role) for role in Role}
    plain = {side.role: (0, min(side.own.shape[1] - 1, side.num_meta)) for side in draws.sides}
    phases = phases_of(*(draws.sequences(role) for role in Role))
    found = [ClassifierInputs(values, _guess(draws, plain, exact), None, phases)]
    balance = Metas(*(s.num_meta if exact[s.role] else (s.num_meta + 1) // 2 for s in draws.sides))
    ratio = log_ratio_of(draws, balance)
    if ratio is not None:
        rest = {s.role: (balance[s.role], s.num_meta - balance[s.role]) for s in draws.sides}
        found.append(ClassifierInputs(values, _guess(draws, rest, exact), ratio, phases))
    return found


def phases_of(gold: Sequences | None, target: Sequences | None) -> Phases:
    """Where in its chain each draw lies: 0 at the beginning, below 1 at the end.

    Chains too short to be cut (`FEWEST_TO_CUT`) are laid end to end: whole chains share a fold.
    """
    found = [None if rows is None else _phase(rows) for rows in (gold, target)]
    return found[0], found[1]


def _phase(rows: Sequences) -> np.ndarray:
    lengths = [part.size for part in rows]
    num, phase = sum(lengths), np.empty(sum(lengths))
    if min(lengths) < FEWEST_TO_CUT:
        phase[np.concatenate(rows)] = np.arange(num) / num
        return phase
    for part in rows:
        phase[part] = np.arange(part.size) / part.size
    return phase


def _guess(
    draws: Draws, traces: dict[Role, tuple[int, int]], exact: dict[Role, bool]
) -> tuple[np.ndarray, np.ndarray] | None:
    r"""$s$ at gold and target draws; `traces` says after how many traces how many are used.

    Among an algorithm's own scores column 0 is the real trace, so those that begin there skip it.
    """
    if any(traces[role][1] < 1 and not exact[role] for role in Role):
        return None

    def scores(at: Role, by: Role) -> np.ndarray:
        """By one algorithm, at the outputs of the same or of the other one."""
        columns = draws.side(at).own if at is by else draws.side(at).cross
        if exact[by]:
            return columns[:, 0]
        first, num = traces[by]
        begin = max(first, 1) if at is by else first
        return row_log_mean_exp(columns[:, begin : begin + num])

    with np.errstate(invalid="ignore"):
        gold, target = (scores(at, GOLD) - scores(at, TARGET) for at in Role)
    return gold, target
