r"""What the classifier gets: outputs, a guess at the log ratio, and log ratios for balancing.

The traces of each algorithm are divided in two groups. The first traces, the trace of the run
itself among them, give the log ratio $\ell$ of `balance`; the traces after them, which `regenerate`
drew, give the *guess* $s = \log\hat\xi_{gold} - \log\hat\xi_{target}$, a feature. Given the output
$x$, $s$ has the same law whichever algorithm made $x$: the KL divergence between the laws of
$(x, s)$ is that between the laws of $x$, and bounds stay valid. For that reason the trace of the
run itself may not enter $s$, and no trace may enter both $s$ and $\ell$. A tractable algorithm has
no trace and no such restriction.
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
"""Least draws of a chain that is cut into 5 folds of 2 inner folds each: two draws per part."""

Phases = tuple[np.ndarray | None, np.ndarray | None]
"""For either algorithm the place of every draw in its chain, from 0 (beginning) to 1 (end)."""


class ClassifierInputs(NamedTuple):
    r"""What a classifier gets about all gold and target draws.

    Attributes:
        values: Outputs, stacked.
        guess: $s$ at gold and at target outputs; `None` without traces to make a guess from.
        ratio: $\ell$, for balanced terms; `None` for terms from samples alone.
        phases: Where in its chain each draw lies; `None` for independent runs.
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
        """The inputs of some of the runs."""
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
    """Inputs for unbalanced terms, and, if $Z$ is known on both sides, for balanced terms."""
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
    """The place of each draw in its chain, from 0 at the beginning to 1 at the end.

    Chains too short to be cut (`FEWEST_TO_CUT`) are laid end to end, so that each lies in one fold.
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
    r"""$s$ at gold and target draws, from some of the traces.

    Args:
        draws: All runs.
        traces: For either algorithm the index of the first trace used, and how many are used. At an
            algorithm's own outputs trace 0 is that of the run itself and is never used.
        exact: Whether the algorithm is tractable, so that its only score may be used.
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
