"""Gibbs updates: one block from its conditional; discrete variables site by site."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from aide._distribution import log_density_of, sample_from
from aide._random import derive_keys
from aide._search import draw_index
from aide._types import Key, LogDensity, LogProb, Value
from aide._validate import check_count
from aide.kernels.kernel import AbstractKernel
from aide.kernels.metropolis import AbstractMetropolis


class GibbsBlock(AbstractMetropolis):
    r"""Draw one block of the state from its conditional given the rest.

    As an involution: $v \sim p(\cdot \mid x_{-b})$, and $\varphi$ swaps $x_b$ and $v$. With the
    exact conditional every move is accepted; with another one this is Metropolis within Gibbs.
    For a dictionary as state, `name` is the block's key; for a tuple or list its position.

    Args:
        name: Which entry of the state is the block.
        conditional: Maps the state to the block's distribution (with `sample` and `log_prob`); it
            must not look at the block itself.
    """

    name: Any = eqx.field(static=True)
    conditional: Callable[[Value], Any]

    def noise(self, key: Key, x: Value) -> Value:
        """See `AbstractMetropolis`."""
        return sample_from(self.conditional(x), key)

    def log_noise(self, x: Value, v: Value) -> LogProb:
        """See `AbstractMetropolis`."""
        return log_density_of(self.conditional(x), v)

    def involution(self, log_density: LogDensity, x: Value, v: Value) -> tuple[Value, Value]:
        """See `AbstractMetropolis`."""
        old = x[self.name]
        new = jax.tree.map(lambda a, like: jnp.asarray(a, jnp.asarray(like).dtype), v, old)
        if isinstance(x, dict):
            return {**x, self.name: new}, old
        parts = list(x)
        parts[self.name] = new
        return type(x)(parts), old


class GibbsSites(AbstractKernel):
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
        check_count("num_values", self.num_values, 2)
        if np.ndim(self.sites) != 1:
            raise ValueError(f"sites must be a list of flat indices, got shape {self.sites.shape}.")

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """See `AbstractKernel`. As in MH, a NaN density is entered and never left."""

        def update(flat: Array, inputs: Any) -> tuple[Array, None]:
            subkey, site = inputs
            values = jnp.arange(self.num_values, dtype=flat.dtype)
            options = jax.vmap(lambda value: flat.at[site].set(value))(values)
            logits = jnp.asarray(
                jax.vmap(lambda o: log_density(o.reshape(x.shape)))(options), float
            )
            broken = jnp.isnan(logits)
            peak = jnp.max(jnp.where(broken, -jnp.inf, logits))
            drawn = draw_index(subkey, jnp.exp(logits - jnp.where(jnp.isfinite(peak), peak, 0.0)))
            drawn = jnp.where(jnp.any(broken), jnp.argmax(broken), drawn)
            drawn = jnp.where(broken[flat[site]], flat[site], drawn)
            return options[drawn], None

        sites = jnp.asarray(self.sites)
        steps = (derive_keys(key, sites.shape[0]), sites)
        flat, _ = jax.lax.scan(update, x.ravel(), steps)
        return flat.reshape(x.shape)

    def reversal(self) -> AbstractKernel:
        """See `AbstractKernel`: the same sites in reverse order."""
        return eqx.tree_at(lambda k: k.sites, self, self.sites[::-1])
