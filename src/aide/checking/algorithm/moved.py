r"""Does the sampler follow its density? Outputs hidden among moved copies of themselves.

Let $(u_0, x_0) \sim q$ come from `simulate`. Move $x_0$ by a random step to a hidden place, and
from there by K independent steps of the same kind to $x_1, \dots, x_K$ (a random walk; a stretch
about a centre, with its Jacobian $J_k$), so that the output and its copies are exchangeable;
let $u_k \sim r(u; x_k)$ come from `regenerate`. Given the set of all $(u_k, x_k)$, number $k$ is
the output with probability

$$w_k = \frac{\xi(u_k, x_k)\,J_k}{\sum_j \xi(u_j, x_j)\,J_j}, \qquad\text{so that}\qquad
E\Big[\varphi(x_0) - \sum_k w_k\,\varphi(x_k)\Big] = 0$$

for every $\varphi$ and every correct pair, with no knowledge of $q$ or $Z$. For a tractable
algorithm this is the score identity $E[\nabla\varphi + \varphi\,\nabla\log\gamma] = 0$ in finite
steps: it needs no gradient, holds at edges and jumps of the density and on integers, and its terms
are bounded if $\varphi$ is. Unlike law 2, it finds a density that is wrong in both operations, such
as a sign error, a missing Jacobian or a variance in the place of a scale, even if the constant
of the density is unknown.

Given the sets, each term takes one of $K + 1$ values with known chances. Chernoff's bound on their
sum therefore holds at any number of outputs and any tail, if outputs are independent: of a Markov
chain stored as reference draws, use a thinned part.

The law holds within any part of the space as well, if only sets within that part count. Real
numbers must lie within three times the range of other outputs, integers within the configurations
of other outputs, so that no program is run at values for which it was not written (an index beyond
its array, weights that underflow).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from aide.checking.algorithm.region import repeated

MOST_DIRECTIONS = 20
"""Number of random projections that replace the coordinates of outputs with more dimensions."""
STEPS = (0.5, 1.0, 2.0)
"""Lengths of moves, in units of the outputs' spread; each output draws one."""
FITTED = 0.2
"""Share of the outputs that give centre, spread and range, and are not tested."""
FEWEST = 50
"""Least number of different outputs for a test."""
NUM_MOVED = 4
"""Moved copies of every output, K."""


Outputs = Float[np.ndarray, "n d"]
Copies = Float[np.ndarray, "n K d"]


class Move(NamedTuple):
    r"""Copies of outputs.

    Attributes:
        name: The kind of move, in words.
        copies: $x_1, \dots, x_K$ of every output.
        log_jacobian: $\log J_k$.
        functions: $\varphi$ at the output and its copies, between -1 and 1; last axis one each.
        names: The names of the functions.
        counts: Whether the set of an output lies in the part of the space that counts.
    """

    name: str
    copies: Copies
    log_jacobian: Float[np.ndarray, "n K"]
    functions: Float[np.ndarray, "n K1 F"]
    names: tuple[str, ...]
    counts: Bool[np.ndarray, " n"]


def moved_copies(
    rng: np.random.Generator,
    fitted: Outputs,
    x: Outputs,
    is_real: Bool[np.ndarray, " d"],
    is_integer: Bool[np.ndarray, " d"],
    num: int,
) -> list[Move]:
    """Moves of the real numbers, scaled by the spread of `fitted`, and of the integers."""
    found = []
    if is_real.any():
        reals = np.flatnonzero(is_real)
        found += _real_moves(rng, fitted[:, reals], x, reals, num)
    if is_integer.any():
        found.append(_integer_move(rng, fitted, x, is_real, is_integer, num))
    return found


