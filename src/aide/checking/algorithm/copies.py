r"""Moved copies of outputs, for the law of `aide.checking.algorithm.moved`.

A move is symmetric in the output and its copies: a step to a hidden place, then independent steps
of the same kind from there.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

MOST_DIRECTIONS = 20
"""Projections of the output, where it has more dimensions."""
STEPS = (0.5, 1.0, 2.0)
"""Lengths of moves, in units of the outputs' spread; each output draws one."""

Outputs = Float[np.ndarray, "n d"]
Copies = Float[np.ndarray, "n K d"]


class Move(NamedTuple):
    r"""Copies of outputs.

    Attributes:
        name: What moved them, in words.
        copies: $x_1, \dots, x_K$ of every output.
        log_jacobian: $\log J_k$.
        functions: $\varphi$ at the output and its copies, between -1 and 1; last axis one each.
        names: What each function looks at.
        counts: Outputs whose set counts.
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
    """Moves of the real numbers, as wide as `fitted` lie, and of the integers."""
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
        looks = (*names, "the distance from the centre")
        return Move(name, placed, log_jacobian, functions, looks, counts)

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
    """A square root of the correlations, drawn towards independence where outputs are few."""
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
    """One of the integers up or down, twice by one or nothing.

    What counts is its place relative to the output: a shift common to a set cancels. A set counts
    if `fitted` took all its configurations of what is not real.
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
