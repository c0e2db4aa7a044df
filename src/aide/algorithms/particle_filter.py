r"""State-space models, and particle filters that output a whole path.

A model is $x_t \sim p(x_t \mid x_{t-1})$, seen through $y_t \sim p(y_t \mid x_t)$.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.algorithm import Draw, Label
from aide._core.distribution import Distribution, check_distribution, log_density_of, sample_from
from aide._core.numerics import as_parameter, log_ratio
from aide._core.random import derive_keys
from aide._core.types import Key, LogDensity, LogProb, Numbers, Parameter, Value
from aide._core.validate import check_size
from aide._core.versions import (
    FEW_STEPS,
    AbstractAlgorithm,
    ObservedSteps,
    Prefix,
    Shortened,
    Version,
    few_particles,
    rebuilt,
)
from aide.smc.policy import AbstractResampler, EveryStep, as_resampler
from aide.smc.segments import watch_segments
from aide.smc.smc import choose_output, log_xi_of, own_log_xi
from aide.smc.steps import Steps
from aide.smc.sweep import Retained, WeightedParticles, run_segment, slots_of_path, start, take_path


def _as_series(tree: Value) -> Value:
    """Keep integer data (symbols, counts) as integers; store real data in double precision."""
    return jax.tree.map(_as_data, tree, is_leaf=_is_list)


def _as_data(value: Numbers) -> Parameter:
    if isinstance(value, jax.Array):
        return value
    array = np.asarray(value)
    return array if array.dtype.kind in "iub" else as_parameter(array)


def _is_list(tree: object) -> bool:
    """Whether a tree is a plain list of numbers, which is data and not a pytree of scalars."""
    return isinstance(tree, list) and all(isinstance(item, int | float) for item in tree)


class StateSpaceModel(eqx.Module):
    """A model and its data. Distributions are anything with `sample(key)` and `log_prob(x)`.

    Methods of an equinox module as functions let parameters change without a new compilation.

    Args:
        initial: Distribution of the first state.
        transition: `transition(x, t)`: distribution of the state at step t (1 to T - 1) given the
            state x before it.
        observation: `observation(x, t)`: distribution of the observation at step t (0 to T - 1).
        observations: The data, with a leading time axis.

    Example:
        >>> model = aide.StateSpaceModel(
        ...     Normal(0.0, 1.0),
        ...     lambda x, t: Normal(0.9 * x, 0.5),
        ...     lambda x, t: Normal(x, 1.0),
        ...     jnp.array([0.3, -0.2, 1.1]),
        ... )
        >>> aide.ParticleFilter(model, 50).simulate(jax.random.key(0)).value.shape
        (3,)
    """

    initial: Distribution
    transition: Callable[[Value, Any], Distribution]
    observation: Callable[[Value, Any], Distribution]
    observations: Value = eqx.field(converter=_as_series)

    def __check_init__(self) -> None:
        check_distribution("initial", self.initial)
        lengths = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(self.observations)}
        if len(lengths) != 1 or lengths in ({()}, {(0,)}):
            raise ValueError(
                f"observations need one common leading time axis of length 1 or more, got leading "
                f"shapes {sorted(lengths)}."
            )

    @property
    def num_steps(self) -> int:
        """T, the number of observations."""
        return jnp.shape(jax.tree.leaves(self.observations)[0])[0]

    def log_likelihood(self, x: Value, y: Value, t: Array | int) -> LogProb:
        r"""$\log p(y_t \mid x_t)$."""
        return log_density_of(self.observation(x, t), y)

    def log_joint(self, path: Value) -> LogProb:
        r"""$\log p(x_{1:T}, y_{1:T})$ of a whole path."""
        times = jnp.arange(self.num_steps)
        first = jax.tree.map(lambda a: a[0], path)
        before = jax.tree.map(lambda a: a[:-1], path)
        after = jax.tree.map(lambda a: a[1:], path)

        def log_transition(x: Value, y: Value, t: Array | int) -> LogProb:
            return log_density_of(self.transition(x, t), y)

        return (
            log_density_of(self.initial, first)
            + jnp.sum(jax.vmap(log_transition)(before, after, times[1:]))
            + jnp.sum(jax.vmap(self.log_likelihood)(path, self.observations, times))
        )


class Proposal(eqx.Module):
    r"""A proposal other than the model's own transition.

    Args:
        initial: `initial(y)`: distribution of $x_1$ given $y_1$.
        step: `step(x, y, t)`: distribution of $x_t$ given $x_{t-1}$ and $y_t$.

    Example:
        >>> start = Normal(0.0, 1.0)
        >>> states = aide.StateSpaceModel(
        ...     start, lambda x, t: Normal(0.9 * x, 1.0), lambda x, t: Normal(x, 0.5), jnp.ones(4)
        ... )
        >>> proposal = aide.Proposal(lambda y: Normal(0.8 * y, 0.5), lambda x, y, t: Normal(y, 0.5))
        >>> aide.ParticleFilter(states, 20, proposal).simulate(jax.random.key(0)).value.shape
        (4,)
    """

    initial: Callable[[Value], Distribution]
    step: Callable[[Value, Value, Any], Distribution]


class FirstState(eqx.Module):
    """Draws and weighs the first state of a particle filter."""

    model: StateSpaceModel
    proposal: Proposal | None

    def sample(self, key: Key) -> Value:
        """Sample from the proposal, or from the model's initial distribution."""
        return sample_from(self._distribution(), key)

    def log_weight(self, x: Value) -> LogProb:
        r"""$\log p(x_1) p(y_1 \mid x_1) / k(x_1)$."""
        log_w = self.model.log_likelihood(x, _at(self.model.observations, 0), jnp.asarray(0))
        if self.proposal is None:
            return log_w
        log_prior = log_density_of(self.model.initial, x)
        return log_ratio(log_prior + log_w, log_density_of(self._distribution(), x))

    def _distribution(self) -> Distribution:
        if self.proposal is None:
            return self.model.initial
        return self.proposal.initial(_at(self.model.observations, 0))


