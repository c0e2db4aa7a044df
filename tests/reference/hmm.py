r"""A particle filter on a 2-state HMM with three steps, enumerated trace by trace.

A trace $u$ is $x_1^{1:P}, a_2^{1:P}, x_2^{1:P}, a_3^{1:P}, x_3^{1:P}$ and the output's index $k$.
Its probability is $q(u, x) = \prod_i k_1(x_1^i) \prod_t \rho(a_t \mid W_{t-1}) \prod_i k(x_t^i;
x_{t-1}^{a_t^i}) \cdot W_3^k$; meta-inference draws it with probability $r(u; x) = \frac1P
\prod_{i \ne b_1} k_1(x_1^i) \prod_t \tau(b_t, a_t \mid b_{t-1}) \prod_{i \ne b_t} k(\dots)$, where
$b_3 = k$, $b_{t-1} = a_t^{b_t}$ and $\tau$ is the twin. Without resampling $a_t^i = i$.
"""

import itertools
from functools import cache
from typing import NamedTuple

import numpy as np

from reference.resampling import Law, Twin, ancestor_vectors, index_of

INITIAL = np.array([0.65, 0.35])
TRANSITION = np.array([[0.9, 0.1], [0.25, 0.75]])
EMISSION = np.array([[0.85, 0.15], [0.1, 0.9]])
OBSERVATIONS = np.array([0, 1, 1])
PATHS = np.array(list(itertools.product(range(2), repeat=3)))
"""All paths x; their rows are the numbers by which paths are known here."""


def joint() -> np.ndarray:
    """p(x, y) of all paths."""
    first, second, third = PATHS.T
    chance = INITIAL[first] * TRANSITION[first, second] * TRANSITION[second, third]
    return chance * EMISSION[PATHS, OBSERVATIONS].prod(axis=1)


class Filter(NamedTuple):
    """Proposal and weight tables: of the first state [x], of later ones [t, x, x']."""

    propose_first: np.ndarray
    weigh_first: np.ndarray
    propose: np.ndarray
    weigh: np.ndarray


def bootstrap(emission: np.ndarray = EMISSION) -> Filter:
    """Proposals from the transition."""
    seen = emission[:, OBSERVATIONS].T
    weigh = np.broadcast_to(seen[1:, None, :], (2, 2, 2))
    return Filter(INITIAL, seen[0], np.stack([TRANSITION, TRANSITION]), weigh)


def optimal() -> Filter:
    """Proposals that look at the next observation."""
    seen = EMISSION[:, OBSERVATIONS].T
    first, later = INITIAL * seen[0], TRANSITION * seen[1:, None, :]
    sums = later.sum(axis=2, keepdims=True)
    weigh = np.broadcast_to(sums, (2, 2, 2))
    return Filter(first / first.sum(), np.full(2, first.sum()), later / sums, weigh)


class Traces(NamedTuple):
    """All traces but for the output's index: states [N, 3, P] and ancestors [N, 2, P]."""

    states: np.ndarray
    ancestors: np.ndarray

    def lineage(self) -> np.ndarray:
        r"""Slots $b_1, b_2, b_3$ of the path that ends in each particle: [N, P, 3]."""
        last = np.broadcast_to(np.arange(self.states.shape[2]), self.states[:, 2].shape)
        middle = self.ancestors[:, 1]
        first = np.take_along_axis(self.ancestors[:, 0], middle, axis=1)
        return np.stack([first, middle, last], axis=2)

    def paths(self) -> np.ndarray:
        """The path that ends in each particle: [N, P, 3]."""
        return np.take_along_axis(self.states.transpose(0, 2, 1), self.lineage(), axis=1)


@cache
def all_traces(num: int) -> Traces:
    """Every trace of `num` particles, the first step varying slowest."""
    states = np.array(list(itertools.product(range(2), repeat=num)))
    vectors = ancestor_vectors(num)
    sizes = (len(states), len(vectors), len(states), len(vectors), len(states))
    index = np.indices(sizes).reshape(5, -1)
    return Traces(
        np.stack([states[i] for i in index[::2]], axis=1),
        np.stack([vectors[i] for i in index[1::2]], axis=1),
    )


class Enumeration(NamedTuple):
    """For every trace and output index, [N, P]: q(u, x), r(u; x) and the number of the path x.

    `low` says for every trace and step whether the filter resampled, [N, 2].
    """

    q: np.ndarray
    r: np.ndarray
    path: np.ndarray
    low: np.ndarray

    def by_path(self, values: np.ndarray) -> np.ndarray:
        """Sums of `values` [N, P] over the traces of each path x."""
        return np.bincount(self.path.ravel(), values.ravel(), minlength=len(PATHS))


def enumerate_filter(tables: Filter, num: int, fraction: float, rho: Law, tau: Twin) -> Enumeration:
    """Probabilities of all traces; resampling where the ESS is below `fraction` times `num`.

    A run whose weights are all zero ends without an output: its traces have probability 0.
    """
    traces = all_traces(num)
    lineage = traces.lineage()
    chance = tables.propose_first[traces.states[:, 0]]
    weights = tables.weigh_first[traces.states[:, 0]]
    q = chance.prod(axis=1)[:, None]
    r = _others(chance, lineage[:, :, 0]) / num
    lows = []
    for t in range(2):
        ancestors, after = traces.ancestors[:, t], traces.states[:, t + 1]
        low = weights.sum(axis=1) ** 2 < fraction * num * (weights**2).sum(axis=1)
        block = (2 * num) ** (num * (2 - t))
        free, kept = _resampling(weights, low, rho, tau, index_of(ancestors), block)
        b_before, b_after = lineage[:, :, t], lineage[:, :, t + 1]
        before = np.take_along_axis(traces.states[:, t], ancestors, axis=1)
        chance = tables.propose[t, before, after]
        q = q * (free * chance.prod(axis=1))[:, None]
        r = r * kept[np.arange(len(kept))[:, None], b_before, b_after]
        r = r * _others(chance, b_after)
        carried = np.where(low[:, None], 1.0, weights)
        weights = carried * tables.weigh[t, before, after]
        lows.append(low)
    total = weights.sum(axis=1, keepdims=True)
    q = q * np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    path = traces.paths() @ (4, 2, 1)
    return Enumeration(q, r, path, np.stack(lows, axis=1))


def _others(chance: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """For each output index, the product of `chance` [N, P] over all slots but the kept one."""
    own = kept[:, :, None] == np.arange(chance.shape[1])
    return np.where(own, 1.0, chance[:, None, :]).prod(axis=2)


def _resampling(
    weights: np.ndarray, low: np.ndarray, rho: Law, tau: Twin, vector: np.ndarray, block: int
) -> tuple[np.ndarray, np.ndarray]:
    """Probability of each row's ancestors under the law, [N], and under its twin, [N, b, k].

    `block` rows in a row share their weights, which depend on the beginning of the trace alone.
    """
    num = weights.shape[1]
    identity = np.zeros(num**num)
    identity[index_of(np.arange(num))] = 1.0
    stay = np.eye(num)[:, :, None] * identity
    keys = np.where(low[:, None], weights, -1.0)[::block]
    distinct, row = np.unique(keys.round(14), axis=0, return_inverse=True)
    laws, twins = [], []
    for one in distinct:
        normalised = one / (one.sum() or 1.0)
        laws.append(rho(normalised) * one.any() if one[0] >= 0 else identity)
        twins.append(tau(laws[-1], normalised) if one[0] >= 0 else stay)
    row = np.repeat(row.reshape(-1), block)
    return np.stack(laws)[row, vector], np.stack(twins)[row, :, :, vector]
