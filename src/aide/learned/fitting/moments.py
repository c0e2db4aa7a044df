"""Records of pilots, and how well weights, means and covariances predict them (NumPy)."""

from typing import NamedTuple

import numpy as np

INFLATION = 1.05
"""Covariances of proposals are larger than those of the fit by this factor."""


class RecordsAtTime(NamedTuple):
    r"""Pilot chains at one time.

    Attributes:
        points: $(y, v)$, [n, D].
        branch: $b$, [n].
        origin: Which of the states before, where the kernel weighs them; else $b$, [n].
        log_kernel: $\log\gamma(y)/\hat Z$, [n].
        log_own: $\log g(v, b \mid y)$, [n].
    """

    points: np.ndarray
    branch: np.ndarray
    origin: np.ndarray
    log_kernel: np.ndarray
    log_own: np.ndarray


class Moments(NamedTuple):
    """Weights, means and covariances.

    Weights: the kernel's, those of the lagging components, those of the Gaussians of $(y, v)$.
    `lagging` are means and covariances of the lagging ones.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    lagging: tuple[np.ndarray, np.ndarray]

    def inflated(self) -> "Moments":
        """With enlarged covariances, for use as a proposal."""
        means, covariances = self.lagging
        return self._replace(
            covariances=INFLATION * self.covariances, lagging=(means, INFLATION * covariances)
        )


def log_terms(moments: Moments, records: RecordsAtTime, branch: np.ndarray) -> np.ndarray:
    r"""The log terms of $J(y, v, b)$ at every record, [1 + K + J, n]."""
    log_weights = np.log(moments.weights)
    num_lagging = len(moments.lagging[0])
    terms = np.full((log_weights.size, len(records.points)), -np.inf)
    terms[0] = log_weights[0] + records.log_kernel + records.log_own
    for i, (mean, covariance) in enumerate(zip(*moments.lagging, strict=True), 1):
        log_y = _log_normal(records.points[:, : len(mean)], mean, covariance)
        terms[i] = log_weights[i] + log_y + records.log_own
    pairs = zip(moments.means, moments.covariances, strict=True)
    for j, (mean, covariance) in enumerate(pairs):
        mine = records.branch == branch[j]
        row = 1 + num_lagging + j
        terms[row, mine] = log_weights[row] + _log_normal(records.points[mine], mean, covariance)
    return terms


def _log_normal(points: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    root = np.linalg.cholesky(covariance)
    white = np.linalg.inv(root) @ (points - mean).T
    scale = np.log(np.diag(root)).sum() + 0.5 * len(mean) * np.log(2 * np.pi)
    return -scale - 0.5 * (white**2).sum(axis=0)


def mean_log_joint(moments: Moments, records: RecordsAtTime, branch: np.ndarray) -> float:
    r"""The average of $\log J(y, v, b)$: how well a fit predicts (new) records."""
    return float(np.logaddexp.reduce(log_terms(moments, records, branch), axis=0).mean())