class Extend(eqx.Module):
    """Extends a path by one state, given the last state alone; backward drops the new one."""

    model: StateSpaceModel
    proposal: Proposal | None
    y: Value
    t: Array | int

    def forward(self, key: Key, x: Value) -> tuple[Value, LogProb]:
        """Sample the next state and weigh it."""
        after = sample_from(self._distribution(x), key)
        return after, self.log_weight(x, after)

    def log_weight(self, x: Value, after: Value) -> LogProb:
        r"""$\log p(x_t \mid x_{t-1}) p(y_t \mid x_t) / k(x_t; x_{t-1}, y_t)$."""
        log_w = self.model.log_likelihood(after, self.y, self.t)
        if self.proposal is None:
            return log_w
        log_transition = log_density_of(self.model.transition(x, self.t), after)
        return log_ratio(log_transition + log_w, log_density_of(self._distribution(x), after))

    def _distribution(self, x: Value) -> Distribution:
        if self.proposal is None:
            return self.model.transition(x, self.t)
        return self.proposal.step(x, self.y, self.t)


def _at(tree: Value, index: int) -> Value:
    return jax.tree.map(lambda a: jnp.asarray(a)[index], tree)


class FilterVersions:
    """Shared methods of filters with `num_particles` over `num_steps` observations.

    The output is the whole path, so that the filter after some of the observations
    (`first_steps(num)`) is again a filter.
    """

    def shrunk(self: Any) -> dict[str, Version]:
        """Few particles, on the first few observations."""
        short = Shortened(self)
        if self.num_steps > FEW_STEPS:
            words = f", first {FEW_STEPS} observations"
            short = Shortened(self.first_steps(FEW_STEPS), words)
        return few_particles(self, short, self.num_steps)

    def prefixes(self: Any) -> list[Prefix]:
        """The filter after each observation, with one particle."""
        one, total = rebuilt(self, num_particles=1), self.num_steps
        return [
            (f"step {num} of {total} (Extend)", lambda num=num: one.first_steps(num))
            for num in range(1, total + 1)
        ]

    def determines_trace(self: Any) -> bool:
        """Whether there is only one particle: its path is the output."""
        return self.num_particles == 1


