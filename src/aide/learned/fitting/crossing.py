r"""The way back from states that a chain misses, learned from another sampler's outputs.

Pilots never show a mode that the start misses, and nothing they teach leads back from there: the
walk back has to climb a barrier that it does not see. What it needs is
$h_t(y) = q_t(y)\,\hat Z/\gamma(y)$, how much of an equilibrium's share of $y$ the chain has after
$t$ steps: tiny in the missed mode, 1 where the chain is at home, and rising in between. For a
kernel $K$ that is its own reversal $h_t = K h_{t-1}$, so that local moves suffice to find it,
however rare a whole crossing is:

1. From outputs that lie beyond what the chain visits, moves of the kernel spread over bins of the
   coordinate $\varphi$; each bin keeps a few states, and those are moved again, until some arrive.
2. At every state kept, moves $x_j \sim K(y, \cdot)$ give $l_t(\varphi(y)) = \log\frac1m\sum_j
   h_{t-1}(x_j)$, averaged within bins, with $h_0$ the start's and $h_{t-1} = \hat q_{t-1}\hat
   Z/\gamma$ of the model of the pilots where the chain goes.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.flat_states import FlatLayout
from aide._core.types import Key, Value
from aide.learned.fitting.clusters import fit_clusters
from aide.learned.fitting.spreading import (
    NUM_BINS,
    Coordinate,
    Moved,
    Mover,
    move,
    spread,
    visited_states,
)
from aide.learned.models.divided import Clusters, DividedModel
from aide.learned.models.mixture import JointMixture
from aide.learned.records.pilots import nearest, time_grid
from aide.learned.records.transitions import Transitions

RARE = 1e-3
"""Share of those states that count as beyond."""
FEWEST = 5
"""Outputs beyond; from fewer nothing is learned."""
NUM_MOVES, NUM_CELLS = 1024, 2000
"""Moves per state from which its value is computed, and cells in which they are counted."""
TINY = 1e-300


def learn_crossing(
    key: Key, transitions: Transitions, model: JointMixture, log_z: float, outputs: Value
) -> DividedModel | None:
    """The model of a fit, extended to where the outputs lie; `None` if it serves them already.

    Args:
        key: A JAX key.
        transitions: Those of the chain, all of one kernel.
        model: What was learned from its pilots, stacked over grid times.
        log_z: The log constant of its density.
        outputs: Of a sampler that does not miss what the chain misses, stacked.
    """
    keys = jax.random.split(key, 4)
    visited = visited_states(keys[0], transitions)
    with jax.enable_x64(True):
        flat = jax.vmap(lambda one: FlatLayout(one).flat)
        outputs = np.asarray(flat(jax.tree.map(jnp.asarray, outputs)), float)
    seed = int(jax.random.bits(keys[1], dtype=jnp.uint32))
    near = fit_clusters(seed, visited)
    floor = np.quantile(log_density_of(near, visited), RARE)
    missed = outputs[log_density_of(near, outputs) < floor]
    if len(missed) < FEWEST:
        return None
    far = fit_clusters(seed, missed)
    coordinate = lambda states: log_density_of(near, states) - log_density_of(far, states)
    edge = float(np.quantile(coordinate(visited), RARE))
    low = float(np.median(coordinate(missed)))
    bins = np.linspace(low, edge, NUM_BINS + 1)
    kept = spread(keys[2], transitions, coordinate, bins, missed)
    found = move(keys[3], Mover(transitions, NUM_MOVES), kept)
    knots, values = _iterate(transitions, model, log_z, coordinate, edge, bins, kept, found)
    times = len(values)
    again = lambda tree: jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], times, 0), tree)
    silent = np.full_like(np.asarray(model.log_gauss), -np.inf)
    there = dataclasses.replace(model, log_gauss=silent)
    return DividedModel(
        model, there, again(near), again(far), again(edge), again(knots), values, again(log_z)
    )


def log_density_of(clusters: Clusters, states: np.ndarray) -> np.ndarray:
    """Of many states, [n, d]."""
    with jax.enable_x64(True):
        return np.asarray(_log_density(clusters, states))


@jax.jit
def _log_density(clusters: Clusters, states: Array) -> Array:
    return clusters.log_density(jnp.asarray(states).T)


def _iterate(
    transitions: Transitions,
    model: JointMixture,
    log_z: float,
    coordinate: Coordinate,
    edge: float,
    bins: np.ndarray,
    kept: np.ndarray,
    moved: Moved,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Knots, and $l$ there at all grid times, [G, K].

    Moves are counted in fine cells of $\varphi$, so that a step of the iteration is a product of
    matrices; those that led home are summed once for every grid time.
    """
    phi_kept = coordinate(kept)
    number = np.clip(np.digitize(phi_kept, bins) - 1, 0, NUM_BINS - 1)
    _, number = np.unique(number, return_inverse=True)
    counts = np.bincount(number)
    knots = np.bincount(number, phi_kept) / counts
    origin = np.repeat(number, moved.log_density.shape[1])
    shares = 1.0 / (counts * moved.log_density.shape[1])[origin]
    states, log_density = moved.states.reshape(-1, kept.shape[1]), moved.log_density.ravel()
    phi, log_pi = coordinate(states), log_density - log_z
    cells = np.linspace(knots[0], edge, NUM_CELLS + 1)
    middle = 0.5 * (cells[1:] + cells[:-1])
    cell = np.clip(np.digitize(phi, cells) - 1, 0, NUM_CELLS - 1)
    home = phi >= edge
    ways = np.zeros((len(counts), NUM_CELLS))
    np.add.at(ways, (origin[~home], cell[~home]), shares[~home])
    known = _marginals(model, states[home], log_density[home]) - log_pi[home]
    arrived = np.stack(
        [np.bincount(origin[home], shares[home] * np.exp(row), len(counts)) for row in known]
    )
    with np.errstate(invalid="ignore"):
        log_first = np.where(log_pi == -np.inf, -np.inf, moved.log_start.ravel() - log_pi)
    peak = np.full(len(counts), -1e300)
    np.maximum.at(peak, origin, log_first)
    first = np.bincount(origin, shares * np.exp(log_first - peak[origin]), len(counts))
    values = peak + np.log(first)
    found, grid = [values], time_grid(transitions.num_steps)
    index = nearest(grid, transitions.num_steps)
    for step in range(1, transitions.num_steps):
        log_h = np.interp(middle, knots, values)
        peak = log_h.max()
        reached = arrived[index[step - 1]] + np.exp(peak) * (ways @ np.exp(log_h - peak))
        values = np.log(np.maximum(reached, TINY))
        found.append(values)
    return knots, np.stack(found)[grid]


def _marginals(model: JointMixture, states: np.ndarray, log_density: np.ndarray) -> np.ndarray:
    r"""$\log\hat q_t$ at all grid times, [G, n]."""
    with jax.enable_x64(True):
        score = jax.jit(lambda one: one.score(jnp.asarray(states).T, jnp.asarray(log_density))[1])
        leaves, tree = jax.tree.flatten(model)
        slices = (jax.tree.unflatten(tree, one) for one in zip(*leaves, strict=True))
        return np.stack([np.asarray(score(one)) for one in slices])
