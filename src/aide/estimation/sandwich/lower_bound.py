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
from typing import NamedTuple

import numpy as np

from aide.estimation.interval import confidence_limit
from aide.estimation.sandwich.balance import fold_of
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

    def limit(self, level: float) -> float:
        """A number below the divergence with probability `level`."""
        return confidence_limit((self.gold, self.target), 1 - level) - self.allowance


class _Choice(NamedTuple):
    recipe: Recipe
    rows_per_feature: int
    penalty: float
    bound: Bound


def lower_terms(recipes: list[Recipe], level: float) -> LowerTerms:
    """Terms of all runs; choices are made for a lower limit at `level`."""
    goal = Goal(recipes[0].nums, level)
    folds = tuple(fold_of(num, NUM_FOLDS) for num in goal.nums)
    gold, target = (np.empty(num) for num in goal.nums)
    allowances, saturated = [], []
    for fold in range(NUM_FOLDS):
        rest = folds[0] != fold, folds[1] != fold
        here = folds[0] == fold, folds[1] == fold
        recipe, rows_per_feature, penalty, bound = _choose(recipes, rest, goal)
        [classify] = train(recipe.take(*rest), rows_per_feature, (penalty,))
        held = recipe.take(*here)
        logits = classify(held)
        gold[here[0]], target[here[1]] = bound.terms(logits, held.ratio)
        allowances.append(bound.allowance)
        saturated.append(recipe.ratio is None and bound.is_saturated(logits))
    return LowerTerms(gold, target, float(np.mean(allowances)), bool(np.mean(saturated) > 0.5))


def _choose(recipes: list[Recipe], rows: tuple[np.ndarray, np.ndarray], goal: Goal) -> _Choice:
    """The recipe, penalty and bound that do best on training runs the classifier did not see."""
    found = []
    for recipe, rows_per_feature in itertools.product(recipes, ROWS_PER_FEATURE):
        known = recipe.take(*rows)
        folds = tuple(fold_of(num, NUM_INNER_FOLDS) for num in known.nums)
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
