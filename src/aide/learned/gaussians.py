r"""Fitting the joint models to pilot chains: EM along a grid of times (NumPy).

Each time is warm-started at, and shrunk towards, the fit of the time before. Independent fits lose
the last stragglers, and a single run of the target then costs tens of nats. For the same reason one
wide Gaussian per branch, the moments of the first step, stays in the mixture for ever.
"""

from typing import NamedTuple

import numpy as np

PENALTY = 1.0
"""Counts taken from every Gaussian and not from the kernel, which Gaussians would mimic else."""
FEWEST = 0.3
"""No component's weight falls below this many counts: proposals keep their tails."""
MEAN_COUNTS = 1.0
"""Counts with which a mean is drawn to the previous one; covariances have dimension + 2."""
INFLATION = 1.05
"""Covariances are enlarged by this factor in the end."""
FIRST_ITERATIONS, ITERATIONS = 60, 15


class Records(NamedTuple):
    r"""Pilot chains at one time.

    Attributes:
        points: $(y, v)$, [n, D].
        branch: $b$, [n].
        log_kernel: $\log\gamma(y) g(v, b \mid y)/\hat Z$, [n].
    """

    points: np.ndarray
    branch: np.ndarray
    log_kernel: np.ndarray


class Moments(NamedTuple):
    """Weights (the kernel's first), means and covariances."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    def inflated(self) -> "Moments":
        """With enlarged covariances, for use as a proposal."""
        return self._replace(covariances=INFLATION * self.covariances)


def gaussian_slots(num_branches: int, num_components: int) -> np.ndarray:
    """The branch each Gaussian serves; the last ones, one per branch, are those that stay.

    Rejected steps (branch 0 of 2) have half as many as accepted ones.
    """
    moving = [0] * num_components
    if num_branches > 1:
        moving = [0] * ((num_components + 1) // 2)
        for b in range(1, num_branches):
            moving += [b] * num_components
    return np.array(moving + list(range(num_branches)), np.int32)


def fit_times(seed: int, times: list[Records], branch: np.ndarray) -> list[Moments]:
    """One fit per time, in order, with the Gaussians of `gaussian_slots`."""
    prior = start_moments(seed, times[0], branch)
    fits, num_iterations = [], FIRST_ITERATIONS
    for records in times:
        current = prior
        for _ in range(num_iterations):
            current = improve(current, prior, records, branch)
        fits.append(current)
        prior, num_iterations = current, ITERATIONS
    return fits


def start_moments(seed: int, records: Records, branch: np.ndarray) -> Moments:
    """Centres by k-means++ in whitened coordinates within each branch, one common covariance."""
    from scipy.cluster.vq import kmeans2

    rng = np.random.default_rng(seed)
    points = records.points
    size = points.shape[1]
    means = np.empty((branch.size, size))
    covariances = np.empty((branch.size, size, size))
    overall = np.cov(points.T).reshape(size, size)
    for b in np.unique(branch):
        mine = points[records.branch == b]
        *slots, stays = np.flatnonzero(branch == b)
        share = len(mine) / (len(mine) + 2 * size)
        own = np.cov(mine.T).reshape(size, size) if len(mine) > 1 else overall
        spread = share * own + (1 - share) * overall
        spread = spread + np.diag(1e-4 * np.diag(spread) + 1e-12)
        if len(mine) < 2 * len(slots):
            mine = points[rng.choice(len(points), 2 * len(slots))]
        means[stays], covariances[stays] = mine.mean(axis=0), spread
        root = np.linalg.cholesky(spread)
        white = mine @ np.linalg.inv(root).T
        centres, _ = kmeans2(white, len(slots), iter=1, minit="++", rng=rng, missing="warn")
        means[slots] = centres @ root.T
        covariances[slots] = spread / len(slots) ** (2 / size)
    shares = np.bincount(records.branch, minlength=branch.max() + 1) / len(points)
    counts = np.bincount(branch)
    gauss = np.maximum(0.5 * shares[branch] / counts[branch], FEWEST / len(points))
    return Moments(np.append(0.5, gauss) / (0.5 + gauss.sum()), means, covariances)


def improve(current: Moments, prior: Moments, records: Records, branch: np.ndarray) -> Moments:
    """One step of EM towards the most probable parameters, `prior` being the centre."""
    points, size = records.points, records.points.shape[1]
    terms = log_terms(current, records, branch)
    shares = np.exp(terms - np.logaddexp.reduce(terms, axis=0))
    counts = shares.sum(axis=1)
    weights = np.maximum(counts - np.append(0.0, np.full(branch.size, PENALTY)), FEWEST)
    means, covariances = np.empty_like(prior.means), np.empty_like(prior.covariances)
    freedom = size + 2.0
    moving = branch.size - np.unique(branch).size
    means[moving:], covariances[moving:] = prior.means[moving:], prior.covariances[moving:]
    for j in range(moving):
        share, count = shares[1 + j], counts[1 + j]
        means[j] = (share @ points + MEAN_COUNTS * prior.means[j]) / (count + MEAN_COUNTS)
        apart = points - means[j]
        shift = means[j] - prior.means[j]
        scatter = (apart.T * share) @ apart + MEAN_COUNTS * np.outer(shift, shift)
        covariances[j] = (scatter + freedom * prior.covariances[j]) / (count + freedom)
    return Moments(weights / weights.sum(), means, covariances)


def log_terms(moments: Moments, records: Records, branch: np.ndarray) -> np.ndarray:
    r"""The log terms of $J(y, v, b)$ at every record, [1 + J, n]."""
    size = records.points.shape[1]
    terms = np.full((1 + branch.size, len(records.points)), -np.inf)
    terms[0] = np.log(moments.weights[0]) + records.log_kernel
    for j, (mean, covariance) in enumerate(zip(*moments[1:], strict=True)):
        root = np.linalg.cholesky(covariance)
        mine = records.branch == branch[j]
        white = np.linalg.inv(root) @ (records.points[mine] - mean).T
        scale = np.log(np.diag(root)).sum() + 0.5 * size * np.log(2 * np.pi)
        log_weight = np.log(moments.weights[1 + j])
        terms[1 + j, mine] = log_weight - scale - 0.5 * (white**2).sum(axis=0)
    return terms


def mean_log_joint(moments: Moments, records: Records, branch: np.ndarray) -> float:
    r"""The average of $\log J(y, v, b)$: how well a fit predicts (new) records."""
    return float(np.logaddexp.reduce(log_terms(moments, records, branch), axis=0).mean())
