"""Markov chains as inference algorithms."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from aide._core.algorithm import Draw, Label, describe
from aide._core.distribution import Distribution, SampleFrom, check_distribution, possible
from aide._core.keywords import fields, keywords
from aide._core.random import derive, derive_keys
from aide._core.types import Key, LogDensity, LogProb, Value
from aide._core.validate import MAX_SIZE, check_size
from aide._core.versions import (
    AbstractAlgorithm,
    KernelUse,
    ObservedMove,
    ObservedSteps,
    Prefix,
    Version,
)
from aide.kernels.kernel import (
    AbstractKernel,
    AnyKernel,
    as_invariant,
    check_instance,
    lacks_reversal,
    observe_kernel,
)
from aide.kernels.langevin import UnderdampedLangevin
from aide.kernels.schedule import AnyKernels, KernelSchedule, as_kernels, check_length, take
from aide.smc.moves import Rejuvenate
from aide.smc.policy import Never
from aide.smc.segments import watch_segments
from aide.smc.smc import Smc
from aide.smc.steps import AbstractMoveAt, Constant, Steps
from aide.smc.sweep import start


@fields("MarkovChain", initial="start")
class MarkovChain(AbstractAlgorithm):
    r"""Start at $x_0 \sim k_1$, make `num_steps` transitions, output the last state.

    With canonical meta-inference this is formally AIS with a single jump in temperature:
    $\xi = \gamma(x_T)\,k_1(x_0)/\gamma(x_0)$, and `regenerate` runs the reversed kernel from $x_T$,
    as if the chain were in equilibrium. The bound then never falls below the divergence of the
    *start* (Cusumano-Towner & Mansinghka 2017, Figure 2). A kernel without a reversal has no
    canonical meta-inference. `aide.refine(key, chain)` learns better meta-inference for both.

    Args:
        start: $k_1$, with `sample(key)` and `log_density(x)`.
        log_joint: $\log\gamma$, which the kernel leaves invariant (unless it is unadjusted).
        kernel: The transition, or a `KernelSchedule` with at least one kernel per step.
        num_steps: Number of transitions; 0 returns the start.
        label: A name for tables.

    Example:
        >>> posterior = Normal(1.0, 0.5)
        >>> kernel = aide.kernels.RandomWalk(0.9)
        >>> chain = aide.algorithms.MarkovChain(Normal(0.0, 3.0), posterior.log_prob, kernel, 10)
        >>> chain.with_steps(20).num_steps
        20
    """

    start: Distribution
    log_joint: LogDensity
    kernel: AnyKernel | KernelSchedule
    num_steps: int = eqx.field(static=True)
    label: str = eqx.field(converter=Label, default="")

    def __check_init__(self) -> None:
        check_size("num_steps", self.num_steps, 0)
        check_distribution("start", self.start)
        check_instance(self.kernel)
        common = self.kernel.common if isinstance(self.kernel, KernelSchedule) else self.kernel
        if isinstance(common, UnderdampedLangevin):
            raise ValueError(
                "kernel must move the state alone, got UnderdampedLangevin, which moves a position "
                "and a momentum: use aide.annealed_langevin, which draws momenta, or "
                "aide.kernels.Ula, or aide.kernels.Hmc, whose momenta are its own."
            )
        if isinstance(self.kernel, KernelSchedule) and self.kernel.num_kernels < self.num_steps:
            raise ValueError(
                f"num_steps = {self.num_steps}, but there are kernels for "
                f"{self.kernel.num_kernels} steps: stack as many as there are steps."
            )

    @property
    def log_z(self) -> float:
        r"""$\log Z = 0$: $\xi$ is an unbiased estimate of $q(x)$ itself."""
        return 0.0

    @property
    def compile_for_speed(self) -> bool:
        """Whether a longer compilation pays: it does, for transitions in a loop."""
        return True

    def canonical(self) -> Smc:
        """The chain with canonical meta-inference: SMC with one particle and no weights.

        Raises:
            ValueError: If the kernel has no reversal.
        """
        shared = self.kernel.common if isinstance(self.kernel, KernelSchedule) else self.kernel
        lacking = lacks_reversal(shared)
        if isinstance(lacking, AbstractKernel):
            raise ValueError(
                f"{type(lacking).__name__} has no reversal, so that {describe(self)} has no "
                "canonical meta-inference. Learn one: aide.refine(key, chain)."
            )
        as_invariant(shared)
        steps = self.steps(Rejuvenate)
        first = possible(self.log_joint)
        return Smc(self.start, (steps,), self.log_joint, 1, first, label=self.label)

    def steps(self, build: Callable[[Any, LogDensity], Any]) -> Steps:
        """The transitions; `build(kernel, log_joint)` makes a transition of a kernel."""
        log_density = possible(self.log_joint)
        if not isinstance(self.kernel, KernelSchedule):
            return Steps(Constant(build(self.kernel, log_density)), num_steps=self.num_steps)
        schedule = self.kernel.pick(slice(self.num_steps))
        return Steps(ScheduledStep(build, schedule.common, log_density), schedule.numbers)

    def simulate(self, key: Key) -> Draw:
        r"""Run the chain; return its last state and $\log\gamma(x_T)\,k_1(x_0)/\gamma(x_0)$."""
        return self.canonical().simulate(key)

    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""Run the reversed kernel from $x_T$ to $x_0$; $\log\gamma(x_T)\,k_1(x_0)/\gamma(x_0)$."""
        return self.canonical().regenerate(key, value)

    def observe_steps(self, key: Key) -> tuple[ObservedSteps, ...]:
        """Diagnostics of the steps of the run that `simulate` makes with this key; no weights."""
        key_start, key_moves, _ = derive_keys(key, 3)
        even = lambda x: jnp.zeros(())
        first = start(key_start, SampleFrom(self.start), even, 1, None)
        segments = [(derive(key_moves, 0), self.steps(Transition))]
        *_, steps = watch_segments(first, segments, Never())
        return (steps._replace(log_evidence=None),)

    def with_steps(self, num_steps: int, label: str = "") -> "MarkovChain":
        """The same chain with another number of steps."""
        is_plain = self.label in ("", plain_label(self.num_steps))
        other = plain_label(num_steps) if is_plain else f"{self.label}, {num_steps} steps"
        return dataclasses.replace(self, num_steps=num_steps, label=label or other)

    def with_budget(self, factor: float) -> "MarkovChain | None":
        """The chain with `factor` times its steps, for `aide.audit`.

        `None` if that is less than one step, or more than there are kernels.
        """
        num_steps, max_steps = int(self.num_steps * factor), MAX_SIZE
        if isinstance(self.kernel, KernelSchedule):
            max_steps = self.kernel.num_kernels
        return self.with_steps(num_steps) if 1 <= num_steps <= max_steps else None

    def shrunk(self) -> dict[str, Version]:
        """Few steps, with canonical meta-inference."""
        return self.canonical().shrunk()

    def prefixes(self) -> list[Prefix]:
        """The chain after each of its steps."""
        return self.canonical().prefixes()

    def kernels(self) -> list[KernelUse]:
        """The kernel with its density; of a schedule, some kernels (see `ScheduledStep`)."""
        return self.steps(Transition).kernels() or []

    def with_start(self, start: Distribution, label: str = "") -> "MarkovChain":
        """The same chain from another start, with `sample(key)` and a normalised `log_prob(x)`."""
        name = label or f"{describe(self)}, other start"
        return dataclasses.replace(self, start=start, label=name)


