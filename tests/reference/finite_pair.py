r"""Algorithms with finitely many traces and outputs, all of whose draws can be listed.

`joint` is $q(u, x)$ [U, X] and `guess` is $r(u; x)$ [U, X], columns summing to 1; $\xi = Z q/r$,
and 0 where $q = 0$. `enumerate_side` lists every gold (or target) draw with its probability, in the
layout of `aide.engine.Draws`, so that means over draws become exact sums.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from support.made import made_draws

import aide

Tables = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Own scores, cross scores and outputs."""


@dataclass(frozen=True)
class Finite:
    """An algorithm on {0, …, X-1} with traces {0, …, U-1}."""

    joint: np.ndarray
    guess: np.ndarray
    log_z: float = 0.0

    @property
    def output(self) -> np.ndarray:
        """q(x)."""
        return self.joint.sum(axis=0)

    def log_xi(self, u: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Of given traces and outputs."""
        with np.errstate(divide="ignore"):
            return np.log(self.joint[u, x] / self.guess[u, x]) + self.log_z


def divergence(gold: Finite, target: Finite) -> float:
    """Symmetrised KL divergence of the outputs."""
    p, q = gold.output, target.output
    return float(np.sum((p - q) * np.log(p / q)))


def enumerate_side(own: Finite, other: Finite, meta: tuple[int, int]) -> tuple[Tables, np.ndarray]:
    """All draws of `own` with one `regenerate` draw more than M, scored by `other`."""
    num_own, num_cross = meta[0] + 1, meta[1]
    ranges = [range(own.output.size)]
    ranges += [range(len(own.joint))] * num_own + [range(len(other.joint))] * num_cross
    rows = np.array(list(itertools.product(*ranges)))
    x, us, vs = rows[:, 0], rows[:, 1 : 1 + num_own], rows[:, 1 + num_own :]
    chance = own.joint[us[:, 0], x]
    for u in us[:, 1:].T:
        chance = chance * own.guess[u, x]
    for v in vs.T:
        chance = chance * other.guess[v, x]
    seen = chance > 0
    scores = [np.stack([a.log_xi(c, x) for c in t.T], 1)[seen] for a, t in ((own, us), (other, vs))]
    return (scores[0], scores[1], x[seen]), chance[seen]


def enumerate_pair(
    gold: Finite, target: Finite, metas: tuple[int, int]
) -> tuple[aide.engine.Draws, np.ndarray, np.ndarray]:
    """Every gold and every target draw, and their probabilities."""
    gold_side, gold_chance = enumerate_side(gold, target, metas)
    target_side, target_chance = enumerate_side(target, gold, metas[::-1])
    log_z = (gold.log_z, target.log_z)
    draws = made_draws(gold_side, target_side, metas, log_z)
    return draws, gold_chance, target_chance


def _columns(table: list[list[float]]) -> np.ndarray:
    array = np.array(table)
    return array / array.sum(axis=0)


GOLD = Finite(
    np.array([[0.10, 0.05, 0.20], [0.25, 0.02, 0.38]]),
    _columns([[0.5, 0.3, 0.4], [0.5, 0.7, 0.6]]),
    0.4,
)
TARGET = Finite(
    np.array([[0.15, 0.10, 0.15], [0.05, 0.25, 0.30]]),
    _columns([[0.6, 0.5, 0.2], [0.4, 0.5, 0.8]]),
    -0.3,
)
HOLES = Finite(
    np.array([[0.30, 0.0, 0.20], [0.20, 0.0, 0.30]]),
    _columns([[0.6, 0.5, 0.2], [0.4, 0.5, 0.8]]),
)
"""An algorithm that never returns 1."""
