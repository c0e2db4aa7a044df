r"""Logistic regression between both algorithms' outputs: the log odds that an output is gold's.

`find_features` chooses features by the training runs; `classify` trains on them and returns the log
odds at held-out outputs.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.numerics import optimize, special
from aide._core.types import Role
from aide.estimation.sandwich.features import choose_features, fit_gaussians
from aide.estimation.sandwich.inputs import ClassifierInputs
from aide.estimation.sandwich.legendre import Pair

ROWS_PER_FEATURE = (25, 1000, None)
"""Training runs per feature that cross-validation chooses from; `None`: Gaussian features.

25 runs support a coefficient where the two distributions differ clearly; 1,000 leave few features,
whose coefficients small differences still determine.
"""
PENALTIES = (1e-4, 1e-2, 1.0)
"""Ridge penalties, per squared coefficient of a whitened feature, that cross-validation tries."""


class Logit(NamedTuple):
    r"""$f(x) = s(x) + \beta_0 + \beta^\top W(\phi(x) - m)$, with $s$ a guess at the log ratio.

    Attributes:
        centre: $m$.
        whiten: $W$.
        weights: $\beta_0$, then $\beta$.
    """

    centre: np.ndarray
    whiten: np.ndarray
    weights: np.ndarray

    def __call__(self, features: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """The log odds of every row."""
        return (
            offset + self.weights[0] + (features - self.centre) @ (self.whiten @ self.weights[1:])
        )


def fit_logits(
    features: tuple[np.ndarray, np.ndarray],
    offset: tuple[np.ndarray, np.ndarray],
    penalties: Sequence[float],
) -> list[Logit]:
    r"""Minimise the mean logistic loss plus $\frac\lambda2 |\beta|^2$ in whitened features.

    Both algorithms count the same, whatever their numbers of runs, so that $f$ estimates
    $\log(p/q)$. The penalty draws $f$ towards $s + \beta_0$.

    Args:
        features: $\phi$ at the gold and at the target outputs, one row per output.
        offset: $s$ at the same outputs (0 if there is no guess).
        penalties: Values of $\lambda$; one fit is returned for each.
    """
    rows, start = np.concatenate(features), np.concatenate(offset)
    nums = [len(part) for part in features]
    sign = np.repeat([1.0, -1.0], nums)
    share = np.repeat([0.5 / num for num in nums], nums)
    centre, whiten = _whitening(rows, share)
    inputs = np.concatenate([np.ones((len(rows), 1)), (rows - centre) @ whiten], axis=1)

    def loss(weights: np.ndarray, ridge: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (start + inputs @ weights)
        slope = -sign * share * special.expit(-margin)
        value = -share @ special.log_expit(margin) + 0.5 * ridge @ weights**2
        return float(value), slope @ inputs + ridge * weights

    weights, found = np.zeros(inputs.shape[1]), {}
    for penalty in sorted(penalties, reverse=True):  # each fit starts from the one before
        ridge = np.r_[0.0, np.full(len(weights) - 1, penalty)]
        options = {"maxiter": 100, "gtol": 1e-6}
        weights = optimize.minimize(
            loss, weights, (ridge,), jac=True, method="L-BFGS-B", options=options
        ).x
        found[penalty] = Logit(centre, whiten, weights)
    return [found[penalty] for penalty in penalties]


def _whitening(rows: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centre and matrix that make features uncorrelated with variance 1, without constant ones."""
    centre = share @ rows
    covariance = (rows - centre).T @ ((rows - centre) * share[:, None])
    scale = np.sqrt(np.diag(covariance))
    scale = np.where(scale > 1e-12, scale, np.inf)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = values > 1e-8
    return centre, vectors[:, kept] / np.sqrt(values[kept]) / scale[:, None]


class FoldFeatures(NamedTuple):
    """Features of training and of held-out runs; they depend on outputs alone, not on guesses."""

    training: Pair
    held: Pair


def find_features(
    training: ClassifierInputs, held: ClassifierInputs, rows_per_feature: int | None
) -> FoldFeatures:
    """Choose features by the training runs; compute them at training and at held-out outputs."""
    both = jax.tree.map(lambda *leaves: np.concatenate(leaves), *training.values)
    if rows_per_feature is None:
        features = fit_gaussians(training, both)
        rows = features.training
    else:
        features = choose_features(both, sum(training.nums) // rows_per_feature)
        rows = features(training.values[0]), features(training.values[1])
    return FoldFeatures(rows, (features(held.values[0]), features(held.values[1])))


def classify(
    features: FoldFeatures,
    training: ClassifierInputs,
    held: ClassifierInputs,
    penalties: tuple[float, ...],
) -> list[Pair]:
    """Log odds at the held-out outputs, by one classifier for each penalty."""
    limits = _finite_range(training.guess)
    gold, target = (_with_guess(features.training[role], limits, training, role) for role in Role)
    fitted = fit_logits((gold[0], target[0]), (gold[1], target[1]), penalties)
    gold, target = (_with_guess(features.held[role], limits, held, role) for role in Role)
    return [(logit(*gold), logit(*target)) for logit in fitted]


def _with_guess(
    rows: np.ndarray, limits: tuple[float, float], inputs: ClassifierInputs, role: Role
) -> tuple[np.ndarray, np.ndarray]:
    """Features, with those of the guess appended, and the offset, at one algorithm's outputs."""
    if inputs.guess is None:
        return rows, np.zeros(len(rows))
    offset, extra = _guess_features(inputs.guess[role], *limits)
    return np.concatenate([rows, extra], axis=1), offset


def _guess_features(guess: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """The guess clipped to finite limits, and features by which a fit can correct it.

    The features are the guess and its positive part (two slopes), and indicators of +inf, -inf and
    NaN.
    """
    finite = np.clip(np.where(np.isnan(guess), 0.0, guess), low, high)
    extra: list[Any] = [finite, np.maximum(finite, 0.0)]
    extra += [guess == np.inf, guess == -np.inf, np.isnan(guess)]
    return finite, np.stack([np.asarray(column, float) for column in extra], axis=1)


def _finite_range(guess: Pair | None) -> tuple[float, float]:
    """The smallest and the largest finite guess."""
    both = np.concatenate(guess) if guess is not None else np.zeros(1)
    finite = both[np.isfinite(both)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