class Transition(eqx.Module):
    """A kernel, with or without a reversal, and the density for which it steps."""

    kernel: Any
    log_density: LogDensity

    def observe_move(self, key: Key, x: Value) -> ObservedMove:
        """A step, with its acceptance rates and its squared jump."""
        return observe_kernel(key, self.kernel, self.log_density, x)

    def kernels(self) -> list[KernelUse]:
        """The kernel."""
        return [(self.kernel, self.log_density)]


class ScheduledStep(AbstractMoveAt):
    """Builds the step of a chain from the numbers of its kernel.

    Args:
        build: Makes a step of a kernel and the density.
        kernel: The part that all kernels share.
        log_density: The density.
    """

    build: Callable[[Any, LogDensity], Any] = eqx.field(static=True)
    kernel: Any
    log_density: LogDensity

    def __call__(self, inputs: Any) -> Any:
        """Return the step whose kernel has these numbers."""
        return self.build(eqx.combine(inputs, self.kernel), self.log_density)

    def shortened(self, inputs: Any, num_steps: int) -> Steps:
        """The first few steps; each step leads from the density to the same density."""
        return Steps(self, take(inputs, slice(num_steps)))

    def with_start(self, start: Distribution) -> "ScheduledStep":
        """The builder itself, which does not depend on the start."""
        return self

    def kernels(self, inputs: Any) -> list[KernelUse]:
        """The first kernel, a middle one and the last."""
        schedule = KernelSchedule(inputs, self.kernel)
        num = schedule.num_kernels
        return [(schedule.at(i), self.log_density) for i in sorted({0, num // 2, num - 1} - {-1})]


def plain_label(num_steps: int) -> str:
    """The default name of a chain."""
    return f"MCMC, {num_steps} steps"


@keywords("aide.mcmc")
def mcmc(
    start: Distribution,
    log_joint: LogDensity,
    *,
    kernel: AnyKernels,
    num_steps: int,
    label: str = "",
) -> MarkovChain:
    r"""Start at $x_0 \sim k_1$, make `num_steps` transitions, output the last state.

    The chain has canonical meta-inference, which is loose: the bound never falls below the
    divergence of the start. `aide.refine(key, chain)` makes it tight, and is needed for kernels
    without a reversal (`Ula`, `Sgld`).

    Args:
        start: $k_1$, with `sample(key)` and `log_density(x)`.
        log_joint: $\log\gamma$, which the kernel leaves invariant (unless it is unadjusted). A
            proposal with a value of NaN or $+\infty$ is rejected; see `aide.algorithms.strict`.
        kernel: The transition; or one for every step: a list of kernels of one kind, or a
            `KernelSchedule` from `aide.kernels.stack_kernels`.
        num_steps: Number of transitions; 0 returns the start.
        label: A name for tables.

    Returns:
        The chain, whose output is its last state.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> chain = aide.mcmc(prior, log_joint, kernel=aide.kernels.RandomWalk(0.9), num_steps=20)
        >>> chain.with_steps(5).num_steps
        5
    """
    check_size("num_steps", num_steps, 0)
    kernels = as_kernels(kernel)
    check_length(kernels, num_steps, "give one per step")
    return MarkovChain(start, log_joint, kernels, num_steps, label or plain_label(num_steps))
