r"""Where EM begins: which pilots each Gaussian starts from (NumPy).

Pilots of a kernel that weighs origins (NUTS) are told apart by how far along the trajectory they
went: those few that stay near where they began are rare, concentric with all others and far from
them in density, so that clusters by distance never find them. Given the origin, state and noise
are nearly jointly normal: the flow is nearly linear over so many steps. Other pilots are
told apart by k-means++.
"""

from typing import NamedTuple

import numpy as np

from aide.learned.fitting.moments import Moments, RecordsAtTime

FEWEST = 0.3
"""No component's weight falls below this many counts: proposals keep their tails."""


def start_moments(
    seed: int,
    records: RecordsAtTime,
    branch: np.ndarray,
    size: int,
    num_lagging: int,
    mirrors: bool = False,
) -> Moments:
    """Within each branch, groups by origin; beyond, centres by k-means++, one covariance.

    With `mirrors`, origins of either side are one group, and every Gaussian is followed by its
    image, in the second half of the slots.
    """
    rng = np.random.default_rng(seed)
    points = records.points
    total = points.shape[1]
    mirror = mirror_of(total, size if mirrors else total)
    means = np.empty((branch.size, total))
    covariances = np.empty((branch.size, total, total))
    overall = np.cov(points.T).reshape(total, total)
    for b in np.unique(branch):
        mine = points[records.branch == b]
        *slots, stays = np.flatnonzero(branch == b)
        share = len(mine) / (len(mine) + 2 * total)
        own = np.cov(mine.T).reshape(total, total) if len(mine) > 1 else overall
        spread = share * own + (1 - share) * overall
        spread = spread + np.diag(1e-4 * np.diag(spread) + 1e-12)
        if len(mine) < 2 * len(slots):
            mine = points[rng.choice(len(points), 2 * len(slots))]
        means[stays], covariances[stays] = mine.mean(axis=0), spread
        images = slots[len(slots) // 2 :] if mirrors else []
        slots = slots[: len(slots) - len(images)]
        found = _by_origin(records, b, len(slots), spread, mirror)
        centres = _centres(rng, mine, len(slots) - len(found), spread)
        for slot, one in zip(slots, [*found, *zip(*centres, strict=True)], strict=True):
            means[slot], covariances[slot] = one
        for slot, image in zip(slots, images, strict=False):
            means[image] = means[slot] * mirror
            covariances[image] = covariances[slot] * np.outer(mirror, mirror)
    spread = overall[:size, :size] + np.diag(1e-4 * np.diag(overall)[:size] + 1e-12)
    lagging = _centres(rng, points[:, :size], num_lagging, spread)
    shares = np.bincount(records.branch, minlength=branch.max() + 1) / len(points)
    counts = np.bincount(branch)
    gauss = np.maximum(0.5 * shares[branch] / counts[branch], FEWEST / len(points))
    weights = np.concatenate([[0.5], np.full(num_lagging, 0.5 / max(num_lagging, 1)), gauss])
    return Moments(weights / weights.sum(), means, covariances, lagging)


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
    """Pilots: how many, the sum of their points, and that of their squares."""

    count: float
    total: np.ndarray
    squares: np.ndarray

    def joined(self, other: "_Group") -> "_Group":
        """Both together."""
        count, total = self.count + other.count, self.total + other.total
        return _Group(count, total, self.squares + other.squares)

    def moments(self, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance, the latter drawn to `spread` with dimension + 2 counts."""
        mean, freedom = self.total / self.count, len(self.total) + 2.0
        scatter = self.squares - self.count * np.outer(mean, mean)
        return mean, (scatter + freedom * spread) / (self.count + freedom)

    def loss(self, spread: np.ndarray) -> float:
        """Minus the log likelihood of such a Gaussian, but for constants."""
        return 0.5 * self.count * float(np.linalg.slogdet(self.moments(spread)[1])[1])


def _by_origin(
    records: RecordsAtTime,
    branch: int,
    most: int,
    spread: np.ndarray,
    mirror: np.ndarray,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Moments of groups of pilots with the same origin; none if all origins are the same.

    While there are more than `most`, the two groups are joined that lose least likelihood by it.
    """
    mine = records.branch == branch
    points = np.where((records.origin < 0)[:, None], records.points * mirror, records.points)
    number = np.abs(records.origin)
    origins = np.unique(number[mine])
    if len(origins) < 2:
        return []
    groups = []
    for origin in origins:
        points_here = points[mine & (number == origin)]
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
