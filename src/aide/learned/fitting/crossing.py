r"""The way back from states that a chain misses, learned from another sampler's outputs.

Pilots never show a mode that the start misses, and nothing learned from them leads back from there:
the walk back has to climb a barrier that the pilots do not show. The walk needs
$h_t(y) = q_t(y)\,\hat Z/\gamma(y)$, the ratio of the chain's density at $y$ after $t$ steps to that
in equilibrium: tiny in the missed mode, 1 where the chain has arrived, and rising in between.
For a kernel $K$ that is its own reversal $h_t = K h_{t-1}$, so that local moves suffice to find it,
however rare a whole crossing is:

1. From outputs that lie beyond the states which the chain visits, moves of the kernel spread over
   bins of the coordinate $\varphi$ of `aide.learned.models.divided`; each bin keeps a few states,
   which are moved again, until some arrive.
2. At every state kept, moves $x_j \sim K(y, \cdot)$ give $l_t(\varphi(y)) = \log\frac1m\sum_j
   h_{t-1}(x_j)$, averaged within bins, with $h_0$ the start's and $h_{t-1} = \hat q_{t-1}\hat
   Z/\gamma$ of the pilots' model where the chain goes.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.numerics import FlatLayout
from aide._core.random import derive_keys
from aide._core.types import Key, Value
from aide.engine.programs.map_runs import map_runs
from aide.learned.models.divided import DividedModel, GaussianClusters
from aide.learned.models.joint import JointMixture, Stored
from aide.learned.records.recorders import ChainRecorder, nearest, time_grid
from aide.learned.records.transitions import Transitions

MOST_CLUSTERS = 6
"""Largest number of Gaussians among which the Bayesian information criterion chooses: a choice."""
NUM_VISITING_RUNS = 2000
"""Runs of the chain that show which states it visits; two states of each run are kept."""
NUM_BINS = 60
"""Bins of the coordinate between the missed states and those that the chain visits: a choice."""
STATES_PER_BIN = 16
"""States that each bin keeps; their values of $l$ are averaged."""
MOVES_PER_ROUND = 16
"""Moves of every kept state in each round of spreading."""
MOST_ROUNDS = 200
"""Largest number of rounds of spreading."""
RARE_SHARE = 1e-3
"""An output is missed if it is less probable than all but this share of the visited states."""
FEWEST_MISSED = 5
"""Least number of missed outputs for learning a way back: fewer do not fix a Gaussian."""
NUM_MOVES = 1024
"""Moves per kept state, over which the value of the state is averaged."""
NUM_CELLS = 2000
"""Fine cells of the coordinate, in which moves that have not arrived are counted."""
TINY = 1e-300
"""Smallest value of $h$, which keeps its logarithm finite where no move leads home."""


def fit_clusters(seed: int, points: np.ndarray) -> GaussianClusters:
    """Clusters by k-means++; the Bayesian information criterion chooses their number."""
    from scipy.cluster.vq import kmeans2

    num, size = points.shape
    scale = points.std(axis=0) + 1e-12
    best, least = None, np.inf
    for number in range(1, max(1, min(MOST_CLUSTERS, num // (2 * size + 2))) + 1):
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
            best, least = GaussianClusters.of(counts / num, means, covariance), loss
    assert best is not None
    return best


Coordinate = Callable[[np.ndarray], np.ndarray]
r"""$\varphi$ of many states: from [n, d] to [n]."""


class Moved(NamedTuple):
    """Moves of one state: new states, their log densities, and the start's log densities there."""

    states: Stored
    log_density: Stored
    log_start: Stored


class RepeatedMoves(NamedTuple):
    """The transitions of a chain, and the number of moves to be made of each state."""

    transitions: Transitions
    num_moves: int


def visited_states(key: Key, transitions: Transitions) -> np.ndarray:
    """States of the chain at the end and at a random earlier time, [2n, d]."""
    recorder, what = ChainRecorder(transitions), "the chain"
    rows = (np.arange(NUM_VISITING_RUNS, dtype=np.uint32),)
    return np.concatenate(map_runs(_two_states, recorder, key, rows, what=what))


def _two_states(recorder: ChainRecorder, stream: Key, run: Any) -> tuple[Array, Array]:
    key_run, key_time = derive_keys(jax.random.fold_in(stream, run), 2)
    found = recorder.record(key_run)
    time = jax.random.randint(key_time, (), 0, recorder.transitions.num_steps)
    return found.last, found.trace[0].before[time]


def move_states(key: Key, moves: RepeatedMoves, states: np.ndarray) -> Moved:
    """Moves of many states, [n, num_moves, ...]."""
    rows = (np.arange(len(states), dtype=np.uint32), states)
    return map_runs(_moves, moves, key, rows, what="the kernel")


def _moves(moves: RepeatedMoves, stream: Key, run: Any, y: Array) -> Moved:
    """Moves of one state."""
    transitions = moves.transitions
    _, layout = transitions.draw_start(jax.random.key(0))
    (kernel,) = transitions.kernels(transitions.last_inputs(), layout)
    keys = derive_keys(jax.random.fold_in(stream, run), moves.num_moves)
    x, _, _, log_density = jax.vmap(lambda key: kernel.record(key, y))(keys)
    return Moved(x, log_density, transitions.log_start(layout, x.T))


