"""SMC samplers as inference algorithms."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike

from aide._core.algorithm import Draw, Label, describe
from aide._core.distribution import (
    Distribution,
    SampleFrom,
    check_distribution,
    log_density_of,
)
from aide._core.keywords import fields
from aide._core.numerics import as_log, log_ratio, scaled_exp
from aide._core.random import derive, derive_keys, draw_index
from aide._core.types import Key, LogDensity, LogProb, Value
from aide._core.validate import check_scalar, check_size, raise_if, refuse_unresolved
from aide._core.versions import (
    FEW_STEPS,
    AbstractAlgorithm,
    KernelUse,
    NoSuchVersion,
    ObservedSteps,
    Prefix,
    Shortened,
    Version,
    few_particles,
)
from aide.smc.moves import WeightedMove
from aide.smc.policy import AbstractResampler, EveryStep, as_resampler
from aide.smc.segments import (
    count_moves,
    first_moves,
    kernels_in,
    move_prefixes,
    moves_from,
    no_density,
    shorten_moves,
    watch_segments,
)
from aide.smc.steps import Steps
from aide.smc.sweep import (
    RecordedRun,
    Retained,
    WeightedParticles,
    record_path,
    run_segment,
    start,
    total_log_evidence,
    walk_back,
)

ALL_ZERO = (
    "all particle weights are zero: no particle has positive density, so the algorithm has no "
    "output. Use more particles, a proposal with heavier tails, or check that the log density is "
    "finite where start puts its mass (-inf and NaN count as density zero)."
)


@fields("Smc", initial="start")
class Smc(AbstractAlgorithm):
    r"""The SMC sampler of Del Moral, Doucet & Jasra (2006) with one particle drawn as output.

    $x_1^i \sim k_1$ with weight $\gamma_1/k_1$; then, for every move, resample and move forward;
    finally draw one particle by weight. $\xi(u, x) = \gamma_T(x)/\hat p$ with
    $\hat p = \prod_t \frac1P\sum_i w_t^i$, and $Z = 1$. With no moves this is importance sampling
    with resampling (SIR); with `num_particles=1`, annealed importance sampling.

    Args:
        start: $k_1$, anything with `sample(key)` and `log_prob(x)` or `log_density(x)`.
        moves: `WeightedMove`s and `Steps`, in order. The space may change from one to the next.
        log_joint: $\log\gamma_T$, the unnormalised density of the output.
        num_particles: $P$.
        log_first: $\log\gamma_1$; by default that of $k_1$ with moves, of $\gamma_T$ without.
        resampler: An `EveryStep`, `EssBelow` or `Never`, or the name of a scheme for every step.
        label: A name for tables.

    Example:
        >>> start, log_joint = Normal(0.0, 2.0), lambda x: -x * x
        >>> moves = [
        ...     aide.smc.Reweight(start.log_prob, log_joint),
        ...     aide.smc.Rejuvenate(aide.kernels.RandomWalk(0.5), log_joint),
        ... ]
        >>> smc = aide.smc.Smc(
        ...     start, moves, log_joint=log_joint, num_particles=10, log_first=start.log_prob
        ... )
        >>> smc
        Smc, 10 particles
    """

    start: Distribution
    moves: tuple[WeightedMove | Steps, ...]
    log_joint: LogDensity
    num_particles: int = eqx.field(static=True)
    log_first: LogDensity | None = None
    resampler: AbstractResampler = eqx.field(converter=as_resampler, default=EveryStep())
    label: str = eqx.field(converter=Label, default="")

    def __check_init__(self) -> None:
        check_size("num_particles", self.num_particles)
        check_distribution("start", self.start)
        for move in self.moves:
            if not isinstance(move, Steps | WeightedMove):
                raise TypeError(
                    f"every entry of moves needs forward(key, x) and backward(key, y) or must be "
                    f"Steps, got {type(move).__name__}."
                )

    @property
    def log_z(self) -> float:
        r"""$\log Z = 0$: $\xi$ is an unbiased estimate of $q(x)$ itself."""
        return 0.0

    @property
    def compile_for_speed(self) -> bool:
        """Whether there are moves, whose run time repays a longer compilation."""
        return bool(self.moves)

    def simulate(self, key: Key) -> Draw:
        r"""Run SMC; return a particle drawn by weight and $\log\gamma_T(x) - \log\hat p$."""
        _, population, chosen, _ = self._forward(key, None)
        x = jax.tree.map(lambda a: a[chosen], population.particles)
        log_joint = check_scalar("log_joint", self.log_joint(x))
        return Draw(x, own_log_xi(log_joint, population))

    def record(self, key: Key) -> RecordedRun:
        """The run that `simulate` makes with the same key, with all populations and its path.

        All moves must be `Steps` on states of one structure and shape.
        """
        first, _, chosen, segments = self._forward(key, lambda population: population)
        return record_path(first, segments, chosen)

    def _forward(
        self, key: Key, keep: Callable[[WeightedParticles], Any] | None
    ) -> tuple[WeightedParticles, WeightedParticles, Any, list[Any]]:
        """The first and last population, the slot of the output, and records per segment."""
        key_start, key_moves, key_output = derive_keys(key, 3)
        initial = SampleFrom(self.start)
        first = start(key_start, initial, self.log_first_weight, self.num_particles, None)
        population, segments = first, []
        for index, segment in enumerate(self.moves):
            subkey = derive(key_moves, index)
            population, kept = run_segment(subkey, segment, self.resampler, population, None, keep)
            segments.append(kept)
        return first, population, choose_output(key_output, population), segments

    def observe_steps(self, key: Key) -> tuple[ObservedSteps, ...]:
        """Diagnostics of the steps of the run that `simulate` makes with this key."""
        key_start, key_moves, _ = derive_keys(key, 3)
        initial = SampleFrom(self.start)
        first = start(key_start, initial, self.log_first_weight, self.num_particles, None)
        segments = [(derive(key_moves, index), move) for index, move in enumerate(self.moves)]
        return watch_segments(first, segments, self.resampler)

    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""Walk backward from $x$, rerun SMC around that path; $\log\gamma_T(x) - \log\hat p$.

        $-\infty$ if $x$, or the path sampled backward from it, has weight zero somewhere.
        """
        key_back, key_start, key_moves = derive_keys(key, 3)
        x, path = value, list[Retained]()
        for index, segment in reversed(list(enumerate(self.moves))):
            x, retained = walk_back(derive(key_back, index), segment, x)
            path.insert(0, retained)
        initial = SampleFrom(self.start)
        population = start(key_start, initial, self.log_first_weight, self.num_particles, x)
        for index, (segment, retained) in enumerate(zip(self.moves, path, strict=True)):
            subkey = derive(key_moves, index)
            population, _ = run_segment(subkey, segment, self.resampler, population, retained)
        return log_xi_of(self.log_joint(value), population)

    def log_first_weight(self, x: Value) -> LogProb:
        r"""$\log\gamma_1(x)/k_1(x)$, the weight of a particle at the start."""
        log_first = self.log_first
        if log_first is None:
            if self.moves:
                return jnp.zeros(())
            log_first = self.log_joint
        first = check_scalar("log_first" if self.log_first else "log_joint", log_first(x))
        return log_ratio(first, log_density_of(self.start, x))

    def shrunk(self) -> dict[str, Version]:
        """Few particles, and few steps between the same densities (if impossible, first moves)."""
        num_steps = max(count_moves(self.moves), 1)
        return few_particles(self, self._shortened(FEW_STEPS), num_steps)

    def with_start(self, start: Distribution, label: str = "") -> "Smc":
        """The algorithm from another start.

        The output's density stays the same; an annealing path leads from the new start to it.

        Args:
            start: The new start, with `sample(key)` and a normalised `log_prob(x)`.
            label: A name for tables.
        """
        check_distribution("start", start)
        moves = moves_from(self.moves, start)
        if moves is None:
            raise NoSuchVersion(
                f"with_start cannot tell whether the moves of {describe(self)} depend on its "
                "start: build the algorithm with another start yourself."
            )
        follow = getattr(self.log_first, "with_start", None)
        log_first = follow(start) if callable(follow) else self.log_first
        name = label or f"{describe(self)}, other start"
        return replace(self, start=start, log_first=log_first, moves=moves, label=name)

    def prefixes(self) -> list[Prefix]:
        """The algorithm after each of its moves, with one particle."""
        one = replace(self, num_particles=1, log_joint=no_density)
        return [
            (name, lambda moves=moves: replace(one, moves=moves))
            for name, moves in move_prefixes(self.moves)
        ]

    def kernels(self) -> list[KernelUse]:
        """MCMC kernels with their densities, up to the first move that may change the space."""
        return kernels_in(self.moves)

    def determines_trace(self) -> bool:
        """Whether the algorithm has one particle and no moves."""
        return self.num_particles == 1 and not self.moves

    def _shortened(self, max_steps: int) -> Shortened:
        moves = shorten_moves(self.moves, max_steps)
        if moves is None:
            moves = first_moves(self.moves, max_steps)
            first = replace(self, moves=moves, log_joint=no_density)
            return Shortened(first, ", first moves", has_density=False)
        if count_moves(moves) == count_moves(self.moves):
            return Shortened(self)
        return Shortened(replace(self, moves=moves), f", {max_steps} steps")


