"""Particle filters in NumPy, from step functions, with their conditional filters."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import jax
import numpy as np
from jaxtyping import Array

from aide._core.keywords import keywords
from aide._core.numerics import row_log_mean_exp
from aide._core.types import Value
from aide._core.validate import LARGEST_RESOLVED, UNRESOLVED, check_size
from aide.algorithms.existing_code import PythonAlgorithm
from aide.algorithms.numpy_resampling import PlainResampled, resample
from aide.algorithms.particle_filter import FilterVersions
from aide.smc.policy import AbstractResampler, Resampled, as_resampler
from aide.smc.smc import ALL_ZERO

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

    Example:
        >>> log_normal = lambda x, m, s: -0.5 * ((x - m) / s) ** 2 - np.log(s * np.sqrt(2 * np.pi))
        >>> y = np.array([0.2, -0.1, 0.8])
        >>> wider = aide.algorithms.NumpyProposal(
        ...     initial=lambda rng, num: 2.0 * rng.normal(size=num),
        ...     log_initial=lambda x: log_normal(x, 0.0, 2.0),
        ...     transition=lambda rng, t, x: x + rng.normal(size=len(x)),
        ...     log_transition=lambda t, before, after: log_normal(after, before, 1.0),
        ... )
        >>> filtered = aide.numpy_filter(
        ...     lambda rng, num: rng.normal(size=num),
        ...     lambda rng, t, x: x + 0.5 * rng.normal(size=len(x)),
        ...     lambda t, x: log_normal(y[t], x, 1.0),
        ...     num_steps=3,
        ...     num_particles=20,
        ...     log_initial=lambda x: log_normal(x, 0.0, 1.0),
        ...     log_transition=lambda t, before, after: log_normal(after, before, 0.5),
        ...     proposal=wider,
        ... )
        >>> bool(np.isfinite(aide.estimate(0, filtered, filtered, num_gold=5, num_target=5).value))
        True
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


@dataclass(frozen=True)
class NumpyFilter(FilterVersions):
    r"""SMC on paths with step functions in NumPy; $\xi = p(x_{1:T}, y_{1:T})/\hat p(y_{1:T})$.

    The same law as `aide.ParticleFilter`: `simulate` filters, draws a final particle by weight and
    traces it back; `regenerate` is conditional SMC around the given path. Resampling is the
    library's own, so every scheme has its twin. Built by `aide.numpy_filter`.

    Args:
        steps: The step functions.
        num_steps: $T$.
        num_particles: $P$.
        resampler: When and how to resample.
    """

    steps: NumpySteps
    num_steps: int
    num_particles: int
    resampler: AbstractResampler
    log_z: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        check_size("num_steps", self.num_steps)
        check_size("num_particles", self.num_particles)

    def simulate(self, rng: Rng) -> tuple[Value, float]:
        r"""Filter; return one path, drawn by weight, and $\log\xi$."""
        particles = self.steps.start(rng, self.num_particles)
        log_w, log_evidence = self.steps.weigh_start(particles), 0.0
        history, ancestry = [particles], list[np.ndarray]()
        for t in range(1, self.num_steps):
            done = self._resample(rng, log_w, None)
            parents, ancestors = _descend(particles, done)
            particles = self.steps.move(rng, t, parents)
            log_w = np.asarray(done.log_weights) + self.steps.weigh(t, parents, particles)
            log_evidence += float(done.log_evidence)
            history.append(particles)
            ancestry.append(ancestors)
        if log_evidence + np.max(log_w) == -np.inf:
            raise ValueError(ALL_ZERO)
        slots = [_draw_index(rng, log_w)]
        for ancestors in reversed(ancestry):
            slots.insert(0, int(ancestors[slots[0]]))
        states = [
            jax.tree.map(lambda a, slot=slot: a[slot], population)
            for slot, population in zip(slots, history, strict=True)
        ]
        path = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
        log_evidence += float(row_log_mean_exp(log_w[None])[0])
        log_joint = self.steps.log_joint(path, self.num_steps)
        if LARGEST_RESOLVED <= abs(log_joint) < np.inf:
            raise ValueError(UNRESOLVED)
        return path, log_joint - log_evidence

    def regenerate(self, rng: Rng, value: Value) -> float:
        """Conditional SMC (Andrieu, Doucet & Holenstein 2010) around the given path."""
        kept = states_of(value, self.num_steps)
        slot = int(rng.integers(self.num_particles))
        particles = _place(self.steps.start(rng, self.num_particles), slot, kept[0])
        log_w, log_evidence = self.steps.weigh_start(particles), 0.0
        possible = np.isfinite(log_w[slot])
        for t in range(1, self.num_steps):
            done = self._resample(rng, _lowered(log_w, slot), slot)
            parents, _ = _descend(particles, done)
            slot = int(np.asarray(done.retained))
            particles = _place(self.steps.move(rng, t, parents), slot, kept[t])
            step = self.steps.weigh(t, parents, particles)
            possible = possible and np.isfinite(step[slot])
            log_w = np.asarray(done.log_weights) + step
            log_evidence += float(done.log_evidence)
        log_joint = self.steps.log_joint(value, self.num_steps)
        log_evidence += float(row_log_mean_exp(_lowered(log_w, slot)[None])[0])
        if np.isnan(log_evidence) or np.isnan(log_joint):
            return np.nan
        return log_joint - log_evidence if possible else -np.inf

    def first_steps(self, num: int) -> Self:
        """The filter after the first `num` observations."""
        return replace(self, num_steps=num)

    def _resample(
        self, rng: Rng, log_w: np.ndarray, slot: int | None
    ) -> Resampled | PlainResampled:
        done = resample(self.resampler, rng.random, log_w, slot)
        if done is not None:
            return done
        words = rng.integers(2**32, size=2, dtype=np.uint32)
        retained = None if slot is None else np.int32(slot)
        with jax.enable_x64(True):
            return _compiled_resampler(self.resampler, words, log_w, retained)


@keywords("aide.numpy_filter")
def numpy_filter(
    initial: Draw,
    transition: Move,
    log_likelihood: Score,
    *,
    num_steps: int,
    num_particles: int,
    log_initial: Score | None = None,
    log_transition: Score | None = None,
    relative_to_prior: bool = False,
    proposal: NumpyProposal | None = None,
    resampler: object = "multinomial",
    num_workers: int = 1,
    label: str = "",
) -> PythonAlgorithm:
    r"""A particle filter from step functions in NumPy, with the conditional filter.

    States at step t are arrays with a leading axis that counts particles (or dicts, tuples, lists
    of such arrays); t counts from 0. The output is a path: one state per step, stacked.

    Args:
        initial: `initial(rng, num)` draws `num` first states.
        transition: `transition(rng, t, particles)` draws the state at t for each particle at t - 1.
        log_likelihood: `log_likelihood(t, particles)`: $\log p(y_t \mid x_t)$ of each.
        num_steps: $T$, the number of observations.
        num_particles: $P$.
        log_initial: `log_initial(particles)`: $\log p(x_1)$ of each.
        log_transition: `log_transition(t, before, after)`: $\log p(x_t \mid x_{t-1})$ of each.
        relative_to_prior: Leave out `log_initial` and `log_transition`, for transitions that can
            only be simulated. Densities are then relative to the model's own law of paths: valid
            for a comparison with filters of the *same model* built in this way, and no others.
        proposal: Proposals other than the model's own steps; needs the two densities.
        resampler: As in `aide.ParticleFilter`: the name of a scheme, `aide.smc.EssBelow(...)`, ….
        num_workers: Processes that share the runs (see `aide.PythonAlgorithm`).
        label: A name for tables.

    Returns:
        The filter, run by run in plain Python.

    Example:
        >>> y = np.array([0.2, -0.1, 0.8])
        >>> log_normal = lambda x, m, s: -0.5 * ((x - m) / s) ** 2 - np.log(s * np.sqrt(2 * np.pi))
        >>> filtered = aide.numpy_filter(
        ...     lambda rng, num: rng.normal(size=num),
        ...     lambda rng, t, x: x + 0.5 * rng.normal(size=len(x)),
        ...     lambda t, x: log_normal(y[t], x, 1.0),
        ...     num_steps=3,
        ...     num_particles=20,
        ...     log_initial=lambda x: log_normal(x, 0.0, 1.0),
        ...     log_transition=lambda t, before, after: log_normal(after, before, 0.5),
        ... )
        >>> bool(np.isfinite(aide.estimate(0, filtered, filtered, num_gold=5, num_target=5).value))
        True
    """
    given = [log_initial is not None, log_transition is not None]
    if relative_to_prior and (any(given) or proposal is not None):
        raise ValueError(
            "relative_to_prior=True leaves log_initial, log_transition and proposal out: give "
            "either relative_to_prior=True or the densities."
        )
    if not relative_to_prior and not all(given):
        raise ValueError(
            "log_initial(particles) and log_transition(t, before, after) are needed: the density "
            "of a path is part of log_xi. If the transition can be simulated only, say "
            "relative_to_prior=True and compare filters of this model alone."
        )
    steps = NumpySteps(initial, transition, log_likelihood, log_initial, log_transition, proposal)
    filtered = NumpyFilter(steps, num_steps, num_particles, as_resampler(resampler))
    suffix = ", relative to the prior" if relative_to_prior else ""
    name = label or f"NumPy filter, {num_particles} particles{suffix}"
    return PythonAlgorithm(filtered, num_workers=num_workers, label=name)


@jax.jit
def _compiled_resampler(
    resampler: AbstractResampler, words: Array, log_weights: Array, slot: Array | None
) -> Resampled:
    return resampler(jax.random.wrap_key_data(words, impl="threefry2x32"), log_weights, slot)


def _descend(particles: Value, done: Resampled | PlainResampled) -> tuple[Value, np.ndarray]:
    """The parents of all particles, and the parents' slots."""
    if done.ancestors is None:
        return particles, np.arange(len(done.log_weights))
    ancestors = np.asarray(done.ancestors)
    return jax.tree.map(lambda a: a[ancestors], particles), ancestors


def _place(particles: Value, slot: int, kept: Value) -> Value:
    def overwrite(array: np.ndarray, new: np.ndarray) -> np.ndarray:
        array = array.copy()
        array[slot] = new[0]
        return array

    return jax.tree.map(overwrite, particles, kept)


def _lowered(log_w: np.ndarray, slot: int) -> np.ndarray:
    """Weights in which an infinite retained weight (of a state no run can propose) is 0."""
    if log_w[slot] != np.inf:
        return log_w
    lowered = log_w.copy()
    lowered[slot] = -np.inf
    return lowered


def _draw_index(rng: Rng, log_w: np.ndarray) -> int:
    cumulative = np.cumsum(np.exp(log_w - np.max(log_w)))
    index = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
    return min(int(index), len(log_w) - 1)  # if weights are NaN, so is the evidence: an error
