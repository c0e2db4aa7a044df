r"""Fitting the joint models to pilot chains: EM along a grid of times (NumPy).

Each time is warm-started at, and shrunk towards, the fit of the time before. Independent fits lose
the last stragglers, and a single run of the target then costs tens of nats. For the same reason one
wide Gaussian per branch, the moments of the first step, stays in the mixture for ever.

Where a kernel mirrors origins (NUTS), $(y, -v)$ is as likely as $(y, v)$: Gaussians come in pairs,
each the mirror image of the other, and a pair learns from all pilots and from their images.
"""

import numpy as np

from aide.learned.fitting.moments import Moments, RecordsAtTime, log_terms
from aide.learned.fitting.starts import FEWEST, mirror_of, start_moments

PENALTY = 1.0
"""Counts taken from every Gaussian and not from the kernel, which Gaussians would mimic else."""
MEAN_COUNTS = 1.0
"""Counts with which a mean is drawn to the previous one; covariances have dimension + 2."""
FIRST_ITERATIONS, ITERATIONS = 60, 15


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


def fit_times(
    seed: int,
    times: list[RecordsAtTime],
    branch: np.ndarray,
    size: int,
    num_lagging: int = 0,
    mirrors: bool = False,
) -> list[Moments]:
    """One fit per time, in order, with the Gaussians of `gaussian_slots`; `size` is that of y.

    With `mirrors`, the second half of those that move mirrors the first.
    """
    prior = start_moments(seed, times[0], branch, size, num_lagging, mirrors)
    mirror = mirror_of(times[0].points.shape[1], size) if mirrors else None
    fits, num_iterations = [], FIRST_ITERATIONS
    for records in times:
        current = prior
        for _ in range(num_iterations):
            current = improve(current, prior, records, branch, mirror)
        fits.append(current)
        prior, num_iterations = current, ITERATIONS
    return fits


def improve(
    current: Moments,
    prior: Moments,
    records: RecordsAtTime,
    branch: np.ndarray,
    mirror: np.ndarray | None = None,
) -> Moments:
    """One step of EM towards the most probable parameters, `prior` being the centre.

    `mirror` holds the signs of an image, where Gaussians come in pairs.
    """
    terms = log_terms(current, records, branch)
    shares = np.exp(terms - np.logaddexp.reduce(terms, axis=0))
    counts = shares.sum(axis=1)
    weights = np.maximum(counts - np.append(0.0, np.full(counts.size - 1, PENALTY)), FEWEST)
    num_lagging = len(prior.lagging[0])
    means, covariances = np.empty_like(prior.means), np.empty_like(prior.covariances)
    moving = branch.size - np.unique(branch).size
    means[moving:], covariances[moving:] = prior.means[moving:], prior.covariances[moving:]
    gauss, points, pairs = shares[1 + num_lagging :], records.points, 0
    if mirror is not None:
        pairs, first = moving // 2, 1 + num_lagging
        points = np.concatenate([points, points * mirror])
        halves = weights[first : first + moving].reshape(2, pairs)
        weights[first : first + moving] = np.tile(halves.mean(axis=0), 2)
        gauss = np.concatenate([gauss[:pairs], gauss[pairs:moving]], axis=1)
    for j in range(pairs or moving):
        before = prior.means[j], prior.covariances[j]
        means[j], covariances[j] = _update(points, gauss[j], *before)
        if mirror is not None:
            image = means[j] * mirror, covariances[j] * np.outer(mirror, mirror)
            means[pairs + j], covariances[pairs + j] = image
    lagging = (np.empty_like(prior.lagging[0]), np.empty_like(prior.lagging[1]))
    for i in range(num_lagging):
        before = prior.lagging[0][i], prior.lagging[1][i]
        points = records.points[:, : len(before[0])]
        lagging[0][i], lagging[1][i] = _update(points, shares[1 + i], *before)
    return Moments(weights / weights.sum(), means, covariances, lagging)


def _update(
    points: np.ndarray, share: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted moments, shrunk towards the ones given."""
    count, freedom = share.sum(), len(mean) + 2.0
    new = (share @ points + MEAN_COUNTS * mean) / (count + MEAN_COUNTS)
    apart, shift = points - new, new - mean
    scatter = (apart.T * share) @ apart + MEAN_COUNTS * np.outer(shift, shift)
    return new, (scatter + freedom * covariance) / (count + freedom)
