r"""A lower bound on the symmetrised KL divergence from outputs, by a classifier.

Cross-fitting: runs are divided into folds; the classifier, its clipping, all constants and all
choices between candidates for one fold come from the other folds. Given those, the terms of the fold
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
from aide.estimation.sandwich.classifier import (
    PENALTIES,
    ROWS_PER_FEATURE,
    FoldFeatures,
    classify,
    find_features,
)
from aide.estimation.sandwich.inputs import ClassifierInputs
from aide.estimation.sandwich.legendre import Bound, LimitGoal, Pair, choose_bound
from aide.estimation.terms import Sequences

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


class _ClassifierChoice(NamedTuple):
    inputs: ClassifierInputs
    rows_per_feature: int | None
    penalty: float
    bound: Bound


def lower_terms(
    candidates: list[ClassifierInputs],
    level: float,
    sequences: Sequence[Sequences | None] = (None, None),
    effective: tuple[float, float] | None = None,
) -> LowerTerms:
    """Terms of all runs; choices are made for a lower limit at `level`.

    Args:
        candidates: What a classifier may look at.
        level: The probability.
        sequences: How runs of either side depend on each other, as the phases of the candidates say.
        effective: Independent runs that would be worth as much; all of them unless stated.
    """
    nums = candidates[0].nums
    goal = LimitGoal(nums if effective is None else effective, level)
    folds = candidates[0].folds(NUM_FOLDS)
    gold, target = (np.empty(num) for num in nums)
    parts = [(np.zeros(nums[0]), np.zeros(nums[1])) for _ in range(2)]
    part_allowances = []
    allowances, saturated, balanced = [], [], False
    for fold in range(NUM_FOLDS):
        rest = folds[0] != fold, folds[1] != fold
        here = folds[0] == fold, folds[1] == fold
        inputs, rows_per_feature, penalty, bound = _choose(candidates, rest, goal)
        balanced = balanced or inputs.ratio is not None
        training, held = inputs.take(*rest), inputs.take(*here)
        seen = find_features(training, held, rows_per_feature)
        [logits] = classify(seen, training, held, (penalty,))
        gold[here[0]], target[here[1]] = bound.terms(logits, held.ratio)
        allowances.append(bound.allowance)
        part_allowances.append(bound.part_allowances)
        for part, half in zip(parts, bound.halves(logits), strict=True):
            part[0][here[0]], part[1][here[1]] = half
        saturated.append(inputs.ratio is None and bound.is_saturated(logits))
    halves = None
    if not balanced:
        each = np.mean(part_allowances, axis=0)
        halves = Half(*parts[0], float(each[0])), Half(*parts[1], float(each[1]))
    is_saturated = bool(np.mean(saturated) > 0.5)
    return LowerTerms(gold, target, float(np.mean(allowances)), is_saturated, halves, sequences)


def _choose(
    candidates: list[ClassifierInputs], rows: tuple[np.ndarray, np.ndarray], goal: LimitGoal
) -> _ClassifierChoice:
    """The inputs, penalty and bound that do best on training runs the classifier did not find_features.

    Recipes differ in guesses and ratios, not in outputs: features are found once for all of them.
    """
    known = [inputs.take(*rows) for inputs in candidates]
    folds = known[0].folds(NUM_INNER_FOLDS, NUM_FOLDS)
    parts = [(folds[0] == fold, folds[1] == fold) for fold in range(NUM_INNER_FOLDS)]
    first = [_divided(known[0], here) for here in parts]
    seen = {num: [find_features(*divided, num) for divided in first] for num in ROWS_PER_FEATURE}
    found = []
    for inputs, mine in zip(candidates, known, strict=True):
        divided = [_divided(mine, here) for here in parts]
        for rows_per_feature in ROWS_PER_FEATURE:
            logits = _held_out(mine, parts, divided, seen[rows_per_feature])
            for penalty, pair in zip(PENALTIES, logits, strict=True):
                bound = choose_bound(pair, mine.ratio, goal)
                found.append(_ClassifierChoice(inputs, rows_per_feature, penalty, bound))
    return max(found, key=lambda choice: choice.bound.expected)


def _divided(
    inputs: ClassifierInputs, held: tuple[np.ndarray, np.ndarray]
) -> tuple[ClassifierInputs, ClassifierInputs]:
    """Training runs, and those held out."""
    return inputs.take(~held[0], ~held[1]), inputs.take(*held)


def _held_out(
    inputs: ClassifierInputs,
    parts: list[tuple[np.ndarray, np.ndarray]],
    divided: list[tuple[ClassifierInputs, ClassifierInputs]],
    seen: list[FoldFeatures],
) -> list[Pair]:
    """Log odds of all runs by classifiers that did not find_features them, for each penalty."""
    logits = [tuple(np.empty(num) for num in inputs.nums) for _ in PENALTIES]
    for here, (training, held), features in zip(parts, divided, seen, strict=True):
        fitted = classify(features, training, held, PENALTIES)
        for out, pair in zip(logits, fitted, strict=True):
            out[0][here[0]], out[1][here[1]] = pair
    return [(gold, target) for gold, target in logits]
