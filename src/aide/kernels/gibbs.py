"""Gibbs updates: one block from its conditional; discrete variables site by site."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int

from aide._core.distribution import Distribution, log_density_of, sample_from
from aide._core.numerics import as_log
from aide._core.random import derive_keys, draw_index
from aide._core.types import Key, LogDensity, LogProb, Value
from aide._core.validate import check_size
from aide.kernels.entries import entry_of, with_entry
from aide.kernels.kernel import AbstractInvariantKernel
from aide.kernels.metropolis import AbstractMetropolis, like
from aide.kernels.retrace import Recorded, Retraced


class GibbsBlock(AbstractMetropolis):
    r"""Draw one block of the state from its conditional given the rest.

    As an involution: $v \sim p(\cdot \mid x_{-b})$, and $\varphi$ swaps $x_b$ and $v$. With the
    exact conditional every move is accepted; with another one this is Metropolis within Gibbs.

    Args:
        name: Which entry of the state is the block: a key of a dictionary, a position in a tuple or
            list, either a position or a field's name in a `NamedTuple`.
        conditional: Maps the state to the block's distribution (with `sample` and `log_prob`); it
            must not look at the block itself.
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


class GibbsSites(AbstractInvariantKernel):
    r"""Resample each site of an integer array from its conditional, in the given order.

    The state is one integer array with values $0 \dots K-1$; sites index its flattened form. One
    update evaluates the log density at the $K - 1$ other values of the site: that of the state is
    handed on. A sweep is not reversible: its reversal visits the sites in reverse order.

    Args:
        sites: Flat indices, in the order of the sweep.
        num_values: $K$.
    """

    sites: Int[Array, " num_sites"] = eqx.field(converter=lambda s: np.asarray(s, np.int32))
    num_values: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_size("num_values", self.num_values, 2)
        if np.ndim(self.sites) != 1:
            raise ValueError(f"sites must be a list of flat indices, got shape {self.sites.shape}.")

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """Update site after site. As in MH, a NaN density is entered and never left."""

        def update(now: tuple[Array, LogProb], inputs: tuple[Key, Array]) -> Any:
            subkey, site = inputs
            return GibbsSite(site, self.num_values).advance(subkey, log_density, *now), None

        sites, x = jnp.asarray(self.sites), jnp.asarray(x)
        steps = (derive_keys(key, sites.shape[0]), sites)
        return jax.lax.scan(update, (x, as_log(log_density(x))), steps)[0][0]

    def reversal(self) -> "GibbsSites":
        """The same sites in reverse order."""
        return eqx.tree_at(lambda k: k.sites, self, self.sites[::-1])

    def retraceable_parts(self) -> tuple["GibbsSite", ...]:
        """What one transition runs, in order: one update after another."""
        num = np.shape(self.sites)[0]
        return tuple(GibbsSite(self.sites[i], self.num_values) for i in range(num))


class GibbsSite(AbstractInvariantKernel):
    r"""Resample one site of an integer array from its conditional.

    The record of a step is the branch $b$, the value the site had; there is no noise. The new value
    does not depend on the old one, and the step back is a step.

    Args:
        site: Flat index.
        num_values: $K$.
    """

    site: ArrayLike
    num_values: int = eqx.field(static=True)

    @property
    def num_branches(self) -> int:
        """One per value the site may have had."""
        return self.num_values

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        r"""Draw the site from $p(\cdot \mid x_{-s})$."""
        return self.record(key, log_density, x).value

    def record(self, key: Key, log_density: LogDensity, x: Value) -> Recorded:
        """Draw the site; the record is the value that it had."""
        options, logits = self._options(log_density, x)
        old = self._value(x)
        return Recorded(options[_draw(key, logits, old)], (), old)

    def advance(
        self, key: Key, log_density: LogDensity, x: Array, here: LogProb
    ) -> tuple[Array, LogProb]:
        r"""`step` from a state with its log density to the next one with its own.

        With $o$ the value of the site, $\log\gamma$ is evaluated at $o + 1, \dots, o + K - 1$,
        modulo $K$. A value outside of $0 \dots K-1$ has density 0.
        """
        num, old = self.num_values, self._value(x)
        others = (old + jnp.arange(1, num, dtype=jnp.int32)) % num
        if num == 2:  # without an axis for one value the state is changed in place
            x = self._place(x, others[0])
            found = log_density(x)
        else:
            found = jax.vmap(lambda value: log_density(self._place(x, value)))(others)
        here = jnp.where((old >= 0) & (old < num), here, -jnp.inf)
        behind = (jnp.arange(num, dtype=jnp.int32) - old) % num  # by how much it exceeds the old
        logits = jnp.append(here, as_log(found))[behind]
        drawn = _draw(key, logits, old)
        return self._place(x, drawn), logits[drawn]

    def reverse_noise(self, key: Key, log_density: LogDensity, y: Value) -> Value:
        """There is none: the branch says it all."""
        return ()

    def retrace(
        self, log_density: LogDensity, y: Value, log_density_y: LogProb, noise: Value
    ) -> Retraced:
        r"""Every value $b$ the site had: $k(y, b \mid x_b) = p(y_s \mid x_{-s})$ for all."""
        options, logits = self._options(log_density, y)
        log_conditional = jax.nn.log_softmax(logits)
        nowhere = jnp.max(logits) == -jnp.inf
        log_conditional = jnp.where(nowhere, -jnp.inf, log_conditional)
        log_forward = jnp.full(self.num_values, log_conditional[y.ravel()[self.site]])
        return Retraced(options, logits, log_forward, log_conditional)

    def reversal(self) -> "GibbsSite":
        """The kernel itself: detailed balance holds."""
        return self

    def _options(self, log_density: LogDensity, x: Value) -> tuple[Array, Array]:
        """The state with every value at the site, and their log densities."""
        values = jnp.arange(self.num_values, dtype=x.dtype)
        options = jax.vmap(lambda value: self._place(x, value))(values)
        return options, as_log(jax.vmap(log_density)(options))

    def _value(self, x: Array) -> Int[Array, ""]:
        """What the site holds."""
        return x.ravel()[self.site].astype(jnp.int32)

    def _place(self, x: Array, value: Array) -> Array:
        """The state with a value at the site."""
        return x.ravel().at[self.site].set(value.astype(x.dtype)).reshape(x.shape)


def _draw(key: Key, logits: Array, old: Array) -> Array:
    """A value in proportion to its density; one whose density is NaN is entered and not left."""
    broken = jnp.isnan(logits)
    peak = jnp.max(jnp.where(broken, -jnp.inf, logits))
    drawn = draw_index(key, jnp.exp(logits - jnp.where(jnp.isfinite(peak), peak, 0.0)))
    drawn = jnp.where(jnp.any(broken), jnp.argmax(broken), drawn)
    return jnp.where(broken[old], old, drawn)
