r"""A lower bound on the symmetrised KL divergence from outputs, by a classifier.

Cross-fitting: runs are divided into folds; the classifier, its clipping, all constants and all
choices for one fold are made on the other folds. Given those, the terms of the fold (`legendre`)
are independent and their means add up to at most $D$, and the same holds for the average over
folds. The error of that average is the mean of the folds' errors, which are centred given their
training runs, and uncorrelated up to the influence of single runs on $f$, which vanishes as the
number of runs grows (Chernozhukov et al., 2018, Econometrics Journal 21:C1-C68).
`benchmarks/coverage/sandwich.py` measures how often the limits hold.
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
"""Folds of all runs: each classifier is trained on four fifths of the runs."""
NUM_INNER_FOLDS = 2
"""Folds of the training runs by which features, penalty and clipping are chosen."""
SATURATED_SHARE = 0.5
"""Share of the folds with a saturated clipping above which the result says that N is too small."""


class LowerTerms(NamedTuple):
    """Held-out terms whose means add up to a lower bound of the divergence.

    Attributes:
        gold: Terms at the gold standard's outputs.
        target: Terms at the target's outputs.
        allowance: Nats that rare low terms, which no run has shown, may take away from the mean.
        saturated: Whether the number of runs, not the divergence, limits the bound.
        directions: The terms of KL(gold‖target) and of KL(target‖gold), or `None`.
        sequences: For either algorithm how its terms depend on each other.
    """

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
        """Numbers below KL(gold‖target) and KL(target‖gold), each with probability `level`.

        `None` where terms are balanced (`balance`), which mixes the directions.
        """
        if self.directions is None:
            return None
        forward, backward = (
            confidence_limit((half.gold, half.target), 1 - level, self.sequences) - half.allowance
            for half in self.directions
        )
        return forward, backward


class Half(NamedTuple):
    """Terms of one direction at gold and at target outputs, and their allowance in nats."""

    gold: np.ndarray
    target: np.ndarray
    allowance: float


class _ClassifierChoice(NamedTuple):
    """What cross-validation chose for one fold."""

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
    """Held-out terms of all runs; choices are made for a lower limit at `level`.

    Args:
        candidates: Inputs of a classifier, of which each fold chooses one.
        level: The probability with which the lower limit is to hold.
        sequences: For either algorithm how its runs depend on each other, as the phases of the
            candidates say.
        effective: Effective numbers of independent runs; by default all runs.
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
        features = find_features(training, held, rows_per_feature)
        [logits] = classify(features, training, held, (penalty,))
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
    is_saturated = bool(np.mean(saturated) > SATURATED_SHARE)
    return LowerTerms(gold, target, float(np.mean(allowances)), is_saturated, halves, sequences)


def _choose(
    candidates: list[ClassifierInputs], rows: tuple[np.ndarray, np.ndarray], goal: LimitGoal
) -> _ClassifierChoice:
    """The inputs, features, penalty and bound with the highest expected limit on inner folds.

    Candidates differ in guesses and ratios, not in outputs: features are computed once for all.
    """
    training = [inputs.take(*rows) for inputs in candidates]
    folds = training[0].folds(NUM_INNER_FOLDS, NUM_FOLDS)
    parts = [(folds[0] == fold, folds[1] == fold) for fold in range(NUM_INNER_FOLDS)]
    first = [_divided(training[0], here) for here in parts]
    features = {num: [find_features(*pair, num) for pair in first] for num in ROWS_PER_FEATURE}
    found = []
    for inputs, part in zip(candidates, training, strict=True):
        divided = [_divided(part, here) for here in parts]
        for rows_per_feature in ROWS_PER_FEATURE:
            logits = _held_out(part, parts, divided, features[rows_per_feature])
            for penalty, pair in zip(PENALTIES, logits, strict=True):
                bound = choose_bound(pair, part.ratio, goal)
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
    features: list[FoldFeatures],
) -> list[Pair]:
    """Log odds of all runs by classifiers trained on other runs, for each penalty."""
    logits = [tuple(np.empty(num) for num in inputs.nums) for _ in PENALTIES]
    for here, (training, held), known in zip(parts, divided, features, strict=True):
        fitted = classify(known, training, held, PENALTIES)
        for out, pair in zip(logits, fitted, strict=True):
            out[0][here[0]], out[1][here[1]] = pair
    return [(gold, target) for gold, target in logits]
