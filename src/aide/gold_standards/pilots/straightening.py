r"""Coordinates in which a funnel is straight, fitted to pilots.

In a hierarchical posterior the scale of some coordinates (children) depends on others (parents):
$x_j = b_j^\top x + e^{s_j^\top x} z_j$. Children and parents are found from the pilots at the
posterior; $b_j$ and $s_j$ are fitted to the pilots at every temperature.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from aide.kernels.coordinates import ScaledCoordinates

SURE = 5.0
"""A scale depends on a coordinate if their correlation is above 5 standard errors: a choice."""
LEAST = 0.2
"""The correlation must also exceed this value: a choice."""
GAIN = 0.5
"""Least mean gain, in nats per pilot, of the fitted density over a normal density: a choice."""
MOST_PARENTS = 8
"""Largest number of parents: a choice."""
MOST_GIVEN_UP = 8
"""Largest number of children that are given up: a choice."""
MOST_CANDIDATES = 20
"""Number of children, those whose scales follow a parent least, that may be given up: a choice."""
MOST_PLACES = 8
"""Number of coordinates besides parents that a location may depend on, by correlation: a choice."""
MEAN_LOG = -0.6351814227307392
r"""$E\log|N(0, 1)|$, by the formula $-(\gamma + \log 2)/2$ with Euler's $\gamma$."""
NUM_FITTED = 1000
"""Pilots from which children and parents are found, or 10 per dimension if more: a choice."""
NUM_ROUNDS = 4
"""Number of alternations between fitting locations and fitting scales: a choice."""


class Structure(NamedTuple):
    """The coordinates with a scale that depends on others, and these others.

    Attributes:
        children: Coordinates whose scale depends on parents.
        parents: Coordinates on which scales depend; no parent is a child.
        strength: For each child, the largest squared correlation of its log scale with a parent.
    """

    children: Int[np.ndarray, " c"]
    parents: Int[np.ndarray, " p"]
    strength: Float[np.ndarray, " c"]

    @property
    def num(self) -> int:
        """Number of children."""
        return len(self.children)


def find_structure(flat: Float[np.ndarray, "n d"]) -> Structure | None:
    r"""Find parents one after another with their children, then give up children.

    With $r_j$ the residual of $x_j$ in a regression on all others, $k$ is a parent of $j$ if the
    correlation of $\log|r_j|$ and $x_k$ is large. If a difference of two coordinates has the scale,
    either coordinate may be the child: children are given up while that raises the density of the
    pilots. `None` if this density is hardly higher than a normal one.
    """
    dimension = flat.shape[1]
    flat = flat[: max(NUM_FITTED, 10 * dimension)]
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
        left[parents] = 0.0  # a parent cannot become a child
        left[:, [*parents, *children]] = 0.0  # a child cannot become a parent
        best = int(np.argmax(left.sum(axis=0)))
        new = np.flatnonzero(left[:, best])
        if not len(new):
            break
        parents.append(best)
        children |= {int(child) for child in new}
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
    r"""Fit locations and slopes of all children, in turns.

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
    """Coordinates on which locations may depend: parents, and the most correlated with children."""
    children, parents, _ = structure
    free = np.setdiff1d(np.arange(flat.shape[1]), np.concatenate([children, parents]))
    if len(free) > MOST_PLACES:
        white = (flat - flat.mean(axis=0)) / np.maximum(flat.std(axis=0), np.finfo(float).tiny)
        shared = np.sum((white[:, free].T @ white[:, children]) ** 2, axis=1)
        free = free[np.argsort(-shared, kind="stable")[:MOST_PLACES]]
    return np.sort(np.concatenate([parents, free]))


def _least_squares(columns: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Regress every column of `values`, each with its own weights, all at once."""
    squares = np.einsum("nc,nk,nl->ckl", weights, columns, columns, optimize=True)
    products = np.einsum("nc,nk,nc->ck", weights, columns, values, optimize=True)
    return np.einsum("ckl,cl->kc", np.linalg.pinv(squares, hermitian=True), products)
