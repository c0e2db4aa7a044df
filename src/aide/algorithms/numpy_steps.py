r"""The step functions of a particle filter in NumPy: draw, weigh and score whole populations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aide._core.types import Value

Rng = np.random.Generator
Draw = Callable[[Rng, int], Value]
Move = Callable[[Rng, int, Value], Value]
Score = Callable[..., np.ndarray]


@dataclass(frozen=True)
class NumpyProposal:
    r"""Proposals other than the model's own steps, for `aide.numpy_filter`.

    Args:
        initial: `initial(rng, num)` draws first states $x_1 \sim k_1$.
        log_initial: `log_initial(particles)`: $\log k_1(x_1)$ of each.
        transition: `transition(rng, t, particles)` draws $x_t \sim k_t(\cdot; x_{t-1})$, one for
            each particle.
        log_transition: `log_transition(t, before, after)`: $\log k_t(x_t; x_{t-1})$ of each.
    """

    initial: Draw
    log_initial: Score
    transition: Move
    log_transition: Score


@dataclass(frozen=True)
class NumpySteps:
    r"""The functions that a filter needs: $p(x_1)$, $p(x_t \mid x_{t-1})$, $p(y_t \mid x_t)$.

    Particles are an array, or a dict, tuple or list of arrays, with a leading particle axis.
    Without `log_initial` and `log_transition`, densities are relative to the law of the model's own
    paths: $p(x_{1:T})$ is left out.
    """

    initial: Draw
    transition: Move
    log_likelihood: Score
    log_initial: Score | None = None
    log_transition: Score | None = None
    proposal: NumpyProposal | None = None

    def start(self, rng: Rng, num: int) -> Value:
        """First states, from the proposal or the model."""
        initial = self.initial if self.proposal is None else self.proposal.initial
        return _population("initial", initial(rng, num), num)

    def move(self, rng: Rng, t: int, parents: Value) -> Value:
        """The states at step t, from the proposal or the model."""
        transition = self.transition if self.proposal is None else self.proposal.transition
        return _population("transition", transition(rng, t, parents), size_of(parents))

    def weigh_start(self, particles: Value) -> np.ndarray:
        r"""$\log p(x_1)\,p(y_1 \mid x_1)/k_1(x_1)$ of each."""
        log_w = self._likelihood(0, particles)
        if self.proposal is None:
            return log_w
        own = _scores("proposal.log_initial", self.proposal.log_initial(particles), particles)
        return log_ratio(self._log_initial(particles) + log_w, own)

    def weigh(self, t: int, before: Value, after: Value) -> np.ndarray:
        r"""$\log p(x_t \mid x_{t-1})\,p(y_t \mid x_t)/k_t(x_t; x_{t-1})$ of each."""
        log_w = self._likelihood(t, after)
        if self.proposal is None:
            return log_w
        given = self.proposal.log_transition(t, before, after)
        own = _scores("proposal.log_transition", given, after)
        return log_ratio(self._log_transition(t, before, after) + log_w, own)

    def log_joint(self, path: Value, num_steps: int) -> float:
        r"""$\log p(x_{1:T}, y_{1:T})$ of one path; $p(x_{1:T})$ is left out if it is unknown."""
        states = states_of(path, num_steps)
        total = self._log_initial(states[0]) + self._likelihood(0, states[0])
        for t in range(1, num_steps):
            total = total + self._log_transition(t, states[t - 1], states[t])
            total = total + self._likelihood(t, states[t])
        return float(total[0])

    def _likelihood(self, t: int, particles: Value) -> np.ndarray:
        return _scores("log_likelihood", self.log_likelihood(t, particles), particles)

    def _log_initial(self, particles: Value) -> np.ndarray:
        if self.log_initial is None:
            return np.zeros(size_of(particles))
        return _scores("log_initial", self.log_initial(particles), particles)

    def _log_transition(self, t: int, before: Value, after: Value) -> np.ndarray:
        if self.log_transition is None:
            return np.zeros(size_of(after))
        return _scores("log_transition", self.log_transition(t, before, after), after)


def states_of(path: Value, num_steps: int) -> list[Value]:
    """The states of a path, each as a population of one."""
    pick = lambda t: jax.tree.map(lambda a: np.asarray(a)[t : t + 1], path)
    return [pick(t) for t in range(num_steps)]


def size_of(particles: Value) -> int:
    """Number of particles."""
    return len(jax.tree.leaves(particles)[0])


def log_ratio(log_numerator: np.ndarray, log_denominator: np.ndarray) -> np.ndarray:
    r"""$\log (a/b)$, and $-\infty$ where $a = 0$, for every $b$."""
    zero = log_numerator == -np.inf
    return np.where(zero, -np.inf, log_numerator - np.where(zero, 0.0, log_denominator))


def _population(name: str, particles: Value, num: int) -> Value:
    arrays = jax.tree.map(np.asarray, particles)
    shapes = [leaf.shape for leaf in jax.tree.leaves(arrays)]
    if not shapes or any(shape[:1] != (num,) for shape in shapes):
        raise ValueError(
            f"{name} must return {num} particles along the first axis, got shapes {shapes}."
        )
    return arrays


def _scores(name: str, scores: Any, particles: Value) -> np.ndarray:
    array = np.asarray(scores, np.float64)
    if array.shape != (size_of(particles),):
        raise ValueError(
            f"{name} must return one number for each of {size_of(particles)} particles, got shape "
            f"{array.shape}: sum over the components of a state."
        )
    return array
