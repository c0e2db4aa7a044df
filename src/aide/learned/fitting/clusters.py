"""A few Gaussians with one common covariance, for points that form clusters (NumPy)."""

import numpy as np

from aide.learned.models.divided import Clusters

MOST = 6
"""Clusters that are tried."""


def fit_clusters(seed: int, points: np.ndarray) -> Clusters:
    """As many clusters, by k-means++, as the Bayesian information criterion speaks for."""
    from scipy.cluster.vq import kmeans2

    num, size = points.shape
    scale = points.std(axis=0) + 1e-12
    best, least = None, np.inf
    for number in range(1, max(1, min(MOST, num // (2 * size + 2))) + 1):
        rng = np.random.default_rng(seed)
        _, label = kmeans2(points / scale, number, iter=20, minit="++", rng=rng, missing="warn")
        _, label = np.unique(label, return_inverse=True)
        counts = np.bincount(label)
        means = np.stack([points[label == c].mean(axis=0) for c in range(len(counts))])
        apart = points - means[label]
        covariance = apart.T @ apart / num + np.diag(1e-6 * scale**2)
        log_scale = np.linalg.slogdet(covariance)[1]
        loss = num * (log_scale - 2 * np.sum(counts / num * np.log(counts / num)))
        loss += number * (size + 1) * np.log(num)
        if loss < least:
            best, least = Clusters.of(counts / num, means, covariance), loss
    assert best is not None
    return best
