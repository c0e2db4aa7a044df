r"""A Metropolis chain on the integers, its law by matrix products, and tables as reverse models.

The state hops by $v = \pm 1$ with a chance that depends on where it is; the posterior lives on
0, 1, 2 and the start also puts mass on -1, where the posterior has none. All arrays are indexed by
`position(x)`, noise by 0 (down) and 1 (up), branches by 0 (rejected) and 1 (accepted).
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

LOWEST, NUM = -4, 9
"""Positions -4 to 4: walks of two steps from -2 to 2 stay inside."""
POSTERIOR = np.array([0, 0, 0, 0, 0.5, 0.2, 0.9, 0, 0])
"""Not normalised: the total is 1.6."""
START = np.array([0, 0, 0, 0.15, 0.25, 0.4, 0.2, 0, 0])
UP = np.array([0.5, 0.5, 0.45, 0.6, 0.7, 0.4, 0.2, 0.3, 0.5])
"""Chance to propose a hop up."""
RECORDS = np.array(list(itertools.product((0, 1), (0, 1))))
"""All records (noise, branch)."""


def position(x: Any) -> Any:
    """Index of a state in the tables."""
    return x - LOWEST


def chance(x: int, up: int) -> float:
    r"""$g(v \mid x)$."""
    return UP[position(x)] if up else 1 - UP[position(x)]


def accept(x: int, up: int) -> float:
    """Acceptance probability; 0/0 is a rejection."""
    y = x + 2 * up - 1
    if not LOWEST <= y < LOWEST + NUM:
        return 0.0
    there = POSTERIOR[position(y)] * chance(y, 1 - up)
    here = POSTERIOR[position(x)] * chance(x, up)
    return 0.0 if there == 0 else 1.0 if here == 0 else min(1.0, there / here)


def output_law(num_steps: int) -> np.ndarray:
    """The law of the chain after some steps."""
    matrix = np.zeros((NUM, NUM))
    for x in range(LOWEST + 1, LOWEST + NUM - 1):
        for up in (0, 1):
            moved = chance(x, up) * accept(x, up)
            matrix[position(x), position(x + 2 * up - 1)] += moved
            matrix[position(x), position(x)] += chance(x, up) - moved
    return START @ np.linalg.matrix_power(matrix, num_steps)


class Reverse(NamedTuple):
    """A joint model: the kernel in equilibrium with weight `kernel`, plus any positive table.

    `table` is [state, noise, branch]; nothing has to sum to 1.
    """

    kernel: float
    table: np.ndarray

    def joint(self, y: int, up: int, branch: int) -> float:
        r"""$J(y, v, b)$."""
        own = chance(y, up) * (accept(y, up) if branch else 1 - accept(y, up))
        possible = [undo(y, up, b)[1] > 0 for b in (0, 1)]
        # What the table says about an impossible branch is said about the other one.
        served = [b if possible[b] else int(np.argmax(possible)) for b in (0, 1)]
        extra = sum(self.table[position(y), up, b] for b in (0, 1) if served[b] == branch)
        return self.kernel * POSTERIOR[position(y)] * own + extra

    def marginal(self, y: int) -> float:
        r"""$\hat q(y)$."""
        return self.kernel * POSTERIOR[position(y)] + self.table[position(y)].sum()


def undo(y: int, up: int, branch: int) -> tuple[int, float]:
    r"""The state before, and the forward density $k(y, v, b \mid x)$."""
    if not branch:
        return y, chance(y, up) * (1 - accept(y, up))
    x = y + 2 * up - 1
    return x, chance(x, 1 - up) * accept(x, 1 - up)


class Traces(NamedTuple):
    """All traces of a two-step walk back from one output with P particles.

    Records are [N, P, 2]; `probability` is r(trace; x); `lineage` is [N, P, 2]: for each last slot,
    the slots of its path in the first and in the second step back.
    """

    first: np.ndarray
    ancestors: np.ndarray
    second: np.ndarray
    probability: np.ndarray

    def lineage(self) -> np.ndarray:
        """Slots of the path that ends in each slot."""
        own = np.broadcast_to(np.arange(self.ancestors.shape[1]), self.ancestors.shape)
        return np.stack([self.ancestors, own], axis=2)


def enumerate_traces(x: int, models: Sequence[Reverse], num: int, policy: Any) -> Traces:
    """Every trace from output `x`; `models` are those of steps 1 and 2.

    `policy(weights)` gives the law of the ancestors, over `ancestor_vectors(num)`.
    """
    from reference.resampling import ancestor_vectors

    groups = np.array(list(itertools.product(range(4), repeat=num)))
    never = [models[1].joint(x, *record) == 0 for record in RECORDS]
    rows: list[list[Any]] = [[], [], [], []]
    for first in groups[~np.array(never)[groups].any(axis=1)]:
        chance_first, weights, states = 1.0, [], []
        for record in RECORDS[first]:
            joint = models[1].joint(x, *record)
            before, forward = undo(x, *record)
            chance_first *= joint / models[1].marginal(x)
            weights.append(models[0].marginal(before) * forward / joint)
            states.append(before)
        law = policy(np.array(weights)) if sum(weights) > 0 else np.eye(num**num)[0]
        for ancestors, chance_ancestors in zip(ancestor_vectors(num), law, strict=True):
            if chance_ancestors < 1e-13:
                continue
            options = np.array(
                [
                    [
                        models[0].joint(states[a], *r) / models[0].marginal(states[a])
                        for r in RECORDS
                    ]
                    for a in ancestors
                ]
            )
            last = options[np.arange(num), groups].prod(axis=1)
            rows[0].append(np.broadcast_to(first, groups.shape))
            rows[1].append(np.broadcast_to(ancestors, groups.shape))
            rows[2].append(groups)
            rows[3].append(chance_first * chance_ancestors * last)
    first, ancestors, second, probability = (np.concatenate(row) for row in rows)
    return Traces(RECORDS[first], ancestors, RECORDS[second], probability)
