"""Scripted parts: the shipped SMC code replays a given trace instead of drawing one.

Everything that is random in a run (first states, ancestors, retained slots, new states) comes from
the script; weights, decisions to resample, bookkeeping and log xi are the library's own.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from aide.kernels.kernel import AbstractInvariantKernel
from aide.smc.resampling import AbstractScheme
from aide.smc.sweep import start


class Table(eqx.Module):
    """A distribution over the nine states of `reference.annealing`, normalised or not."""

    weights: Any

    def __call__(self, x: Any) -> Any:
        return jnp.log(jnp.asarray(self.weights))[3 * x[0] + x[1]]

    def log_density(self, x: Any) -> Any:
        return self(x)

    def sample(self, key: Any) -> Any:
        index = jax.random.categorical(key, jnp.log(jnp.asarray(self.weights)))
        return jnp.stack([index // 3, index % 3])


class ScriptedScheme(AbstractScheme):
    """Returns the given ancestors, and the given slot for the retained particle."""

    given: Any
    slot: Any = None

    def ancestors(self, key: Any, weights: Any) -> Any:
        return self.given

    def conditional(self, key: Any, weights: Any, retained: Any) -> tuple[Any, Any]:
        return self.given, self.slot


class ScriptedInitial(eqx.Module):
    """Hands out the given states, one per particle."""

    states: Any
    density: Any = None

    def sample(self, key: Any) -> Any:
        return _hand_out(self.states, jax.random.key_data(key))

    def log_density(self, x: Any) -> Any:
        return self.density(x)


class ScriptedExtend(eqx.Module):
    """Moves particle i to the i-th given state, with the weight of the shipped move `extend`."""

    extend: Any
    states: Any

    def forward(self, key: Any, x: Any) -> tuple[Any, Any]:
        after = _hand_out(self.states, jax.random.key_data(key))
        return after, self.extend.log_weight(x, after)

    def backward(self, key: Any, y: Any) -> tuple[Any, Any]:
        raise AssertionError("the retained path is scripted too: nothing walks backward")


class ScriptedKernel(AbstractInvariantKernel):
    """Moves particle i to `after[t, i]`, t being the step whose temperature the density has.

    The reversal moves the one retained state to `before[t]`.
    """

    temperatures: Any
    after: Any
    before: Any = None
    reversed: bool = eqx.field(static=True, default=False)

    def step(self, key: Any, log_density: Any, x: Any) -> Any:
        t = jnp.argmin(jnp.abs(jnp.asarray(self.temperatures) - log_density.temperature))
        if self.reversed:
            return self.before[t]
        return _hand_out(self.after[t], jax.random.key_data(key))

    def reversal(self) -> AbstractInvariantKernel:
        return ScriptedKernel(self.temperatures, self.after, self.before, not self.reversed)


@custom_vmap
def _hand_out(states: Any, key_data: Any) -> Any:
    """A state's type. Which particle asks is known only to the `vmap` over particles, below."""
    return states[0]


@_hand_out.def_vmap
def _hand_out_all(size: int, batched: Any, states: Any, key_data: Any) -> tuple[Any, Any]:
    assert batched == [False, True]
    assert states.shape[0] == size
    return states, True


def key_per_slot(num: int) -> Any:
    """Keys for which the shipped `start` puts the retained particle into slot 0, 1, …, num - 1."""
    keys = jax.random.split(jax.random.key(0), 64)
    initial = ScriptedInitial(jnp.zeros(num, int))
    slots = jax.vmap(
        lambda k: start(k, initial.sample, lambda x: 0.0 * x, num, jnp.asarray(0)).retained
    )
    found = np.asarray(slots(keys))
    return keys[np.array([np.flatnonzero(found == slot)[0] for slot in range(num)])]
