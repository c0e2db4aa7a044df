r"""Logistic regression: the log odds that an output is the gold standard's."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from aide._core.numerics import optimize, special


class Logit(NamedTuple):
    r"""$f(x) = s(x) + \beta_0 + \beta^\top W(\phi(x) - m)$, $s$ a given guess at the log ratio."""

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
        features: Of gold and target outputs, one row each.
        offset: $s$ at the same outputs (0 if there is no guess).
        penalties: One fit for each $\lambda$.
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
    for penalty in sorted(penalties, reverse=True):  # each fit starts at the one before
        ridge = np.r_[0.0, np.full(len(weights) - 1, penalty)]
        options = {"maxiter": 100, "gtol": 1e-6}
        weights = optimize.minimize(
            loss, weights, (ridge,), jac=True, method="L-BFGS-B", options=options
        ).x
        found[penalty] = Logit(centre, whiten, weights)
    return [found[penalty] for penalty in penalties]


def _whitening(rows: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centre and matrix that make features uncorrelated with variance 1; constants are dropped."""
    centre = share @ rows
    covariance = (rows - centre).T @ ((rows - centre) * share[:, None])
    scale = np.sqrt(np.diag(covariance))
    scale = np.where(scale > 1e-12, scale, np.inf)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = values > 1e-8
    return centre, vectors[:, kept] / np.sqrt(values[kept]) / scale[:, None]
