"""Particle filters that output a whole path."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from aide._core.algorithm import Draw, Label
from aide._core.random import derive_keys
from aide._core.types import Key, LogDensity, LogProb, Value
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
from aide.algorithms.state_space import Extend, FirstState, Proposal, StateSpaceModel
from aide.smc.moves import Steps
from aide.smc.policy import AbstractResampler, EveryStep, as_resampler
from aide.smc.segments import watch_segments
from aide.smc.smc import choose_output, log_xi_of, refuse_zero
from aide.smc.sweep import Retained, WeightedParticles, run_segment, slots_of_path, start, take_path


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
        return Draw(
            path, refuse_zero(log_xi_of(self.model.log_joint(path), population), population)
        )

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
