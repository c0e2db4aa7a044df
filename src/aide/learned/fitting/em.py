"""Fitting the joint models to pilot chains: EM along a grid of times (NumPy).

**The start.** Pilots of a kernel that weighs origins (NUTS) are grouped by the distance along the
trajectory between the states before and after the step. Pilots with a short distance are rare,
concentric with all others and different in density, so that k-means never finds them. Given the
origin, state and noise are nearly jointly normal, because the flow over a fixed number of leapfrog
steps is nearly linear. Other pilots are grouped by k-means++.

**The iteration.** The fit of each time starts from, and is shrunk towards, the fit of the time
before. Independent fits lose the last stragglers, and a single run of the target then costs tens of
nats. For the same reason one wide Gaussian per branch, with the moments of the first step, always
stays in the mixture.

Where a kernel mirrors origins (NUTS), $(y, -v)$ is as likely as $(y, v)$: Gaussians come in pairs,
each the mirror image of the other, and both are fitted to all pilots and their mirror images.
"""

from typing import NamedTuple

import numpy as np

INFLATION = 1.05
"""Factor by which covariances of proposals exceed those of the fit, measured with the prototype."""
LEAST_COUNTS = 0.3
"""Smallest weight of a component, in pilots, which keeps the tails of proposals: a choice."""
PENALTY = 1.0
"""Pilots subtracted from the weight of every Gaussian, so that none imitates the kernel."""
MEAN_COUNTS = 1.0
"""Weight of the mean of the time before, in pilots; its covariance weighs dimension + 2."""
FIRST_ITERATIONS = 60
"""Steps of EM at the first time, which starts from k-means++."""
ITERATIONS = 15
"""Steps of EM at each further time, which starts from the fit of the time before."""


class RecordsAtTime(NamedTuple):
    r"""Pilot chains at one time.

    Attributes:
        points: $(y, v)$, [n, D].
        branch: $b$, [n].
        origin: Number of the state before, if the kernel weighs origins; else $b$, [n].
        log_kernel: $\log\gamma(y)/\hat Z$, [n].
        log_own: $\log g(v, b \mid y)$, [n].
    """

    points: np.ndarray
    branch: np.ndarray
    origin: np.ndarray
    log_kernel: np.ndarray
    log_own: np.ndarray


