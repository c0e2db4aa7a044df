r"""Particle filters in NumPy, from step functions, with their conditional filters."""

from dataclasses import dataclass, field, replace
from typing import Self

import jax
import numpy as np
from jaxtyping import Array

from aide._core.numerics import row_log_mean_exp
from aide._core.types import Value
from aide._core.validate import check_size
from aide.algorithms.existing_code import PythonAlgorithm
from aide.algorithms.numpy_steps import (
    Draw,
    Move,
    NumpyProposal,
    NumpySteps,
    Rng,
    Score,
    states_of,
)
from aide.algorithms.particle_filter import FilterVersions
from aide.smc.policy import AbstractResampler, Resampled, as_resampler
from aide.smc.smc import ALL_ZERO


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
        return path, self.steps.log_joint(path, self.num_steps) - log_evidence

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

    def _resample(self, rng: Rng, log_w: np.ndarray, slot: int | None) -> Resampled:
        words = rng.integers(2**32, size=2, dtype=np.uint32)
        retained = None if slot is None else np.int32(slot)
        with jax.enable_x64(True):
            return _compiled_resampler(self.resampler, words, log_w, retained)


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


def _descend(particles: Value, done: Resampled) -> tuple[Value, np.ndarray]:
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
