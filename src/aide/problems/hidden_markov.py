"""Hidden Markov models with finitely many states, whose posterior is known exactly."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from aide._core.jax_compat import is_traced
from aide._core.numerics import as_parameter
from aide._core.random import draw_index
from aide._core.types import Key, LogProb, Numbers
from aide.algorithms.particle_filter import Proposal, StateSpaceModel
from aide.algorithms.tractable import Tractable
from aide.problems.distributions import Categorical


def _as_symbols(observations: Numbers) -> Any:
    if isinstance(observations, jax.Array):
        return observations
    array = np.asarray(observations)
    if array.ndim != 1 or array.size == 0 or (array != np.round(array)).any():
        raise ValueError(f"observations must be a list of whole numbers, got {observations!r}.")
    return array.astype(np.int32)


class HiddenMarkovModel(eqx.Module):
    """K states, S symbols, T observed symbols (0-based).

    Args:
        initial: Probabilities of the first state, shape (K,).
        transition: Row i holds the probabilities of the next state after state i, shape (K, K).
        emission: Row i holds the probabilities of the symbols in state i, shape (K, S).
        observations: Symbols, shape (T,).

    Example:
        >>> model = aide.problems.HiddenMarkovModel(
        ...     initial=[0.5, 0.5],
        ...     transition=[[0.9, 0.1], [0.1, 0.9]],
        ...     emission=[[0.8, 0.2], [0.2, 0.8]],
        ...     observations=[0, 0, 1],
        ... )
        >>> round(float(model.log_evidence()), 4)
        -2.3413
        >>> aide.ParticleFilter(model.state_space(), num_particles=10)
        ParticleFilter, 10 particles
    """

    initial: Float[Array, " K"] = eqx.field(converter=as_parameter)
    transition: Float[Array, "K K"] = eqx.field(converter=as_parameter)
    emission: Float[Array, "K S"] = eqx.field(converter=as_parameter)
    observations: Int[Array, " T"] = eqx.field(converter=_as_symbols)

    def __check_init__(self) -> None:
        if is_traced(self.transition):
            return
        num = self.initial.shape[0]
        if self.transition.shape != (num, num) or self.emission.shape[:1] != (num,):
            raise ValueError(
                f"with {num} states, transition must be ({num}, {num}) and emission ({num}, S), "
                f"got {self.transition.shape} and {self.emission.shape}."
            )
        _check_rows("initial", np.asarray(self.initial)[None])
        _check_rows("transition", np.asarray(self.transition))
        _check_rows("emission", np.asarray(self.emission))
        num_symbols = self.emission.shape[1]
        wrong = np.flatnonzero((self.observations < 0) | (self.observations >= num_symbols))
        if wrong.size:
            raise ValueError(
                f"observations must be symbols from 0 to {num_symbols - 1}; observation {wrong[0]} "
                f"is {self.observations[wrong[0]]}."
            )

    def state_space(self) -> StateSpaceModel:
        """The model for `ParticleFilter`."""
        return StateSpaceModel(
            Categorical(self.initial), self._next_state, self._symbol, self.observations
        )

    def optimal_proposal(self) -> Proposal:
        r"""$p(x_t \mid x_{t-1}, y_t)$: the best proposal among those that use one observation."""
        return Proposal(self._first_given_symbol, self._next_given_symbol)

    def posterior(self) -> Tractable:
        """Exact posterior of the path: forward filtering, backward sampling; normalised."""
        return Tractable(self._sample_path, self._log_posterior, label="exact posterior")

    def log_evidence(self) -> LogProb:
        r"""$\log p(y_{1:T})$ by the forward recursion."""
        return self._filter()[1]

    def _filter(self) -> tuple[Float[Array, "T K"], LogProb]:
        def forward(carry: Any, y: Array) -> tuple[Any, Array]:
            predicted, total = carry
            joint = predicted * jnp.asarray(self.emission)[:, y]
            mass = jnp.sum(joint)
            filtered = joint / mass
            return (filtered @ self.transition, total + jnp.log(mass)), filtered

        first = (jnp.asarray(self.initial, float), jnp.zeros((), float))
        (_, total), filtered = jax.lax.scan(forward, first, jnp.asarray(self.observations))
        return filtered, total

    def _sample_path(self, key: Key) -> Int[Array, " T"]:
        filtered, _ = self._filter()
        keys = jax.random.split(key, filtered.shape[0])
        last = draw_index(keys[-1], filtered[-1])

        def backward(after: Array, step: tuple[Key, Array]) -> tuple[Array, Array]:
            key_step, weights = step
            state = draw_index(key_step, weights * jnp.asarray(self.transition)[:, after])
            return state, state

        _, earlier = jax.lax.scan(backward, last, (keys[:-1], filtered[:-1]), reverse=True)
        return jnp.concatenate([earlier, last[None]])

    def _log_posterior(self, path: Int[Array, " T"]) -> LogProb:
        return self.state_space().log_joint(path) - self.log_evidence()

    def _next_state(self, x: Array, t: Array) -> Categorical:
        return Categorical(jnp.asarray(self.transition)[x])

    def _symbol(self, x: Array, t: Array) -> Categorical:
        return Categorical(jnp.asarray(self.emission)[x])

    def _first_given_symbol(self, y: Array) -> Categorical:
        return Categorical(self.initial * jnp.asarray(self.emission)[:, y])

    def _next_given_symbol(self, x: Array, y: Array, t: Array) -> Categorical:
        return Categorical(jnp.asarray(self.transition)[x] * jnp.asarray(self.emission)[:, y])


def _check_rows(name: str, table: np.ndarray) -> None:
    sums = table.sum(axis=1)
    wrong = np.flatnonzero(~(np.abs(sums - 1) <= 1e-6) | (table < 0).any(axis=1))
    if wrong.size:
        raise ValueError(
            f"every row of {name} must be probabilities that sum to 1; row {wrong[0]} is "
            f"{table[wrong[0]]} with sum {sums[wrong[0]]:.6g}."
        )