def _real_moves(
    rng: np.random.Generator, fitted: Outputs, x: Outputs, reals: Int[np.ndarray, " r"], num: int
) -> list[Move]:
    size, runs = reals.size, len(x)
    low, centre, high = np.quantile(fitted, (0.16, 0.5, 0.84), axis=0)
    scale = np.where(high > low, (high - low) / 2, 1.0)
    standard = ((x[:, reals] - centre) / scale)[:, None]
    fitted = (fitted - centre) / scale
    root = _root(np.clip(fitted, -5.0, 5.0))
    least, most = fitted.min(axis=0), fitted.max(axis=0)
    least, most = 2 * least - most, 2 * most - least
    directions, names = np.eye(size), tuple(f"coordinate {i}" for i in reals)
    if size > MOST_DIRECTIONS:
        directions = rng.normal(size=(size, MOST_DIRECTIONS)) / np.sqrt(size)
        names = tuple(f"projection {i}" for i in range(MOST_DIRECTIONS))

    def move(name: str, copies: Copies, log_jacobian: Float[np.ndarray, "n K"]) -> Move:
        everywhere = np.concatenate([standard, copies], axis=1)
        distance = np.log1p((everywhere**2).mean(axis=2, keepdims=True))
        functions = np.tanh(np.concatenate([everywhere @ directions, distance], axis=2))
        placed = np.repeat(x[:, None], num, axis=1)
        placed[:, :, reals] = centre + scale * copies
        counts = ((least <= everywhere) & (everywhere <= most)).all(axis=(1, 2))
        names_of_all = (*names, "the distance from the centre")
        return Move(name, placed, log_jacobian, functions, names_of_all, counts)

    steps = rng.choice(STEPS, size=(2, runs, 1, 1)) / np.sqrt(size)
    noise = rng.normal(size=(runs, num + 1, size)) @ root.T
    walked = standard + steps[0] * (noise[:, :1] + noise[:, 1:])
    noise = rng.normal(size=(runs, num + 1, 1))
    stretch = 0.5 * steps[1] * (noise[:, :1] + noise[:, 1:])
    return [
        move("a random walk", walked, np.zeros((runs, num))),
        move("a stretch", np.exp(stretch) * standard, size * stretch[:, :, 0]),
    ]


def _root(standard: Outputs) -> Float[np.ndarray, "r r"]:
    """A square root of the correlations, shrunk towards independence for few outputs."""
    num, size = standard.shape
    weight = num / (num + 2.0 * size)
    spread = weight * np.cov(standard.T).reshape(size, size) + (1 - weight) * np.eye(size)
    return np.linalg.cholesky(spread + 1e-9 * np.eye(size))


def _integer_move(
    rng: np.random.Generator,
    fitted: Outputs,
    x: Outputs,
    is_real: Bool[np.ndarray, " d"],
    is_integer: Bool[np.ndarray, " d"],
    num: int,
) -> Move:
    """Move one integer of each output, to the hidden place and back, by -1, 0 or 1 each.

    The function is the copy's place relative to the output: a shift common to a set cancels. A set
    counts if `fitted` has all its configurations of the numbers that are not real.
    """
    chosen = np.zeros((len(x), 1, x.shape[1]))
    integers = np.flatnonzero(is_integer)
    chosen[np.arange(len(x)), 0, rng.choice(integers, size=len(x))] = 1.0
    steps = rng.integers(-1, 2, size=(len(x), num + 1, 1))
    copies = x[:, None] + (steps[:, :1] + steps[:, 1:]) * chosen
    functions = np.concatenate([np.zeros((len(x), 1, 1)), steps[:, :1] + steps[:, 1:]], axis=1)
    known = {row.tobytes() for row in fitted[:, ~is_real]}
    everywhere = np.concatenate([x[:, None], copies], axis=1)[:, :, ~is_real]
    counts = np.array([all(row.tobytes() in known for row in rows) for rows in everywhere], bool)
    flat = np.zeros((len(x), num))
    return Move("a step", copies, flat, functions / 2, ("one integer",), counts)


class MovedEvidence(NamedTuple):
    r"""The p-value of law 6, and the function with the largest deviation.

    Attributes:
        p_value: Over all moves and functions together.
        worst: The function and the move.
        num: Outputs tested; 0 (with p-value 1) if there were too few different ones.
        seen: Mean of $\varphi$ at these outputs.
        expected: Mean of $\varphi$ that $\xi$ predicts, given the sets.
    """

    p_value: float
    worst: str
    num: int
    seen: float = 0.0
    expected: float = 0.0


