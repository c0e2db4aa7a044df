r"""A lower bound on the symmetrised KL divergence from outputs, by a classifier.

Cross-fitting: runs are divided into folds; the classifier, its clipping, all constants and all
choices between recipes for one fold come from the other folds. Given those, the terms of the fold
(`legendre`) are independent and their means add up to at most $D$; so does the average over folds.
Its error is the average of the folds' errors, which are centred given their training runs, and
uncorrelated up to the influence of single runs on $f$, which vanishes as their number grows
(Chernozhukov et al., 2018, Econometrics Journal 21:C1-C68). How well this
holds is measured by `benchmarks/coverage/sandwich.py`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from aide.estimation.interval import confidence_limit
from aide.estimation.means import Sequences
from aide.estimation.sandwich.legendre import Bound, Goal, Pair, choose_bound
from aide.estimation.sandwich.recipe import Recipe
from aide.estimation.sandwich.training import PENALTIES, ROWS_PER_FEATURE, Seen, classify, see

NUM_FOLDS = 5
NUM_INNER_FOLDS = 2


class LowerTerms(NamedTuple):
    """Held-out terms whose means add up to a lower bound, and what unseen tails may take away."""

    gold: np.ndarray
    target: np.ndarray
    allowance: float
    saturated: bool
    directions: tuple["Half", "Half"] | None
    sequences: Sequence[Sequences | None]

    def limit(self, level: float) -> float:
        """A number below the divergence with probability `level`."""
        samples = (self.gold, self.target)
        return confidence_limit(samples, 1 - level, self.sequences) - self.allowance

    def direction_limits(self, level: float) -> tuple[float, float] | None:
        """Numbers below KL(gold‖target) and below KL(target‖gold), each with that probability.

        `None` where terms were balanced, which mixes the directions.
        """
        if self.directions is None:
            return None
        forward, backward = (
            confidence_limit((half.gold, half.target), 1 - level, self.sequences) - half.allowance
            for half in self.directions
        )
        return forward, backward


class Half(NamedTuple):
    """Terms of one direction, and what unseen tails may take away."""

    gold: np.ndarray
    target: np.ndarray
    allowance: float


class _Choice(NamedTuple):
    recipe: Recipe
    rows_per_feature: int | None
    penalty: float
    bound: Bound


def lower_terms(
    recipes: list[Recipe],
    level: float,
    sequences: Sequence[Sequences | None] = (None, None),
    effective: tuple[float, float] | None = None,
) -> LowerTerms:
    """Terms of all runs; choices are made for a lower limit at `level`.

    Args:
        recipes: What a classifier may look at.
        level: The probability.
        sequences: How runs of either side depend on each other, as the phases of the recipes say.
        effective: Independent runs that would be worth as much; all of them unless stated.
    """
    nums = recipes[0].nums
    goal = Goal(nums if effective is None else effective, level)
    folds = recipes[0].folds(NUM_FOLDS)
    gold, target = (np.empty(num) for num in nums)
    parts = [(np.zeros(nums[0]), np.zeros(nums[1])) for _ in range(2)]
    part_allowances = []
    allowances, saturated, balanced = [], [], False
    for fold in range(NUM_FOLDS):
        rest = folds[0] != fold, folds[1] != fold
        here = folds[0] == fold, folds[1] == fold
        recipe, rows_per_feature, penalty, bound = _choose(recipes, rest, goal)
        balanced = balanced or recipe.ratio is not None
        training, held = recipe.take(*rest), recipe.take(*here)
        seen = see(training, held, rows_per_feature)
        [logits] = classify(seen, training, held, (penalty,))
        gold[here[0]], target[here[1]] = bound.terms(logits, held.ratio)
        allowances.append(bound.allowance)
        part_allowances.append(bound.part_allowances)
        for part, half in zip(parts, bound.halves(logits), strict=True):
            part[0][here[0]], part[1][here[1]] = half
        saturated.append(recipe.ratio is None and bound.is_saturated(logits))
    halves = None
    if not balanced:
        each = np.mean(part_allowances, axis=0)
        halves = Half(*parts[0], float(each[0])), Half(*parts[1], float(each[1]))
    is_saturated = bool(np.mean(saturated) > 0.5)
    return LowerTerms(gold, target, float(np.mean(allowances)), is_saturated, halves, sequences)


def _choose(recipes: list[Recipe], rows: tuple[np.ndarray, np.ndarray], goal: Goal) -> _Choice:
    """The recipe, penalty and bound that do best on training runs the classifier did not see.

    Recipes differ in guesses and ratios, not in outputs: features are found once for all of them.
    """
    known = [recipe.take(*rows) for recipe in recipes]
    folds = known[0].folds(NUM_INNER_FOLDS, NUM_FOLDS)
    parts = [(folds[0] == fold, folds[1] == fold) for fold in range(NUM_INNER_FOLDS)]
    first = [_divided(known[0], here) for here in parts]
    seen = {num: [see(*divided, num) for divided in first] for num in ROWS_PER_FEATURE}
    found = []
    for recipe, mine in zip(recipes, known, strict=True):
        divided = [_divided(mine, here) for here in parts]
        for rows_per_feature in ROWS_PER_FEATURE:
            logits = _held_out(mine, parts, divided, seen[rows_per_feature])
            for penalty, pair in zip(PENALTIES, logits, strict=True):
                bound = choose_bound(pair, mine.ratio, goal)
                found.append(_Choice(recipe, rows_per_feature, penalty, bound))
    return max(found, key=lambda choice: choice.bound.expected)


def _divided(recipe: Recipe, held: tuple[np.ndarray, np.ndarray]) -> tuple[Recipe, Recipe]:
    """Training runs, and those held out."""
    return recipe.take(~held[0], ~held[1]), recipe.take(*held)


def _held_out(
    recipe: Recipe,
    parts: list[tuple[np.ndarray, np.ndarray]],
    divided: list[tuple[Recipe, Recipe]],
    seen: list[Seen],
) -> list[Pair]:
    """Log odds of all runs by classifiers that did not see them, for each penalty."""
    logits = [tuple(np.empty(num) for num in recipe.nums) for _ in PENALTIES]
    for here, (training, held), features in zip(parts, divided, seen, strict=True):
        fitted = classify(features, training, held, PENALTIES)
        for out, pair in zip(logits, fitted, strict=True):
            out[0][here[0]], out[1][here[1]] = pair
    return [(gold, target) for gold, target in logits]