class MixtureMoments(NamedTuple):
    """Weights, means and covariances of the components.

    Attributes:
        weights: Of the kernel, then of the lagging components, then of the Gaussians of $(y, v)$.
        means: Of the Gaussians.
        covariances: Of the Gaussians.
        lagging: Means and covariances of the lagging components.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    lagging: tuple[np.ndarray, np.ndarray]

    def inflated(self) -> "MixtureMoments":
        """The same moments with enlarged covariances, for use as a proposal."""
        means, covariances = self.lagging
        return self._replace(
            covariances=INFLATION * self.covariances, lagging=(means, INFLATION * covariances)
        )


def log_terms(moments: MixtureMoments, records: RecordsAtTime, branch: np.ndarray) -> np.ndarray:
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
        served = records.branch == branch[j]
        row = 1 + num_lagging + j
        terms[row, served] = log_weights[row] + _log_normal(
            records.points[served], mean, covariance
        )
    return terms


def _log_normal(points: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    root = np.linalg.cholesky(covariance)
    white = np.linalg.inv(root) @ (points - mean).T
    scale = np.log(np.diag(root)).sum() + 0.5 * len(mean) * np.log(2 * np.pi)
    return -scale - 0.5 * (white**2).sum(axis=0)


def mean_log_joint(moments: MixtureMoments, records: RecordsAtTime, branch: np.ndarray) -> float:
    r"""The average of $\log J(y, v, b)$, the score of a fit for (new) records."""
    return float(np.logaddexp.reduce(log_terms(moments, records, branch), axis=0).mean())


def start_moments(
    seed: int,
    records: RecordsAtTime,
    branch: np.ndarray,
    size: int,
    num_lagging: int,
    mirrors: bool = False,
) -> MixtureMoments:
    """The moments with which EM begins.

    Within each branch, Gaussians are groups of pilots with one origin. If there are fewer groups
    than Gaussians, the others are centres of k-means++ with one common covariance. With `mirrors`,
    origins at the same distance on both sides are one group, and the Gaussian in slot j of the
    first half has its mirror image in slot j of the second half.
    """
    rng = np.random.default_rng(seed)
    points = records.points
    total = points.shape[1]
    mirror = mirror_of(total, size if mirrors else total)
    means = np.empty((branch.size, total))
    covariances = np.empty((branch.size, total, total))
    overall = np.cov(points.T).reshape(total, total)
    for b in np.unique(branch):
        in_branch = points[records.branch == b]
        *slots, stays = np.flatnonzero(branch == b)
        share = len(in_branch) / (len(in_branch) + 2 * total)
        own = np.cov(in_branch.T).reshape(total, total) if len(in_branch) > 1 else overall
        spread = share * own + (1 - share) * overall
        spread = spread + np.diag(1e-4 * np.diag(spread) + 1e-12)
        if len(in_branch) < 2 * len(slots):
            in_branch = points[rng.choice(len(points), 2 * len(slots))]
        means[stays], covariances[stays] = in_branch.mean(axis=0), spread
        images = slots[len(slots) // 2 :] if mirrors else []
        slots = slots[: len(slots) - len(images)]
        found = _by_origin(records, b, len(slots), spread, mirror)
        centres = _centres(rng, in_branch, len(slots) - len(found), spread)
        for slot, one in zip(slots, [*found, *zip(*centres, strict=True)], strict=True):
            means[slot], covariances[slot] = one
        for slot, image in zip(slots, images, strict=False):
            means[image] = means[slot] * mirror
            covariances[image] = covariances[slot] * np.outer(mirror, mirror)
    spread = overall[:size, :size] + np.diag(1e-4 * np.diag(overall)[:size] + 1e-12)
    lagging = _centres(rng, points[:, :size], num_lagging, spread)
    shares = np.bincount(records.branch, minlength=branch.max() + 1) / len(points)
    counts = np.bincount(branch)
    gauss = np.maximum(0.5 * shares[branch] / counts[branch], LEAST_COUNTS / len(points))
    weights = np.concatenate([[0.5], np.full(num_lagging, 0.5 / max(num_lagging, 1)), gauss])
    return MixtureMoments(weights / weights.sum(), means, covariances, lagging)


def _centres(
    rng: np.random.Generator, points: np.ndarray, num: int, spread: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    from scipy.cluster.vq import kmeans2

    size = len(spread)
    if not num:
        return np.empty((0, size)), np.empty((0, size, size))
    root = np.linalg.cholesky(spread)
    white = points @ np.linalg.inv(root).T
    centres, _ = kmeans2(white, num, iter=1, minit="++", rng=rng, missing="warn")
    return centres @ root.T, np.repeat(spread[None] / num ** (2 / size), num, axis=0)


def mirror_of(total: int, size: int) -> np.ndarray:
    """Signs that turn $(y, v)$, `total` numbers of which `size` are $y$, into $(y, -v)$."""
    return np.where(np.arange(total) < size, 1.0, -1.0)


class _Group(NamedTuple):
    """A group of pilots: their number, the sum of their points, and that of their squares."""

    count: float
    total: np.ndarray
    squares: np.ndarray

    def joined(self, other: "_Group") -> "_Group":
        """The two groups as one."""
        count, total = self.count + other.count, self.total + other.total
        return _Group(count, total, self.squares + other.squares)

    def moments(self, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance; the covariance is shrunk to `spread` with dimension + 2 counts."""
        mean, freedom = self.total / self.count, len(self.total) + 2.0
        scatter = self.squares - self.count * np.outer(mean, mean)
        return mean, (scatter + freedom * spread) / (self.count + freedom)

    def loss(self, spread: np.ndarray) -> float:
        """Minus the log likelihood of the group's Gaussian, up to a constant."""
        return 0.5 * self.count * float(np.linalg.slogdet(self.moments(spread)[1])[1])