def moved_evidence(
    seed: int,
    outputs: Outputs,
    own: Float[np.ndarray, " n"],
    score: Callable[[Int[np.ndarray, " m"], Outputs], Float[np.ndarray, " m"]],
    is_integer: Bool[np.ndarray, " d"] | None = None,
    is_fixed: Bool[np.ndarray, " d"] | None = None,
    num_moved: int = NUM_MOVED,
) -> MovedEvidence:
    r"""Test the law on outputs of one algorithm; see the module.

    Args:
        seed: Seed of the moves; must not depend on the outputs.
        outputs: One row of numbers per run. Runs are independent; an output with real numbers that
            occurs again (drawn from a finite list) counts once.
        own: $\log\xi$ from `simulate`.
        score: `score(rows, copies)`: $\log\xi$ of `regenerate` at copies of outputs number `rows`.
        is_integer: Which numbers are integers; by default none.
        is_fixed: Which numbers are not moved; by default none.
        num_moved: Copies of every output, K.
    """
    none = np.zeros(outputs.shape[1], bool)
    is_integer, is_fixed = (none if mask is None else mask for mask in (is_integer, is_fixed))
    is_real, is_integer = ~is_integer & ~is_fixed, is_integer & ~is_fixed
    rng = np.random.default_rng(seed)
    rows = np.arange(len(outputs))
    if is_real.any():
        rows = np.sort(np.unique(outputs, axis=0, return_index=True)[1])
        rows = rows[~repeated(outputs[rows][:, is_real])]  # an atom has no density
    if rows.size < FEWEST:
        return MovedEvidence(1.0, "", 0)
    num_fitted = int(np.ceil(FITTED * rows.size))
    fitted, rows = outputs[rows[:num_fitted]], rows[num_fitted:]
    found = []
    for move in moved_copies(rng, fitted, outputs[rows], is_real, is_integer, num_moved):
        chosen = rows[move.counts]
        if chosen.size < FEWEST:
            continue
        copies, functions = move.copies[move.counts], move.functions[move.counts]
        log_xi = score(np.repeat(chosen, num_moved), copies.reshape(-1, outputs.shape[1]))
        log_weights = log_xi.reshape(-1, num_moved) + move.log_jacobian[move.counts]
        log_weights = np.column_stack([own[chosen], log_weights])
        height = np.tanh(log_weights - log_weights.max(axis=1, keepdims=True) + 1.0)
        named = zip((*move.names, "density"), (*np.moveaxis(functions, -1, 0), height), strict=True)
        for name, values in named:
            p_value, expected = hidden_p_value(values, log_weights)
            seen = float(values[:, 0].mean())
            where = f"{name} (moved by {move.name})"
            found.append(MovedEvidence(p_value, where, chosen.size, seen, expected))
    if not found:
        return MovedEvidence(1.0, "", 0)
    worst = min(found)
    return worst._replace(p_value=min(1.0, len(found) * worst.p_value))


def hidden_p_value(
    values: Float[np.ndarray, "n K1"], log_weights: Float[np.ndarray, "n K1"]
) -> tuple[float, float]:
    r"""Two-sided p-value of $\sum_n \varphi_{n0} - \bar\varphi_n$; mean of $\bar\varphi_n$.

    Given row $n$ as a set, $\varphi_{n0}$ is $\varphi_{nk}$ with probability $w_{nk}$, and
    $P(S \ge s) \le \inf_\lambda E[e^{\lambda S}]\,e^{-\lambda s}$.
    """
    from scipy import optimize, special

    log_weights = special.log_softmax(log_weights, axis=1)
    weights = np.exp(log_weights)
    means = (weights * values).sum(axis=1, keepdims=True)
    values, expected = values - means, float(means.mean())
    total = float(values[:, 0].sum())
    variance = float((weights * values**2).sum())
    if variance == 0.0 or total == 0.0:
        return 1.0, expected
    values = values * np.sign(total)

    def log_bound(tilt: float) -> float:
        each = special.logsumexp(log_weights + tilt * values, axis=1)
        return float(each.sum() - tilt * abs(total))

    most = max(50.0, 4 * abs(total) / variance)
    best = optimize.minimize_scalar(log_bound, bounds=(0.0, most), method="bounded")
    return min(1.0, 2 * float(np.exp(min(best.fun, 0.0)))), expected