def choose_output(key: Key, population: WeightedParticles) -> ArrayLike:
    """Index of one particle, drawn by weight."""
    if population.log_weights.shape[0] == 1:
        return 0
    weights, _ = scaled_exp(population.log_weights)
    return draw_index(key, weights)


def log_xi_of(log_joint: ArrayLike, population: WeightedParticles) -> LogProb:
    r"""$\log\gamma_T(x) - \log\hat p$; $-\infty$ where the retained path has weight 0."""
    log_evidence = total_log_evidence(population)
    log_evidence = jnp.where(log_evidence == jnp.inf, jnp.nan, log_evidence)
    log_xi = as_log(log_joint) - log_evidence
    if population.retained is None:
        return log_xi
    broken = jnp.isnan(log_evidence) | jnp.isnan(log_joint)
    return jnp.where(population.possible | broken, log_xi, -jnp.inf)


def own_log_xi(log_joint: ArrayLike, population: WeightedParticles) -> LogProb:
    r"""$\log\xi$ of a free run.

    Raises if all particles ended with weight 0, or double precision does not resolve the density.
    """
    dead = population.log_evidence + jnp.max(population.log_weights) == -jnp.inf
    log_xi = raise_if(log_xi_of(log_joint, population), dead, ALL_ZERO)
    return refuse_unresolved(log_xi, log_joint)
