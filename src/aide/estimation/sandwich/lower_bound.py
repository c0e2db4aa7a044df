r"""A lower bound on the symmetrised KL divergence from outputs, by a classifier.

Cross-fitting: runs are divided into folds; the classifier, its clipping, all constants and all
choices between recipes for one fold come from the other folds. Given those, the terms of the fold
(`legendre`) are independent and their means add up to at most $D$; so does the average over folds.
Its error is the average of the folds' errors, which are centred given their training runs, and
uncorrelated up to the influence of single runs on $f$, which vanishes as their number grows
(Chernozhukov et al., 2018, Econometrics Journal 21:C1-C68). How well this
holds is measured by `benchmarks/coverage/sandwich.py`.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from aide.estimation.interval import confidence_limit
from aide.estimation.means import Sequences
from aide.estimation.sandwich.legendre import Bound, Goal, choose_bound
from aide.estimation.sandwich.recipe import Recipe
from aide.estimation.sandwich.training import PENALTIES, ROWS_PER_FEATURE, train

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
        [classify] = train(recipe.take(*rest), rows_per_feature, (penalty,))
        held = recipe.take(*here)
        logits = classify(held)
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
    """The recipe, penalty and bound that do best on training runs the classifier did not see."""
    found = []
    for recipe, rows_per_feature in itertools.product(recipes, ROWS_PER_FEATURE):
        known = recipe.take(*rows)
        folds = known.folds(NUM_INNER_FOLDS, NUM_FOLDS)
        logits = [tuple(np.empty(num) for num in known.nums) for _ in PENALTIES]
        for fold in range(NUM_INNER_FOLDS):
            here = folds[0] == fold, folds[1] == fold
            trained = train(known.take(~here[0], ~here[1]), rows_per_feature, PENALTIES)
            for out, classify in zip(logits, trained, strict=True):
                out[0][here[0]], out[1][here[1]] = classify(known.take(*here))
        for penalty, (at_gold, at_target) in zip(PENALTIES, logits, strict=True):
            bound = choose_bound((at_gold, at_target), known.ratio, goal)
            found.append(_Choice(recipe, rows_per_feature, penalty, bound))
    return max(found, key=lambda choice: choice.bound.expected)
