r"""Resampling schemes, each with its conditional twin.

A scheme draws ancestors $a^{1:P}$ from a law $\rho(a \mid W)$ with
$\sum_k \rho(a^k = b) = P\,W_b$. Meta-inference must keep one particle $b$ alive: the twin draws
the retained slot $k$ with probability $\rho(a^k = b)/(P\,W_b)$ and the other slots from
$\rho(\cdot \mid a^k = b)$. The ratio of the two laws is then $P\,W_b$ for every scheme, so that
$\xi = p(x, y)/\hat p(y)$. Fixing the slot in advance is right for multinomial resampling only.

Checked by enumeration in `tests/smc/test_resampling.py` and `tests/smc/test_enumeration.py`.
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from aide._core.numerics import computed_once
from aide._core.random import derive_keys, draw_index, invert_cdf, standard_uniform
from aide._core.types import Key

Ancestors = Int[Array, " num"]
Slot = Int[Array, ""]
Weights = Float[Array, " num"]


NOBODY = -1
"""Stands for the retained particle, and for its slot, in a run that retains no particle."""


class AbstractScheme(eqx.Module):
    r"""A resampling law $\rho(a^{1:P} \mid W)$ and its twin; weights need not sum to 1."""

    @abstractmethod
    def ancestors(self, key: Key, weights: Weights) -> Ancestors:
        r"""Sample $a^{1:P} \sim \rho(\cdot \mid W)$."""

    @abstractmethod
    def conditional(self, key: Key, weights: Weights, retained: Slot) -> tuple[Ancestors, Slot]:
        r"""Sample a slot $k$, and $a^{1:P}$ given that particle `retained` survives in it."""

    def around(self, key: Key, weights: Weights, retained: Slot) -> tuple[Ancestors, Slot]:
        """`conditional`, or `ancestors` where `retained` is `NOBODY`."""
        is_free = retained == NOBODY
        twin, slot = self.conditional(key, weights, jnp.maximum(retained, 0))
        ancestors = jnp.where(is_free, self.ancestors(key, weights), twin)
        return ancestors, jnp.where(is_free, NOBODY, slot)


class Multinomial(AbstractScheme):
    r"""Independent ancestors, $P(a^k = j) = W_j$. Slots are exchangeable: the twin fixes one.

    Example:
        >>> weights = jnp.array([0.0, 1.0, 0.0])
        >>> aide.smc.Multinomial().ancestors(jax.random.key(0), weights).tolist()
        [1, 1, 1]
    """

    def ancestors(self, key: Key, weights: Weights) -> Ancestors:
        r"""Map $P$ uniforms by $C^{-1}$, the inverse of the cumulative weights."""
        uniforms = standard_uniform(key, weights.shape, weights.dtype)
        cumulative = jnp.cumsum(weights)
        return invert_cdf(cumulative, uniforms * cumulative[-1])

    def conditional(self, key: Key, weights: Weights, retained: Slot) -> tuple[Ancestors, Slot]:
        """Draw freely, then put the retained particle into its own slot."""
        return _put(self.ancestors(key, weights), retained, retained), retained


class Stratified(AbstractScheme):
    r"""$a^k = C^{-1}((k + U_k)/P)$ with independent uniforms $U_k$.

    Example:
        >>> weights = jnp.array([0.5, 0.5, 0.0, 0.0])
        >>> aide.smc.Stratified().ancestors(jax.random.key(0), weights).tolist()
        [0, 0, 1, 1]
    """

    def ancestors(self, key: Key, weights: Weights) -> Ancestors:
        """Draw one uniform for each stratum."""
        return _comb(weights, standard_uniform(key, weights.shape, weights.dtype))

    def conditional(self, key: Key, weights: Weights, retained: Slot) -> tuple[Ancestors, Slot]:
        """Draw a point of the retained particle's interval for the slot; other slots are free."""
        key_slot, key_rest = derive_keys(key, 2)
        slot, _ = _hit(_uniform(key_slot, weights), weights, retained)
        return _put(self.ancestors(key_rest, weights), slot, retained), slot


class Systematic(AbstractScheme):
    r"""$a^k = C^{-1}((k + U)/P)$ with one uniform $U$ for all slots.

    Example:
        >>> weights = jnp.array([0.25, 0.75, 0.0, 0.0])
        >>> aide.smc.Systematic().ancestors(jax.random.key(0), weights).tolist()
        [0, 1, 1, 1]
    """

    def ancestors(self, key: Key, weights: Weights) -> Ancestors:
        """Draw one uniform for all slots."""
        return _comb(weights, _uniform(key, weights))

    def conditional(self, key: Key, weights: Weights, retained: Slot) -> tuple[Ancestors, Slot]:
        """Draw a point of the retained particle's interval, which fixes slot and uniform."""
        slot, uniform = _hit(_uniform(key, weights), weights, retained)
        return _put(_comb(weights, uniform), slot, retained), slot

    def around(self, key: Key, weights: Weights, retained: Slot) -> tuple[Ancestors, Slot]:
        """Use the free uniform, or that of the retained particle."""
        is_free, drawn = retained == NOBODY, computed_once(_uniform(key, weights))
        slot, uniform = _hit(drawn, weights, jnp.maximum(retained, 0))
        slot = jnp.where(is_free, NOBODY, slot)
        uniform = computed_once(jnp.where(is_free, drawn, uniform))
        return _put(_comb(weights, uniform), slot, retained), slot


