r"""Exact laws of the resampling schemes and of their twins, over all $P^P$ ancestor vectors.

A law is an array over `ancestor_vectors(P)`. A twin is an array $[b, k, a]$: the probability that
the retained slot is $k$ and the ancestors are $a$, given that particle $b$ is retained. The general
twin of a law $\rho$ is $P(k, a \mid b) = \rho(a)\,1\{a^k = b\}/(P\,W_b)$.
"""

import itertools
from collections.abc import Callable
from functools import cache

import numpy as np

# With a particle of weight zero, and with P * W_j = 1 or 2 exactly.
WEIGHTS = {
    1: [(3,)],
    2: [(7, 3), (1, 6), (5, 5), (0, 4)],
    3: [(5, 3, 1), (3, 5, 1), (0, 4, 3), (4, 0, 1), (1, 2, 6)],
}
"""Unnormalised weights on which schemes are compared with their laws, by P."""
ZERO = 1e-12
"""Probabilities below this are rounding errors of an exact zero."""

Law = Callable[[np.ndarray], np.ndarray]
"""Normalised weights in, probabilities of all ancestor vectors out."""
Twin = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A law's probabilities and the weights in, the twin's probabilities [b, k, a] out."""


@cache
def ancestor_vectors(num: int) -> np.ndarray:
    """All vectors of `num` ancestors, in lexicographic order."""
    return np.array(list(itertools.product(range(num), repeat=num)))


def index_of(ancestors: np.ndarray) -> np.ndarray:
    """The position of ancestor vectors (last axis) in `ancestor_vectors`."""
    num = ancestors.shape[-1]
    return ancestors @ num ** np.arange(num - 1, -1, -1)


def counts(ancestors: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """How often each (slot, ancestor vector) occurs among draws [N, P] and [N]: [k, a]."""
    num = ancestors.shape[-1]
    cells = slots * num**num + index_of(ancestors)
    return np.bincount(cells, minlength=num ** (num + 1)).reshape(num, -1)


def multinomial(weights: np.ndarray) -> np.ndarray:
    r"""$\prod_k W_{a^k}$."""
    return weights[ancestor_vectors(weights.size)].prod(axis=1)


def stratified(weights: np.ndarray) -> np.ndarray:
    r"""$\prod_k |S_k|$, the stretch $S_k$ of $U_k$ for which slot $k$ has ancestor $a^k$."""
    low, high = _stretches(weights)
    return np.maximum(high - low, 0.0).prod(axis=1)


def systematic(weights: np.ndarray) -> np.ndarray:
    r"""$|\bigcap_k S_k|$: one $U$ for all slots."""
    low, high = _stretches(weights)
    return np.maximum(high.min(axis=1) - low.max(axis=1), 0.0)


def residual(weights: np.ndarray) -> np.ndarray:
    r"""First the $\lfloor P W_j \rfloor$ copies in order of $j$, then independent draws."""
    num = weights.size
    copies = np.floor(num * weights + 1e-9).astype(int)
    rest = num * weights - copies
    fixed = np.repeat(np.arange(num), copies)
    vectors = ancestor_vectors(num)
    same = (vectors[:, : fixed.size] == fixed).all(axis=1)
    chances = np.where(rest > 1e-9, rest, 0.0) / max(num - fixed.size, 1)
    return same * chances[vectors[:, fixed.size :]].prod(axis=1)


def _stretches(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Ends of $S_k = \{U \in [0, 1]: C_{a^k - 1} \le (k + U)/P < C_{a^k}\}$ for all vectors."""
    num = weights.size
    vectors, slots = ancestor_vectors(num), np.arange(num)
    stops = np.cumsum(weights)
    low = num * (stops - weights)[vectors] - slots
    high = num * stops[vectors] - slots
    return np.maximum(low, 0.0), np.minimum(high, 1.0)


def twin(law: np.ndarray, weights: np.ndarray) -> np.ndarray:
    r"""$\rho(a)\,1\{a^k = b\}/(P\,W_b)$; zero where $W_b = 0$, which cannot be retained."""
    num = weights.size
    scale = np.divide(1.0, num * weights, out=np.zeros(num), where=weights > 0)
    return _holds(num) * law * scale[:, None, None]


def twin_in_own_slot(law: np.ndarray, weights: np.ndarray) -> np.ndarray:
    r"""The twin for exchangeable slots: $k = b$, the others from $\rho(\cdot \mid a^b = b)$."""
    own = np.eye(weights.size)[:, :, None]
    return weights.size * twin(law, weights) * own


def wrong_pinned_to_zero(law: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Control: an unconditional draw whose slot 0 is overwritten by the retained particle."""
    num = weights.size
    first = np.eye(num)[0][None, :, None]
    return _holds(num) * first * _without_slot(law, num)


def wrong_unconditional(law: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Control: the right law of the slot, but the others drawn as if nothing were known."""
    num = weights.size
    chance = twin(law, weights).sum(axis=2, keepdims=True)
    return _holds(num) * chance * _without_slot(law, num)


def _holds(num: int) -> np.ndarray:
    r"""$1\{a^k = b\}$ as an array [b, k, a]."""
    return (ancestor_vectors(num).T[None] == np.arange(num)[:, None, None]).astype(float)


def _without_slot(law: np.ndarray, num: int) -> np.ndarray:
    r"""$\sum_{a^k}\rho(a)$ for each slot k, spread over all vectors: an array [1, k, a]."""
    table = law.reshape((num,) * num)
    sums = [table.sum(axis=k, keepdims=True) for k in range(num)]
    return np.stack([np.broadcast_to(s, table.shape).ravel() for s in sums])[None]


LAWS: dict[str, Law] = {
    "multinomial": multinomial,
    "stratified": stratified,
    "systematic": systematic,
    "residual": residual,
}
TWINS: dict[str, Twin] = {
    "multinomial": twin_in_own_slot,
    "stratified": twin,
    "systematic": twin,
    "residual": twin,
}
"""The twin each scheme promises; `Multinomial` documents that it keeps its own slot."""