def spread_states(
    key: Key, transitions: Transitions, coordinate: Coordinate, bins: np.ndarray, missed: np.ndarray
) -> np.ndarray:
    """States in all bins, reached from the missed ones by moves of the kernel."""
    rng = np.random.default_rng(int(jax.random.bits(key, dtype=jnp.uint32)))
    states = missed[rng.choice(len(missed), NUM_BINS * STATES_PER_BIN)]
    kept = _thin(rng, states, coordinate(states), bins)
    moves = RepeatedMoves(transitions, MOVES_PER_ROUND)
    filled = -1
    for number in range(MOST_ROUNDS):
        full = kept[rng.choice(len(kept), NUM_BINS * STATES_PER_BIN)]  # one shape: compiled once
        new = move_states(jax.random.fold_in(key, number), moves, full).states
        states = np.concatenate([kept, new.reshape(-1, kept.shape[1])])
        kept = _thin(rng, states, coordinate(states), bins)
        if len(kept) == filled and number > NUM_BINS:
            break
        filled = len(kept)
    return kept


def _thin(
    rng: np.random.Generator, states: np.ndarray, phi: np.ndarray, bins: np.ndarray
) -> np.ndarray:
    """At most `STATES_PER_BIN` states of every bin; states below all bins count to the lowest."""
    number = np.clip(np.digitize(phi, bins) - 1, 0, NUM_BINS)
    order = rng.permutation(len(states))
    order = order[number[order] < NUM_BINS]
    order = order[np.argsort(number[order], kind="stable")]
    sorted_number = number[order]
    rank = np.arange(len(order)) - np.searchsorted(sorted_number, sorted_number)
    return states[order[rank < STATES_PER_BIN]]


def learn_crossing(
    key: Key, transitions: Transitions, model: JointMixture, log_z: float, outputs: Value
) -> DividedModel | None:
    """Extend the model of a fit to where the outputs lie; `None` if no output is missed.

    Args:
        key: A JAX key.
        transitions: The transitions of the chain, all of one kernel.
        model: The model that was learned from the chain's pilots, stacked over grid times.
        log_z: The log constant of the density.
        outputs: Stacked outputs of a sampler that visits the modes which the chain misses.
    """
    keys = jax.random.split(key, 4)
    visited = visited_states(keys[0], transitions)
    with jax.enable_x64(True):
        flat = jax.vmap(lambda one: FlatLayout(one).flat)
        outputs = np.asarray(flat(jax.tree.map(jnp.asarray, outputs)), float)
    seed = int(jax.random.bits(keys[1], dtype=jnp.uint32))
    near = fit_clusters(seed, visited)
    floor = np.quantile(log_densities_of(near, visited), RARE_SHARE)
    missed = outputs[log_densities_of(near, outputs) < floor]
    if len(missed) < FEWEST_MISSED:
        return None
    far = fit_clusters(seed, missed)
    coordinate = lambda states: log_densities_of(near, states) - log_densities_of(far, states)
    edge = float(np.quantile(coordinate(visited), RARE_SHARE))
    low = float(np.median(coordinate(missed)))
    bins = np.linspace(low, edge, NUM_BINS + 1)
    kept = spread_states(keys[2], transitions, coordinate, bins, missed)
    found = move_states(keys[3], RepeatedMoves(transitions, NUM_MOVES), kept)
    knots, values = _iterate(transitions, model, log_z, coordinate, edge, bins, kept, found)
    times = len(values)
    repeat = lambda tree: jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], times, 0), tree)
    no_gaussians = np.full_like(np.asarray(model.log_gauss), -np.inf)
    there = dataclasses.replace(model, log_gauss=no_gaussians)
    near, far, edge, knots = repeat((near, far, edge, knots))
    return DividedModel(model, there, near, far, edge, knots, values, repeat(log_z))


def log_densities_of(clusters: GaussianClusters, states: np.ndarray) -> np.ndarray:
    """The log density of many states, [n, d]."""
    with jax.enable_x64(True):
        return np.asarray(_log_density(clusters, states))


@jax.jit
def _log_density(clusters: GaussianClusters, states: Array) -> Array:
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
    r"""Knots, and the values of $l$ at the knots at all grid times, [G, K].

    Moves are counted in fine cells of $\varphi$, so that a step of the iteration is a product of
    matrices; moves that led home are summed once for every grid time.
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
    middle = 0.5 * (cells[1:] + cells[:-1])
    values = _values_at_steps(
        transitions.num_steps, knots, peak + np.log(first), middle, ways, arrived
    )
    return knots, values


def _values_at_steps(
    num_steps: int,
    knots: np.ndarray,
    first: np.ndarray,
    middle: np.ndarray,
    ways: np.ndarray,
    arrived: np.ndarray,
) -> np.ndarray:
    r"""$l$ at the knots at all grid times, [G, K], from $h_t = K h_{t-1}$.

    `first` is $l$ of the start. `ways` holds the shares of moves from each knot into each cell,
    `middle` the cells' middles, and `arrived` the part of $h_t$ from moves that led home, [G, K].
    """
    values, found, grid = first, [first], time_grid(num_steps)
    index = nearest(grid, num_steps)
    for step in range(1, num_steps):
        log_h = np.interp(middle, knots, values)
        peak = log_h.max()
        reached = arrived[index[step - 1]] + np.exp(peak) * (ways @ np.exp(log_h - peak))
        values = np.log(np.maximum(reached, TINY))
        found.append(values)
    return np.stack(found)[grid]


def _marginals(model: JointMixture, states: np.ndarray, log_density: np.ndarray) -> np.ndarray:
    r"""$\log\hat q_t$ at all grid times, [G, n]."""
    with jax.enable_x64(True):
        score = jax.jit(lambda one: one.score(jnp.asarray(states).T, jnp.asarray(log_density))[1])
        leaves, tree = jax.tree.flatten(model)
        slices = (jax.tree.unflatten(tree, one) for one in zip(*leaves, strict=True))
        return np.stack([np.asarray(score(one)) for one in slices])
