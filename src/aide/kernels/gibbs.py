"""Gibbs updates: one block from its conditional; discrete variables site by site."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int

from aide._core.distribution import Distribution, log_density_of, sample_from
from aide._core.numerics import as_log
from aide._core.random import derive_keys
from aide._core.search import draw_index
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
    update evaluates the log density at all $K$ values of the site. A sweep is not reversible:
    its reversal visits the sites in reverse order.

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

        def update(x: Array, inputs: tuple[Key, Array]) -> tuple[Array, None]:
            subkey, site = inputs
            return GibbsSite(site, self.num_values).step(subkey, log_density, x), None

        sites = jnp.asarray(self.sites)
        steps = (derive_keys(key, sites.shape[0]), sites)
        return jax.lax.scan(update, x, steps)[0]

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
        broken = jnp.isnan(logits)
        peak = jnp.max(jnp.where(broken, -jnp.inf, logits))
        drawn = draw_index(key, jnp.exp(logits - jnp.where(jnp.isfinite(peak), peak, 0.0)))
        drawn = jnp.where(jnp.any(broken), jnp.argmax(broken), drawn)
        old = x.ravel()[self.site]
        drawn = jnp.where(broken[old], old, drawn)
        return Recorded(options[drawn], (), jnp.asarray(old, jnp.int32))

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
        place = lambda value: x.ravel().at[self.site].set(value).reshape(x.shape)
        options = jax.vmap(place)(values)
        return options, as_log(jax.vmap(log_density)(options))
