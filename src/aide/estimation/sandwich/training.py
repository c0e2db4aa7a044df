"""A classifier between the two algorithms' outputs, trained on some of their runs."""

from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.types import Role
from aide.estimation.sandwich.classifier import fit_logits
from aide.estimation.sandwich.features import choose_features
from aide.estimation.sandwich.legendre import Pair
from aide.estimation.sandwich.recipe import Recipe
from aide.estimation.sandwich.scores import fit_scores

ROWS_PER_FEATURE = (25, 1000, None)
"""Training runs per feature: many features, or few that small differences can still support.

`None`: fitted Gaussians, whose log ratios are the features (`scores`).
"""
PENALTIES = (1e-4, 1e-2, 1.0)


class Seen(NamedTuple):
    """Features of training runs and of held-out ones, the same for all recipes of these runs."""

    training: Pair
    held: Pair


def see(training: Recipe, held: Recipe, rows_per_feature: int | None) -> Seen:
    """Features that the training runs ask for, at both."""
    both = jax.tree.map(lambda *leaves: np.concatenate(leaves), *training.values)
    if rows_per_feature is None:
        features = fit_scores(training, both)
        rows = features.training
    else:
        features = choose_features(both, sum(training.nums) // rows_per_feature)
        rows = features(training.values[0]), features(training.values[1])
    return Seen(rows, (features(held.values[0]), features(held.values[1])))


def classify(
    seen: Seen, training: Recipe, held: Recipe, penalties: tuple[float, ...]
) -> list[Pair]:
    """Log odds at the held-out outputs, by one classifier for each penalty."""
    limits = _limits(training.guess)
    gold, target = (_inputs(seen.training[role], limits, training, role) for role in Role)
    fitted = fit_logits((gold[0], target[0]), (gold[1], target[1]), penalties)
    gold, target = (_inputs(seen.held[role], limits, held, role) for role in Role)
    return [(logit(*gold), logit(*target)) for logit in fitted]


def _inputs(
    rows: np.ndarray, limits: tuple[float, float], recipe: Recipe, role: Role
) -> tuple[np.ndarray, np.ndarray]:
    """Features, those of the guess among them, and offset at the outputs of one algorithm."""
    if recipe.guess is None:
        return rows, np.zeros(len(rows))
    offset, extra = _bends(recipe.guess[role], *limits)
    return np.concatenate([rows, extra], axis=1), offset


def _bends(guess: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """The guess within finite limits, and features that correct it: slopes and infinities."""
    finite = np.clip(np.where(np.isnan(guess), 0.0, guess), low, high)
    extra: list[Any] = [finite, np.maximum(finite, 0.0)]
    extra += [guess == np.inf, guess == -np.inf, np.isnan(guess)]
    return finite, np.stack([np.asarray(column, float) for column in extra], axis=1)


def _limits(guess: Pair | None) -> tuple[float, float]:
    both = np.concatenate(guess) if guess is not None else np.zeros(1)
    finite = both[np.isfinite(both)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
