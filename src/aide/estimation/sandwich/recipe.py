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
from aide.draws.draws import Draws, Side
from aide.estimation.quantities import is_tractable
from aide.estimation.sandwich.balance import LogRatio, log_ratio


class Recipe(NamedTuple):
    """Outputs, guesses (`None`: no traces to make them from) and log ratios of all draws."""

    values: tuple[Any, Any]
    guess: tuple[np.ndarray, np.ndarray] | None
    ratio: LogRatio | None

    @property
    def nums(self) -> tuple[int, int]:
        """Runs of the gold standard and of the target."""
        gold, target = (len(jax.tree.leaves(part)[0]) for part in self.values)
        return gold, target

    def take(self, gold: np.ndarray, target: np.ndarray) -> "Recipe":
        """Some of the runs."""
        values = [
            jax.tree.map(lambda leaf, rows=rows: np.asarray(leaf)[rows], part)
            for part, rows in zip(self.values, (gold, target), strict=True)
        ]
        guess = self.guess and (self.guess[0][gold], self.guess[1][target])
        return Recipe((values[0], values[1]), guess, self.ratio and self.ratio.take(gold, target))


def find_recipes(draws: Draws) -> list[Recipe]:
    """From samples and guesses alone, and, if $Z$ is known on both sides, balanced."""
    values = (draws.gold.values, draws.target.values)
    metas = (draws.num_meta_gold, draws.num_meta_target)
    exact = (is_tractable(draws, "gold"), is_tractable(draws, "target"))
    fresh = [side.own.shape[1] - 1 for side in (draws.gold, draws.target)]
    most = [min(number, meta) for number, meta in zip(fresh, metas, strict=True)]
    plain = Recipe(values, _guess(draws, (0, 0), (most[0], most[1]), exact), None)
    num_balance = [
        meta if known else (meta + 1) // 2 for meta, known in zip(metas, exact, strict=True)
    ]
    ratio = log_ratio(draws, num_balance[0], num_balance[1])
    if ratio is None:
        return [plain]
    first = (num_balance[0], num_balance[1])
    guess = _guess(draws, first, (metas[0] - first[0], metas[1] - first[1]), exact)
    return [plain, Recipe(values, guess, ratio)]


def _guess(
    draws: Draws, first: tuple[int, int], nums: tuple[int, int], exact: tuple[bool, bool]
) -> tuple[np.ndarray, np.ndarray] | None:
    r"""$s$ at gold and target draws, from `nums` traces after the `first` ones.

    Among an algorithm's own scores column 0 is the real trace, so those without `first` skip it.
    """
    if any(num < 1 and not known for num, known in zip(nums, exact, strict=True)):
        return None

    def scores(side: Side, own: bool, role: int) -> np.ndarray:
        columns = side.own if own else side.cross
        if exact[role]:
            return columns[:, 0]
        begin = max(first[role], 1) if own else first[role]
        return row_log_mean_exp(columns[:, begin : begin + nums[role]])

    with np.errstate(invalid="ignore"):
        return (
            scores(draws.gold, True, 0) - scores(draws.gold, False, 1),
            scores(draws.target, False, 0) - scores(draws.target, True, 1),
        )
