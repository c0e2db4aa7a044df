r"""Coordinates in which a funnel is straight, fitted to pilots.

In a hierarchical posterior the scale of some coordinates (children) depends on others (parents):
$x_j = b_j^\top x + e^{s_j^\top x} z_j$. Which ones is read off the pilots at the posterior; $b_j$
and $s_j$ are fitted to the pilots at every temperature.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from aide.kernels.coordinates import ScaledCoordinates

SURE, LEAST = 5.0, 0.2
"""A scale depends on a coordinate if their correlation is so many standard errors, and so large."""
GAIN = 0.5
"""Nats by which the density of the pilots must be better than a normal one."""
MOST_PARENTS, MOST_GIVEN_UP, MOST_CANDIDATES = 8, 8, 20
"""Of candidates to be given up: those whose scale follows a parent least."""
MOST_PLACES = 8
"""Coordinates besides parents that a location may depend on: those correlated most."""
MEAN_LOG = -0.6351814227307392
r"""$E\log|N(0, 1)|$."""
NUM_LOOKED_AT = 1000
"""Pilots from which the structure is read off; more in high dimensions."""
NUM_ROUNDS = 4
"""Of alternating between locations and scales."""


class Structure(NamedTuple):
    """Which coordinates have a scale that depends on which others.

    Attributes:
        children: Coordinates that are scaled.
        parents: Coordinates that scale them, none of them a child.
        strength: Of every child, how closely its scale follows a parent.
    """

    children: Int[np.ndarray, " c"]
    parents: Int[np.ndarray, " p"]
    strength: Float[np.ndarray, " c"]

    @property
    def num(self) -> int:
        """Children."""
        return len(self.children)


def find_structure(flat: Float[np.ndarray, "n d"]) -> Structure | None:
    r"""Parents one after the other with the children whose scale follows them, then fewer children.

    With $r_j$ the residual of $x_j$ in a regression on all others, $k$ is a parent of $j$ where the
    correlation of $\log|r_j|$ and $x_k$ is large. Of two coordinates whose difference has a scale
    either may be the child, so that children are given up while that improves the density of the
    pilots. `None` where it is hardly better than a normal one.
    """
    dimension = flat.shape[1]
    flat = flat[: max(NUM_LOOKED_AT, 10 * dimension)]
    if len(flat) < 4 * dimension or dimension < 2 or not np.all(np.std(flat, axis=0) > 0):
        return None
    best = _follow_scales(flat)
    if best is None:
        return None
    score = _log_density(best, flat)
    for _ in range(MOST_GIVEN_UP):
        rest = [
            best._replace(
                children=np.delete(best.children, i), strength=np.delete(best.strength, i)
            )
            for i in np.argsort(best.strength, kind="stable")[:MOST_CANDIDATES]
        ]
        scores = [_log_density(one, flat) for one in rest if one.num]
        if not scores or max(scores) <= score:
            break
        place = int(np.argmax(scores))
        best, score = rest[place], scores[place]
    plain = -0.5 * float(np.linalg.slogdet(np.cov(flat.T))[1])
    return best if score > plain + GAIN else None


def _follow_scales(flat: np.ndarray) -> Structure | None:
    num = len(flat)
    white = (flat - flat.mean(axis=0)) / flat.std(axis=0)
    residuals = np.abs(white @ np.linalg.pinv(np.cov(white.T)))
    logs = np.log(residuals + np.finfo(float).tiny)
    logs = (logs - logs.mean(axis=0)) / np.maximum(logs.std(axis=0), np.finfo(float).tiny)
    found = (logs.T @ white / num) ** 2  # by child and parent
    np.fill_diagonal(found, 0.0)
    found[found < max(LEAST, SURE / np.sqrt(num)) ** 2] = 0.0
    parents, children = list[int](), set[int]()
    for _ in range(MOST_PARENTS):
        left = found.copy()
        left[parents] = 0.0  # no parent becomes a child
        left[:, [*parents, *children]] = 0.0  # and no child a parent
        best = int(np.argmax(left.sum(axis=0)))
        mine = np.flatnonzero(left[:, best])
        if not len(mine):
            break
        parents.append(best)
        children |= {int(child) for child in mine}
    if not parents:
        return None
    scaled, scaling = np.array(sorted(children)), np.array(sorted(parents))
    return Structure(scaled, scaling, found[np.ix_(scaled, scaling)].max(axis=1))


def _log_density(structure: Structure, flat: np.ndarray) -> float:
    r"""Mean over pilots of $\log N(z) - \log|\partial x/\partial z|$, up to a constant."""
    coordinates = fit_coordinates(structure, flat)
    log_scales = (flat - np.asarray(coordinates.centre)) @ np.asarray(coordinates.slopes).T
    z = (flat - flat @ np.asarray(coordinates.locations).T) * np.exp(-log_scales)
    volume = float(np.mean(log_scales.sum(axis=1)))
    return -0.5 * float(np.linalg.slogdet(np.cov(z.T))[1]) - volume


def fit_coordinates(structure: Structure, flat: Float[np.ndarray, "n d"]) -> ScaledCoordinates:
    r"""Locations and slopes of all children, by turns.

    $b_j$ by least squares with weights $e^{-2 s_j^\top x}$; $s_j$ by least squares of $\log|r_j|$,
    whose errors have the same spread everywhere if $r_j$ is normal.
    """
    dimension, (children, parents, _) = flat.shape[1], structure
    others = _places(structure, flat)
    centre = np.zeros(dimension)
    centre[parents] = flat[:, parents].mean(axis=0)
    values, ones = flat[:, children], np.ones((len(flat), 1))
    of_scale = np.column_stack([ones, flat[:, parents] - centre[parents]])
    of_place = np.column_stack([ones, flat[:, others]])
    place, scale = np.zeros((2, 0)), np.zeros((of_scale.shape[1], len(children)))
    for _ in range(NUM_ROUNDS):
        weights = np.exp(-2 * (of_scale @ scale))
        place = _least_squares(of_place, values, weights / weights.max(axis=0))
        residuals = np.abs(values - of_place @ place)
        logs = np.log(np.maximum(residuals, np.finfo(float).tiny))
        scale = np.linalg.lstsq(of_scale, logs - MEAN_LOG, rcond=None)[0]
    locations, slopes = np.zeros((2, dimension, dimension))
    locations[np.ix_(children, others)] = place[1:].T
    slopes[np.ix_(children, parents)] = scale[1:].T
    return ScaledCoordinates(locations, slopes, centre)


def _places(structure: Structure, flat: np.ndarray) -> np.ndarray:
    """What locations may depend on: the parents, and what is correlated most with children."""
    children, parents, _ = structure
    free = np.setdiff1d(np.arange(flat.shape[1]), np.concatenate([children, parents]))
    if len(free) > MOST_PLACES:
        white = (flat - flat.mean(axis=0)) / np.maximum(flat.std(axis=0), np.finfo(float).tiny)
        shared = np.sum((white[:, free].T @ white[:, children]) ** 2, axis=1)
        free = free[np.argsort(-shared, kind="stable")[:MOST_PLACES]]
    return np.sort(np.concatenate([parents, free]))


def _least_squares(columns: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Of every column of `values`, with weights of its own, all at once."""
    squares = np.einsum("nc,nk,nl->ckl", weights, columns, columns, optimize=True)
    products = np.einsum("nc,nk,nc->ck", weights, columns, values, optimize=True)
    return np.einsum("ckl,cl->kc", np.linalg.pinv(squares, hermitian=True), products)