def _by_origin(
    records: RecordsAtTime,
    branch: int,
    most: int,
    spread: np.ndarray,
    mirror: np.ndarray,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Moments of groups of pilots with the same origin; none if all origins are the same.

    While there are more than `most` groups, the two with the least costly union are joined.
    """
    of_branch = records.branch == branch
    points = np.where((records.origin < 0)[:, None], records.points * mirror, records.points)
    number = np.abs(records.origin)
    origins = np.unique(number[of_branch])
    if len(origins) < 2:
        return []
    groups = []
    for origin in origins:
        points_here = points[of_branch & (number == origin)]
        sums = points_here.sum(axis=0), points_here.T @ points_here
        groups.append(_Group(len(points_here), *sums))
    losses = [group.loss(spread) for group in groups]
    rise = lambda i, j: groups[i].joined(groups[j]).loss(spread) - losses[i] - losses[j]
    rises = {(i, j): rise(i, j) for j in range(len(groups)) for i in range(j)}
    while len(losses) - losses.count(np.inf) > most:
        i, j = min(rises, key=lambda pair: rises[pair])
        groups[i], losses[j] = groups[i].joined(groups[j]), np.inf
        losses[i] = groups[i].loss(spread)
        rises = {pair: old for pair, old in rises.items() if not {i, j} & {*pair}}
        left = [k for k, loss in enumerate(losses) if loss < np.inf and k != i]
        rises |= {(i, k): rise(i, k) for k in left}
    return [g.moments(spread) for g, loss in zip(groups, losses, strict=True) if loss < np.inf]


def gaussian_slots(num_branches: int, num_components: int) -> np.ndarray:
    """The branch of each Gaussian; the last ones, one per branch, keep their first moments.

    Rejected steps (branch 0 of 2) have half as many Gaussians as accepted ones.
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
) -> list[MixtureMoments]:
    """One fit per time, in order, with the Gaussians of `gaussian_slots`; `size` is that of $y$.

    With `mirrors`, the second half of the fitted Gaussians mirrors the first.
    """
    prior = start_moments(seed, times[0], branch, size, num_lagging, mirrors)
    mirror = mirror_of(times[0].points.shape[1], size) if mirrors else None
    fits, num_iterations = [], FIRST_ITERATIONS
    for records in times:
        current = prior
        for _ in range(num_iterations):
            current = em_step(current, prior, records, branch, mirror)
        fits.append(current)
        prior, num_iterations = current, ITERATIONS
    return fits


def em_step(
    current: MixtureMoments,
    prior: MixtureMoments,
    records: RecordsAtTime,
    branch: np.ndarray,
    mirror: np.ndarray | None = None,
) -> MixtureMoments:
    """One step of EM towards the most probable parameters under a prior centred at `prior`.

    `mirror` holds the signs that turn a point into its mirror image, if Gaussians come in pairs.
    """
    terms = log_terms(current, records, branch)
    shares = np.exp(terms - np.logaddexp.reduce(terms, axis=0))
    counts = shares.sum(axis=1)
    weights = np.maximum(counts - np.append(0.0, np.full(counts.size - 1, PENALTY)), LEAST_COUNTS)
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
    return MixtureMoments(weights / weights.sum(), means, covariances, lagging)


def _update(
    points: np.ndarray, share: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted moments, shrunk towards `mean` and `covariance`."""
    count, freedom = share.sum(), len(mean) + 2.0
    new = (share @ points + MEAN_COUNTS * mean) / (count + MEAN_COUNTS)
    apart, shift = points - new, new - mean
    scatter = (apart.T * share) @ apart + MEAN_COUNTS * np.outer(shift, shift)
    return new, (scatter + freedom * covariance) / (count + freedom)
