"""Gibbs updates: one block from its conditional; discrete variables site by site."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int

from aide._core.distribution import Distribution, log_density_of, sample_from
from aide._core.jax_compat import is_traced
from aide._core.numerics import as_log
from aide._core.random import derive_keys, draw_index
from aide._core.types import Key, LogDensity, LogProb, Value
from aide._core.validate import check_size
from aide.kernels.entries import entry_of, with_entry
from aide.kernels.kernel import AbstractInvariantKernel
from aide.kernels.metropolis import AbstractMetropolis, like
from aide.kernels.retrace import NO_RECORD, Recorded, Retraced


class GibbsBlock(AbstractMetropolis):
    r"""Draw one block of the state from its conditional given the rest.

    As an involution: $v \sim p(\cdot \mid x_{-b})$, and $\varphi$ swaps $x_b$ and $v$. With the
    exact conditional every move is accepted; otherwise this is Metropolis within Gibbs.

    Args:
        name: Which entry of the state is the block: a key of a dictionary, a position in a tuple or
            list, either a position or a field's name in a `NamedTuple`.
        conditional: Maps the state to the block's distribution (with `sample` and `log_prob`), and
            must not depend on the block.

    Example:
        >>> kernel = aide.kernels.GibbsBlock("x", lambda state: Normal(0.5 * state["y"], 1.0))
        >>> state = {"x": jnp.zeros(()), "y": jnp.ones(())}
        >>> log_density = lambda s: -0.5 * (s["x"] - 0.5 * s["y"]) ** 2 - 0.5 * s["y"] ** 2
        >>> new = kernel.step(jax.random.key(0), log_density, state)
        >>> float(new["y"]), bool(new["x"] != 0)
        (1.0, True)
    """

    name: str | int = eqx.field(static=True)
    conditional: Callable[[Value], Distribution]

    def noise(self, key: Key, x: Value) -> Value:
        r"""$v \sim p(\cdot \mid x_{-b})$."""
        return sample_from(self.conditional(x), key)

    def log_noise(self, x: Value, v: Value) -> LogProb:
        r"""$\log p(v \mid x_{-b})$."""
        return log_density_of(self.conditional(x), v)

    def involution(self, log_density: LogDensity, x: Value, v: Value) -> tuple[Value, Value]:
        """$x_b$ and $v$ change places."""
        old = entry_of(x, self.name)
        return with_entry(x, self.name, jax.tree.map(like, v, old)), old


def _as_places(sites: ArrayLike | Sequence[int]) -> Any:
    """Return NumPy integers; arrays of a program that is being traced are returned as they are."""
    return sites if is_traced(sites) else np.asarray(sites, np.int32)


def _as_counts(num_values: ArrayLike | Sequence[int]) -> Any:
    """Return one number as it is, and several numbers as a tuple of integers."""
    if np.ndim(num_values) == 0:
        return num_values
    counts = np.asarray(num_values)
    if not np.issubdtype(counts.dtype, np.integer):
        raise TypeError(f"num_values must be integers, got {counts.dtype} {counts[:6]}.")
    return tuple(int(num) for num in np.ravel(counts))


def _draw(key: Key, logits: Array, old: Array) -> Array:
    """Draw a value in proportion to its density; one whose density is NaN is entered for good."""
    broken = jnp.isnan(logits)
    peak = jnp.max(jnp.where(broken, -jnp.inf, logits))
    drawn = draw_index(key, jnp.exp(logits - jnp.where(jnp.isfinite(peak), peak, 0.0)))
    drawn = jnp.where(jnp.any(broken), jnp.argmax(broken), drawn)
    return jnp.where(broken[old], old, drawn)


class GibbsSites(AbstractInvariantKernel):
    r"""Resample each site of an integer array from its conditional, in the given order.

    The state is one integer array; sites index its flattened form, and site $s$ has the values
    $0 \dots K_s-1$. One update evaluates the log density at the $\max_s K_s - 1$ other values of
    the site. A site that holds a value outside of its range keeps that value, so that every density
    is left invariant; no step leads to such a value. A sweep is not reversible: its reversal visits
    the sites in reverse order.

    Args:
        sites: Flat indices, in the order of the sweep.
        num_values: $K_s$: one number for all sites, or one per entry of `sites`.

    Example:
        >>> kernel = aide.kernels.GibbsSites(range(3), num_values=2)
        >>> alike = lambda x: 2.0 * jnp.sum(x[1:] == x[:-1])  # neighbours like to be equal
        >>> kernel.step(jax.random.key(0), alike, jnp.array([0, 1, 0])).shape
        (3,)
    """

    sites: Int[Array, " num_sites"] = eqx.field(converter=_as_places)
    num_values: int | tuple[int, ...] = eqx.field(static=True, converter=_as_counts)

    def __check_init__(self) -> None:
        if np.ndim(self.sites) != 1:
            raise ValueError(f"sites must be a list of flat indices, got shape {self.sites.shape}.")
        if isinstance(self.num_values, int):
            check_size("num_values", self.num_values, 2)
            return
        if len(self.num_values) != len(self.sites):
            raise ValueError(
                f"num_values must be one number, or one per entry of sites: got "
                f"{len(self.num_values)} numbers for {len(self.sites)} sites."
            )
        for num in self.num_values:
            check_size("every entry of num_values", num, 1)

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """Update the sites in order. A state whose density is NaN is entered and never left."""

        def update(now: tuple[Array, LogProb], inputs: tuple[Key, Array]) -> Any:
            subkey, (site, own) = inputs
            return GibbsSite(site, self._max_values, own).advance(subkey, log_density, *now), None

        x = jnp.asarray(x)
        places: Any = (jnp.asarray(self.sites), self._values_per_site)
        steps = (derive_keys(key, places[0].shape[0]), places)
        return jax.lax.scan(update, (x, as_log(log_density(x))), steps)[0][0]

    def reversal(self) -> "GibbsSites":
        """The same sites in reverse order."""
        counts = self.num_values
        return GibbsSites(self.sites[::-1], counts if isinstance(counts, int) else counts[::-1])

    def retraceable_parts(self) -> tuple["GibbsSite", ...]:
        """The updates of one transition, in order."""
        per_site = self._values_per_site
        own = [None] * len(self.sites) if per_site is None else list(per_site)
        return tuple(
            GibbsSite(site, self._max_values, num)
            for site, num in zip(self.sites, own, strict=True)
        )

    @property
    def _max_values(self) -> int:
        """The largest number of values of a site."""
        return self.num_values if isinstance(self.num_values, int) else max(self.num_values)

    @property
    def _values_per_site(self) -> np.ndarray | None:
        """Numbers of values by site; `None` if they are equal."""
        return None if isinstance(self.num_values, int) else np.asarray(self.num_values, np.int32)


class GibbsSite(AbstractInvariantKernel):
    r"""Resample one site of an integer array from its conditional.

    The record of a step is the branch $b$, the value the site had; there is no noise. The new value
    does not depend on the old one. A value outside of $0 \dots K_s-1$ is kept, and the step then
    has no record.

    Args:
        site: Flat index.
        num_values: $K$, the size of the tables: at least $K_s$.
        num_own: $K_s$, the number of values of this site; `None`: $K$.
    """

    site: ArrayLike
    num_values: int = eqx.field(static=True)
    num_own: ArrayLike | None = None

    @property
    def num_branches(self) -> int:
        """Number of values that the site may have had."""
        return self.num_values

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        r"""Draw the site from $p(\cdot \mid x_{-s})$."""
        return self.record(key, log_density, x).value

    def record(self, key: Key, log_density: LogDensity, x: Value) -> Recorded:
        """Draw the site; the record is the old value."""
        options, logits = self._options(log_density, x)
        old = self._value(x)
        inside = self._is_inside(old)
        value = jnp.where(inside, options[_draw(key, logits, old)], x)
        return Recorded(value, (), jnp.where(inside, old, NO_RECORD))

    def advance(
        self, key: Key, log_density: LogDensity, x: Array, here: LogProb
    ) -> tuple[Array, LogProb]:
        r"""`step` from a state with its log density to the next state with its log density.

        With $o$ the value of the site, $\log\gamma$ is evaluated at $o + 1, \dots, o + K - 1$,
        modulo $K$. A value outside of $0 \dots K_s-1$ stays as it is.
        """
        num, old = self.num_values, self._value(x)
        others = (old + jnp.arange(1, num, dtype=jnp.int32)) % num
        if num == 2:  # without an axis for one value the state is changed in place
            x = self._place(x, others[0])
            found = log_density(x)
        else:
            found = jax.vmap(lambda value: log_density(self._place(x, value)))(others)
        behind = (jnp.arange(num, dtype=jnp.int32) - old) % num  # place of each value in `others`
        logits = self._within(jnp.append(here, as_log(found))[behind])
        inside, drawn = self._is_inside(old), _draw(key, logits, old)
        drawn = jnp.where(inside, drawn, old)
        return self._place(x, drawn), jnp.where(inside, logits[drawn], here)

    def reverse_noise(self, key: Key, log_density: LogDensity, y: Value) -> Value:
        """Return no noise: the branch alone undoes a step."""
        return ()

    def retrace(
        self, log_density: LogDensity, y: Value, log_density_y: LogProb, noise: Value
    ) -> Retraced:
        r"""Undo for all old values $b$: $k(y, b \mid x_b) = p(y_s \mid x_{-s})$ for each."""
        options, logits = self._options(log_density, y)
        log_conditional = jax.nn.log_softmax(logits)
        value = self._value(y)
        nowhere = (jnp.max(logits) == -jnp.inf) | ~self._is_inside(value)
        log_conditional = jnp.where(nowhere, -jnp.inf, log_conditional)
        log_forward = self._within(jnp.full(self.num_values, log_conditional[value]))
        return Retraced(options, logits, log_forward, log_conditional)

    def reversal(self) -> "GibbsSite":
        """The kernel itself: detailed balance holds."""
        return self

    def _options(self, log_density: LogDensity, x: Value) -> tuple[Array, Array]:
        """The state with every value at the site, and their log densities."""
        values = jnp.arange(self.num_values, dtype=x.dtype)
        options = jax.vmap(lambda value: self._place(x, value))(values)
        return options, self._within(as_log(jax.vmap(log_density)(options)))

    def _within(self, logits: Array) -> Array:
        r"""Log densities by value: $-\infty$ for values that the site does not take."""
        if self.num_own is None:
            return logits
        return jnp.where(jnp.arange(self.num_values) < self.num_own, logits, -jnp.inf)

    def _is_inside(self, value: Array) -> Array:
        """Whether the site takes this value."""
        num = self.num_values if self.num_own is None else self.num_own
        return (value >= 0) & (value < num)

    def _value(self, x: Array) -> Int[Array, ""]:
        """The value at the site."""
        return x.ravel()[self.site].astype(jnp.int32)

    def _place(self, x: Array, value: Array) -> Array:
        """The state with `value` at the site."""
        return x.ravel().at[self.site].set(value.astype(x.dtype)).reshape(x.shape)
