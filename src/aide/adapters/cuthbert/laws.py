r"""What filters of cuthbert say about a model: laws of a state and of an observation.

cuthbert's data come with the inputs of the model, one entry per observation, and its first state
$x_0$ has none. A path here is $x_0, \dots, x_T$; inputs have a leading entry that nobody reads.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from cuthbertlib.linalg import tria
from jaxtyping import Array

from aide._core.types import Key, LogProb, Value
from aide.adapters.gaussian import Gaussian
from aide.problems.distributions import Categorical


def gaussian(mean: Array, factor: Array) -> Gaussian:
    """By its mean and a factor of its covariance, which need not be triangular."""
    lower = tria(jnp.asarray(factor, float))
    signs = jnp.where(jnp.diagonal(lower) < 0, -1.0, 1.0)
    return Gaussian(jnp.asarray(mean, float), lower * signs)


class Laws(eqx.Module):
    """Transition and observation of a model, as cuthbert's two functions of the inputs give them.

    Args:
        get_dynamics: The first of them.
        get_observation: The second; it knows the observation itself.
        inputs: Their inputs, with a leading axis of $T + 1$ entries.
        state: A state of the filter, which functions for moments take and must not need.
    """

    get_dynamics: Callable[..., Any]
    get_observation: Callable[..., Any]
    inputs: Value
    state: Any = None

    @abstractmethod
    def transition(self, x: Array, t: Array | int) -> Any:
        r"""The law of $x_t$ given $x_{t-1} = x$."""

    @abstractmethod
    def log_likelihood(self, x: Array, inputs: Value) -> LogProb:
        r"""$\log p(y_t \mid x_t)$, the observation among the inputs."""

    def observation(self, x: Array, t: Array | int) -> "Observed":
        r"""The law of what is seen of $x_t$."""
        return Observed(self, x, t)

    def inputs_at(self, t: Array | int) -> Value:
        """One entry of them."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[t], self.inputs)


class Observed(eqx.Module):
    """What is seen of a state: nothing of the first one."""

    laws: Laws
    x: Array
    t: Array | int

    def sample(self, key: Key) -> Value:
        """Not possible: cuthbert's functions return the observation that was made."""
        raise NotImplementedError(
            "observations of a cuthbert model are given with its inputs and cannot be simulated."
        )

    def log_density(self, inputs: Value) -> LogProb:
        r"""$\log p(y_t \mid x_t)$, and 0 at $t = 0$."""
        return jnp.where(jnp.asarray(self.t) == 0, 0.0, self.laws.log_likelihood(self.x, inputs))


class LinearGaussian(Laws):
    r"""$x_t \sim N(F x_{t-1} + c, Q)$, $y_t \sim N(H x_t + d, R)$: `cuthbert.gaussian.kalman`."""

    def transition(self, x: Array, t: Array | int) -> Gaussian:
        r"""$N(F x + c, Q)$."""
        matrix, shift, factor = self.get_dynamics(self.inputs_at(t))
        return gaussian(matrix @ x + shift, factor)

    def log_likelihood(self, x: Array, inputs: Value) -> LogProb:
        r"""$\log N(y; H x + d, R)$."""
        matrix, shift, factor, y = self.get_observation(inputs)
        return gaussian(matrix @ x + shift, factor).log_density(jnp.asarray(y, float))


class ConditionalMoments(Laws):
    r"""$x_t \sim N(m(x_{t-1}), C(x_{t-1}))$, alike for $y_t$: `cuthbert.gaussian.moments`.

    The filter linearises these functions; here they are the model itself.
    """

    def transition(self, x: Array, t: Array | int) -> Gaussian:
        r"""$N(m(x), C(x))$."""
        moments, _ = self.get_dynamics(self.state, self.inputs_at(t))
        return gaussian(*moments(x))

    def log_likelihood(self, x: Array, inputs: Value) -> LogProb:
        r"""$\log N(y; m(x), C(x))$."""
        moments, _, y = self.get_observation(self.state, inputs)
        return gaussian(*moments(x)).log_density(jnp.asarray(y, float))


class Discrete(Laws):
    r"""$P(x_t = j \mid x_{t-1} = i) = A_{ij}$: `cuthbert.discrete`."""

    def transition(self, x: Array, t: Array | int) -> Categorical:
        """A row of the matrix."""
        return Categorical(jnp.asarray(self.get_dynamics(self.inputs_at(t)), float)[x])

    def log_likelihood(self, x: Array, inputs: Value) -> LogProb:
        r"""$\log p(y_t \mid x_t = i)$, as it is given for all $i$."""
        return jnp.asarray(self.get_observation(inputs), float)[x]
