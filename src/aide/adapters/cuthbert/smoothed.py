"""A Gaussian smoother of cuthbert as a law of whole paths."""

from functools import partial
from typing import Any

import cuthbert
import equinox as eqx
import jax
import jax.numpy as jnp
from cuthbert.inference import Filter, Smoother
from jaxtyping import Array, Float

from aide._core.random import derive_keys
from aide._core.types import Key, LogProb, Value
from aide.adapters.cuthbert.laws import gaussian
from aide.adapters.cuthbert.model import builder_of
from aide.adapters.gaussian import Gaussian
from aide.algorithms.tractable import Tractable
from aide.engine.programs.map_runs import in_double

Path = Float[Array, "num_states d"]


class SmoothedPaths(eqx.Module):
    r"""$x_T \sim N(m_T, P_T)$, then backwards $x_t \sim N(g_t + E_t x_{t+1}, D_t D_t^T)$.

    A smoother computes these; its marginals are what it reports. The law is exact where the model
    is linear and Gaussian, and an approximation where cuthbert linearises.

    Args:
        last: The law of $x_T$.
        shifts: $g_0, \dots, g_{T-1}$.
        gains: $E_t$.
        factors: $D_t$.
    """

    last: Gaussian
    shifts: Float[Array, "num_steps d"]
    gains: Float[Array, "num_steps d d"]
    factors: Float[Array, "num_steps d d"]

    def sample(self, key: Key) -> Path:
        """Draw the last state, then each one given the next."""
        key_last, *keys = derive_keys(key, 1 + len(self.shifts))

        def step(after: Array, given: Any) -> tuple[Array, Array]:
            key, shift, gain, factor = given
            x = gaussian(shift + gain @ after, factor).sample(key)
            return x, x

        end = self.last.sample(key_last)
        given = (jnp.stack(keys), self.shifts, self.gains, self.factors)
        _, before = jax.lax.scan(step, end, given, reverse=True)
        return jnp.concatenate([before, end[None]])

    def log_density(self, path: Path) -> LogProb:
        r"""$\log N(x_T; m_T, P_T) + \sum_t \log N(x_t; g_t + E_t x_{t+1}, D_t D_t^T)$."""

        def one(x: Array, after: Array, shift: Array, gain: Array, factor: Array) -> Array:
            return gaussian(shift + gain @ after, factor).log_density(x)

        each = jax.vmap(one)(path[:-1], path[1:], self.shifts, self.gains, self.factors)
        return self.last.log_density(path[-1]) + jnp.sum(each)


def smoothed_paths(
    filtered: Filter, smoother: Smoother, model_inputs: Value, label: str = ""
) -> Tractable:
    r"""Filter and smooth with cuthbert; the law of $x_0, \dots, x_T$ that comes out is the target.

    Args:
        filtered: A Gaussian filter: `gaussian.kalman`, `gaussian.moments` or `gaussian.taylor`.
        smoother: The smoother that belongs to it.
        model_inputs: The inputs of `cuthbert.filter`, with a leading axis of length $T$.
        label: A name for tables.
    """
    for what, part in (("filter", filtered.init_prepare), ("smoother", smoother.smoother_prepare)):
        if not builder_of(part).startswith("cuthbert.gaussian"):
            raise ValueError(
                f"the {what} is of {builder_of(part) or 'another library'}, and only Gaussian ones "
                "give a law of whole paths: cuthbert.gaussian.kalman, moments, taylor."
            )
    paths = in_double(_paths, filtered, smoother, model_inputs)
    return Tractable.of(paths, label or "cuthbert's smoother")


def _paths(filtered: Filter, smoother: Smoother, model_inputs: Value) -> SmoothedPaths:
    filtered = Filter(*map(_promoted_part, filtered))
    smoother = Smoother(*map(_promoted_part, smoother))
    inputs = _promoted(model_inputs)
    states = cuthbert.filter(filtered, inputs, filtered.init_prepare())
    before, last = (
        jax.tree.map(lambda leaf, part=part: leaf[part], states) for part in (slice(-1), -1)
    )
    prepare = lambda state, given: smoother.smoother_prepare(state, given).elem
    shifts, gains, factors = jax.vmap(prepare)(before, inputs)
    return SmoothedPaths(gaussian(last.mean, last.chol_cov), shifts, gains, factors)


def _promoted_part(part: Any) -> Any:
    """A function of cuthbert with what was bound to it in double precision."""
    if not isinstance(part, partial):
        return part
    return partial(part.func, **{name: _promoted(value) for name, value in part.keywords.items()})


def _promoted(given: Any) -> Any:
    """Arrays in double precision, and functions whose results are: users have them in single."""

    def promote_leaf(leaf: Any) -> Any:
        if isinstance(leaf, bool) or leaf is None:
            return leaf
        if callable(leaf):
            return lambda *args, **options: _promoted(leaf(*args, **options))
        array = jnp.asarray(leaf)
        return array.astype(float) if jnp.issubdtype(array.dtype, jnp.floating) else array

    return jax.tree.map(promote_leaf, given)
