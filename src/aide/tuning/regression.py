r"""Which data are hard? The log of the divergence as a linear function of features of the data."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

SPARE = 3
"""Data sets more than coefficients that a model needs before it is fitted."""


class Hardness(NamedTuple):
    r"""$\log D \approx a + \sum_j b_j z_j$, with features $z_j$ centred and scaled.

    Attributes:
        names: Of the features.
        means: Of the features, which are taken off.
        stds: By which they are divided.
        intercept: $a$.
        coefficients: $b_j$: the change of $\log D$ per standard deviation of a feature.
        std_errors: Of the coefficients.
        error: Root mean square error of $\log D$ at a data set left out of the fit.
        baseline: The same for the mean of $\log D$ alone.
    """

    names: tuple[str, ...]
    means: np.ndarray
    stds: np.ndarray
    intercept: float
    coefficients: np.ndarray
    std_errors: np.ndarray
    error: float
    baseline: float

    @property
    def explained(self) -> float:
        """Share of the variance of log D that is foreseen at data left out; below 0: none."""
        return 1.0 - (self.error / self.baseline) ** 2 if self.baseline > 0 else 0.0

    def predict(self, features: Mapping[str, float]) -> float:
        """The divergence that is foreseen for other data."""
        values = np.array([features[name] for name in self.names], float)
        return float(
            np.exp(self.intercept + self.coefficients @ ((values - self.means) / self.stds))
        )

    @property
    def words(self) -> str:
        """What it says, honestly."""
        if self.explained <= 0.05:
            return (
                "These features do not predict the divergence: a data set that is left out is "
                f"predicted no better than by the mean (error of log D {self.error:.2g} against "
                f"{self.baseline:.2g})."
            )
        order = np.argsort(-np.abs(self.coefficients))
        parts = [
            f"{self.names[j]} (× {np.exp(self.coefficients[j]):.2g} per standard deviation)"
            for j in order
            if abs(self.coefficients[j]) > 2 * self.std_errors[j]
        ]
        return (
            f"The divergence changes with {', '.join(parts) or 'no single feature'}. For a data "
            f"set that is left out it is predicted to within a factor of {np.exp(self.error):.2g}; "
            f"by the mean alone, to within {np.exp(self.baseline):.2g}."
        )


def fit_hardness(
    divergences: Sequence[float], features: Sequence[Mapping[str, Any]]
) -> Hardness | None:
    r"""Least squares; errors at data left out are $e_i/(1 - h_{ii})$ with leverages $h_{ii}$.

    `None` where there are too few data sets. Divergences must be positive.
    """
    names = tuple(features[0]) if features else ()
    num = len(divergences)
    if not names or num < len(names) + 1 + SPARE:
        return None
    table = np.array([[float(one[name]) for name in names] for one in features])
    means, stds = table.mean(axis=0), table.std(axis=0, ddof=1)
    stds = np.where(stds > 0, stds, 1.0)
    design = np.column_stack([np.ones(num), (table - means) / stds])
    y = np.log(np.asarray(divergences, float))
    inverse = np.linalg.pinv(design.T @ design)
    coefficients = inverse @ design.T @ y
    residuals = y - design @ coefficients
    leverages = np.clip(np.einsum("ij,jk,ik->i", design, inverse, design), 0.0, 1 - 1e-9)
    left_out = residuals / (1.0 - leverages)
    variance = float(residuals @ residuals) / (num - design.shape[1])
    errors = np.sqrt(variance * np.diag(inverse))
    alone = (y - y.mean()) * num / (num - 1)
    return Hardness(
        names,
        means,
        stds,
        float(coefficients[0]),
        coefficients[1:],
        errors[1:],
        float(np.sqrt(np.mean(left_out**2))),
        float(np.sqrt(np.mean(alone**2))),
    )