class ParticleFilter(FilterVersions, AbstractAlgorithm):
    r"""SMC on paths $x_{1:T}$; $\xi = p(x_{1:T}, y_{1:T})/\hat p(y_{1:T})$, $Z = 1$.

    Moves depend on the last state only, so paths are not copied: `simulate` stores the genealogy
    and traces one path back (memory $O(PT)$), `regenerate` needs $O(P + T)$.

    Args:
        model: The state-space model with its observations.
        num_particles: $P$.
        proposal: Proposals; by default the transition (the bootstrap filter).
        resampler: An `EveryStep`, `EssBelow` or `Never`, or the name of a scheme for every step; by
            default multinomial at every step.
        label: A name for tables.

    Example:
        >>> river = aide.problems.nile()
        >>> bootstrap = aide.ParticleFilter(river.state_space(), 100)
        >>> better = aide.ParticleFilter(river.state_space(), 100, river.optimal_proposal())
        >>> bootstrap.simulate(jax.random.key(0)).value.shape  # a path of 100 years
        (100,)
    """

    model: StateSpaceModel
    num_particles: int = eqx.field(static=True)
    proposal: Proposal | None = None
    resampler: AbstractResampler = eqx.field(converter=as_resampler, default=EveryStep())
    label: str = eqx.field(converter=Label, default="")

    def __check_init__(self) -> None:
        check_size("num_particles", self.num_particles)

    @property
    def log_z(self) -> float:
        r"""$\log Z = 0$."""
        return 0.0

    @property
    def log_joint(self) -> LogDensity:
        r"""$\log p(x_{1:T}, y_{1:T})$ of a path."""
        return self.model.log_joint

    def simulate(self, key: Key) -> Draw:
        """Filter, draw a final particle by weight, trace its path back through the genealogy."""
        key_start, key_steps, key_output = derive_keys(key, 3)
        first = FirstState(self.model, self.proposal)
        population = start(key_start, first.sample, first.log_weight, self.num_particles, None)
        states = jax.tree.map(lambda a: a[None], population.particles)
        ancestors = None
        if self.model.num_steps > 1:
            population, (later, ancestors) = run_segment(
                key_steps, self._steps(), self.resampler, population, None, _particles
            )
            states = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), states, later)
        chosen = choose_output(key_output, population)
        path = take_path(states, slots_of_path(ancestors, chosen, self.model.num_steps))
        return Draw(path, own_log_xi(self.model.log_joint(path), population))

    def observe_steps(self, key: Key) -> tuple[ObservedSteps, ...]:
        """Diagnostics of the steps of the run that `simulate` makes with this key."""
        key_start, key_steps, _ = derive_keys(key, 3)
        first = FirstState(self.model, self.proposal)
        population = start(key_start, first.sample, first.log_weight, self.num_particles, None)
        segments = [(key_steps, self._steps())] if self.model.num_steps > 1 else []
        return watch_segments(population, segments, self.resampler)

    def regenerate(self, key: Key, value: Value) -> LogProb:
        """Conditional SMC (Andrieu, Doucet & Holenstein 2010) around the given path."""
        key_start, key_steps = derive_keys(key, 2)
        first = FirstState(self.model, self.proposal)
        x_first = jax.tree.map(lambda a: a[0], value)
        population = start(key_start, first.sample, first.log_weight, self.num_particles, x_first)
        if self.model.num_steps > 1:
            steps = self._steps()
            before = jax.tree.map(lambda a: a[:-1], value)
            after = jax.tree.map(lambda a: a[1:], value)
            log_w = jax.vmap(lambda inputs, x, y: steps.move_at(inputs).log_weight(x, y))(
                steps.inputs, before, after
            )
            population, _ = run_segment(
                key_steps, steps, self.resampler, population, Retained(after, log_w)
            )
        return log_xi_of(self.model.log_joint(value), population)

    @property
    def num_steps(self) -> int:
        """Number of observations."""
        return self.model.num_steps

    def first_steps(self, num: int) -> "ParticleFilter":
        """The filter after the first `num` observations."""
        data = jax.tree.map(lambda a: a[:num], self.model.observations)
        return replace(self, model=replace(self.model, observations=data))

    def _steps(self) -> Steps:
        later = jax.tree.map(lambda a: jnp.asarray(a)[1:], self.model.observations)
        times = jnp.arange(1, self.model.num_steps)
        return Steps(_ExtendAt(self.model, self.proposal), (later, times))


class _ExtendAt(eqx.Module):
    model: StateSpaceModel
    proposal: Proposal | None

    def __call__(self, inputs: tuple[Value, Array]) -> Extend:
        return Extend(self.model, self.proposal, *inputs)


def _particles(population: WeightedParticles) -> Value:
    return population.particles