class Residual(AbstractScheme):
    r"""$\lfloor P W_j \rfloor$ copies of each particle, then multinomial draws from the rest.

    Example:
        >>> weights = jnp.array([0.75, 0.25, 0.0, 0.0])
        >>> aide.smc.Residual().ancestors(jax.random.key(0), weights).tolist()
        [0, 0, 0, 1]
    """

    def ancestors(self, key: Key, weights: Weights) -> Ancestors:
        """Copies first, in order; then draws by the remaining weights."""
        num = weights.shape[0]
        copies, rest = _copies(weights)
        ends = jnp.cumsum(copies)
        slots = jnp.arange(num, dtype=weights.dtype)
        cumulative = jnp.cumsum(rest)
        uniforms = standard_uniform(key, weights.shape, weights.dtype)
        drawn = invert_cdf(cumulative, uniforms * cumulative[-1])
        return jnp.where(slots < ends[-1], invert_cdf(ends, slots), drawn)

    def conditional(self, key: Key, weights: Weights, retained: Slot) -> tuple[Ancestors, Slot]:
        """Draw a slot by its chance to hold the particle, as a copy or a draw; others freely."""
        num = weights.shape[0]
        key_slot, key_rest = derive_keys(key, 2)
        copies, rest = _copies(weights)
        ancestors = self.ancestors(key_rest, weights)
        slots = jnp.arange(num, dtype=weights.dtype)
        free = slots >= jnp.sum(copies)
        # The chance that slot k holds the retained particle is 1 for a copy, and rest_b / (number
        # of free slots) for a free slot: P * W_b in all.
        share = rest[retained] / jnp.maximum(jnp.sum(free), 1)
        chance = jnp.where(free, share, (ancestors == retained).astype(weights.dtype))
        slot = draw_index(key_slot, chance)
        return _put(ancestors, slot, retained), slot


SCHEMES: dict[str, type[AbstractScheme]] = {
    "multinomial": Multinomial,
    "stratified": Stratified,
    "systematic": Systematic,
    "residual": Residual,
}


def as_scheme(scheme: object) -> AbstractScheme:
    """Return a scheme given as an instance or by name."""
    if isinstance(scheme, str) and scheme in SCHEMES:
        return SCHEMES[scheme]()
    if not isinstance(scheme, AbstractScheme):
        raise TypeError(
            f"a resampling scheme is one of {', '.join(map(repr, SCHEMES))}, or an instance such "
            f"as aide.smc.Systematic(), got {scheme!r}."
        )
    return scheme


def _copies(weights: Weights) -> tuple[Weights, Weights]:
    r"""$\lfloor P W_j \rfloor$ and $P W_j - \lfloor P W_j \rfloor$."""
    expected = weights.shape[0] * (weights / jnp.sum(weights))
    # P * W_j is an integer only up to rounding: 2.9999999999 means three copies.
    copies = jnp.floor(expected + 1e-9)
    return copies, jnp.maximum(expected - copies, 0.0)


def _comb(weights: Weights, offsets: Float[Array, "..."]) -> Ancestors:
    """Ancestors at the points (k + offset) / P of the cumulative weights."""
    num = weights.shape[0]
    cumulative = jnp.cumsum(weights)
    points = (jnp.arange(num, dtype=weights.dtype) + offsets) / num
    return invert_cdf(cumulative, points * cumulative[-1])


def _uniform(key: Key, weights: Weights) -> Float[Array, ""]:
    return standard_uniform(key, (), weights.dtype)


def _hit(
    uniform: Float[Array, ""], weights: Weights, retained: Slot
) -> tuple[Slot, Float[Array, ""]]:
    r"""Slot and offset of a uniform point of the retained particle's interval of $[0, 1]$."""
    num = weights.shape[0]
    cumulative = jnp.cumsum(weights)
    stop = cumulative[retained]
    point = stop - weights[retained] * uniform
    scaled = num * point / cumulative[-1]
    slot = jnp.clip(jnp.floor(scaled), 0, num - 1)
    return slot.astype(jnp.int32), jnp.clip(scaled - slot, 0.0, 1.0)


def _put(ancestors: Ancestors, slot: Slot, retained: Slot) -> Ancestors:
    return jnp.where(jnp.arange(ancestors.shape[0]) == slot, retained, ancestors)
