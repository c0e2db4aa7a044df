r"""Unadjusted annealing: Langevin steps along temperatures, without an accept step or weights.

Step $t$ is one of an unadjusted kernel for
$\log\gamma_\beta = (1-\beta)\log k_1 + \beta\log\gamma$ at $\beta = \beta_t$; the output is the
last position. These are the forward processes of ULA and UHA, MCD and LDVI, which differ in their
guesses of the way back.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.algorithm import Draw, Label
from aide._core.distribution import (
    Distribution,
    LogDensityOf,
    check_distribution,
    log_density_of,
    possible,
    sample_from,
)
from aide._core.keywords import fields, keywords
from aide._core.numerics import all_finite, log_ratio, ravel_reals
from aide._core.random import derive, derive_keys, standard_normal
from aide._core.types import Key, LogDensity, LogProb, Numbers, Value
from aide._core.versions import FEW_STEPS, AbstractAlgorithm
from aide.algorithms.annealed import Tempered, check_schedule
from aide.algorithms.mcmc import Transition
from aide.kernels.langevin import Phase, PhaseDensity, UnderdampedLangevin
from aide.kernels.metropolis import log_standard_normal
from aide.kernels.retrace import Retraceable
from aide.kernels.schedule import (
    AnyKernels,
    KernelSchedule,
    as_kernels,
    check_length,
    stack_kernels,
)
from aide.smc.steps import Steps


@fields("AnnealedLangevin", initial="start")
class AnnealedLangevin(AbstractAlgorithm):
    r"""Start at $x_0 \sim k_1$, make one unadjusted step per temperature, output the last position.

    Meta-inference walks back by the kernels' own guesses, as if each had reached its density, along
    one path: $\xi = k_1(x_0)\prod_t k_t(x_t, v_t \mid x_{t-1}) / g_t(v_t \mid x_t)$. That is the
    bound of ULA and UHA. `aide.refine(key, algorithm)` learns tighter meta-inference.

    With momenta (`UnderdampedLangevin`) one more step draws a new momentum at the end, independent
    of the position: the last momentum of the run is hidden, like all others.

    Args:
        start: $k_1$, with `sample(key)` and `log_prob(x)`.
        log_joint: $\log\gamma$.
        schedule: One kernel per step.
        temperatures: $\beta_t$, one per step, the last one 1.
        label: A name for tables.
    """

    start: Distribution
    log_joint: LogDensity
    schedule: KernelSchedule
    temperatures: np.ndarray | Array
    label: str = eqx.field(converter=Label, default="")

    def __check_init__(self) -> None:
        check_distribution("start", self.start)
        if not isinstance(self.schedule.at(0), Retraceable):
            raise TypeError(
                f"{type(self.schedule.common).__name__} keeps no record of its steps. Use "
                "aide.kernels.Ula or aide.kernels.UnderdampedLangevin."
            )

    @property
    def log_z(self) -> float:
        r"""$\log Z = 0$: $\xi$ is an unbiased estimate of $q(x)$ itself."""
        return 0.0

    @property
    def compile_for_speed(self) -> bool:
        """Whether a longer compilation pays: it does, for steps in a loop."""
        return True

    @property
    def num_steps(self) -> int:
        """Number of steps that move the position."""
        return len(self.temperatures)

    @property
    def has_momenta(self) -> bool:
        """Whether states are positions with momenta."""
        return isinstance(self.schedule.common, UnderdampedLangevin)

    @property
    def state_start(self) -> Distribution:
        """The law of the first state: `start`, and $N(0, I)$ for momenta, if any."""
        return PhaseStart(self.start) if self.has_momenta else self.start

    def steps(self) -> Steps:
        """The transitions; with momenta the last one draws a new momentum."""
        numbers, temperatures = self.schedule.numbers, self.temperatures
        if self.has_momenta:
            numbers = UnderdampedLangevin.ended(numbers)
            temperatures = jnp.append(jnp.asarray(temperatures), 1.0)
        shared = (LogDensityOf(self.start), possible(self.log_joint), self.schedule.common)
        return Steps(LangevinStep(*shared, self.has_momenta), (temperatures, numbers))

    def lift(self, value: Value) -> tuple[Value, LogProb]:
        r"""An output as the last state of the run, and the log density to add to that of the state.

        The last momentum is drawn from $N(0, I)$, independent of the position:
        $q(x) = q(x, p)/N(p; 0, I)$ for every $p$; here $p = 0$.
        """
        if not self.has_momenta:
            return value, jnp.zeros(())
        still = jax.tree.map(jnp.zeros_like, value)
        return Phase(value, still), -log_standard_normal(still)

    def lower(self, state: Value) -> Value:
        """The output of a run, from its last state."""
        return state.position if self.has_momenta else state

    def simulate(self, key: Key) -> Draw:
        r"""Run, and weigh the path: $\log k_1(x_0) + \sum_t \log k_t - \log g_t$."""
        key_start, key_steps = derive_keys(key, 2)
        first = sample_from(self.state_start, key_start)
        steps = self.steps()

        def step(x: Value, inputs: Any) -> tuple[Value, Any]:
            index, inputs = inputs
            move = steps.move_at(inputs)
            y, noise, _ = move.kernel.record(derive(key_steps, index), move.log_density, x)
            return y, (y, noise)

        num = steps.num_steps
        numbered = (jnp.arange(num, dtype=jnp.uint32), steps.inputs)
        last, (after, noise) = jax.lax.scan(step, first, numbered)
        value = self.lower(last)
        # The new momentum at the end is arbitrary; `lift` has chosen 0.
        end, extra = self.lift(value)
        after = jax.tree.map(lambda all, one: all.at[-1].set(one), after, end)

        def weigh(total: Array, inputs: Any) -> tuple[Array, None]:
            inputs, y, noise = inputs
            return total + self._undo(steps, inputs, y, noise)[1], None

        zero = jnp.zeros((), float)
        total, _ = jax.lax.scan(weigh, zero, (steps.inputs, after, noise))
        return Draw(value, total + extra + log_density_of(self.state_start, first))

    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""Walk back from $x$ by the kernels' own guesses; the same sum along that path."""
        end, extra = self.lift(value)
        steps = self.steps()

        def step(carry: tuple[Value, Array], inputs: Any) -> tuple[tuple[Value, Array], None]:
            (y, total), (index, inputs) = carry, inputs
            move = steps.move_at(inputs)
            noise = move.kernel.reverse_noise(derive(key, index), move.log_density, y)
            x, log_w = self._undo(steps, inputs, y, noise)
            return (x, total + log_w), None

        numbered = (jnp.arange(steps.num_steps, dtype=jnp.uint32), steps.inputs)
        carry = (end, jnp.zeros((), float))
        (first, total), _ = jax.lax.scan(step, carry, numbered, reverse=True)
        return total + extra + log_density_of(self.state_start, first)

    def _undo(self, steps: Steps, inputs: Any, y: Value, noise: Value) -> tuple[Value, LogProb]:
        r"""The state before a step, and $\log k - \log g$ of its record."""
        move = steps.move_at(inputs)
        density = move.log_density
        back = move.kernel.retrace(density, y, density(y), noise)
        x = jax.tree.map(lambda leaf: leaf[0], back.value)
        # No run forward has an overflowed state: such a guess has weight 0.
        known = all_finite(x)
        log_w = log_ratio(back.log_forward[0], back.log_own[0])
        stay = jax.tree.map(lambda a, b: jnp.where(known, a, b), x, y)
        return stay, jnp.where(known, log_w, -jnp.inf)

    def shrunk(self) -> dict[str, AbstractAlgorithm]:
        """Few steps, at temperatures chosen evenly from first to last."""
        kept = self.few_steps()
        return {"as given": self} if kept is None else {f"{len(kept)} steps": self.at_steps(kept)}

    def few_steps(self) -> np.ndarray | None:
        """Indices of the steps of a small version; `None` for all."""
        if self.num_steps <= FEW_STEPS:
            return None
        return np.linspace(0, self.num_steps - 1, FEW_STEPS).round().astype(int)

    def at_steps(self, chosen: np.ndarray) -> "AnnealedLangevin":
        """The algorithm with only the chosen steps."""
        return replace(
            self, schedule=self.schedule.pick(chosen), temperatures=self.temperatures[chosen]
        )

    def with_start(self, start: Distribution, label: str = "") -> "AnnealedLangevin":
        """The same steps along the path from another start."""
        return replace(self, start=start, label=label or f"{self.label}, other start")


class LangevinStep(eqx.Module):
    """Builds the transition of one step from its temperature and its kernel's numbers."""

    log_start: LogDensity
    log_end: LogDensity
    kernel: Any
    has_momenta: bool = eqx.field(static=True)

    def __call__(self, inputs: tuple[Any, Any]) -> Transition:
        """Return the kernel, and the density at its temperature."""
        temperature, numbers = inputs
        density: Any = Tempered(self.log_start, self.log_end, temperature)
        density = PhaseDensity(density) if self.has_momenta else density
        return Transition(eqx.combine(numbers, self.kernel), density)


class PhaseStart(eqx.Module):
    r"""A start distribution with momenta $p \sim N(0, I)$."""

    start: Distribution

    def sample(self, key: Key) -> Phase:
        """Draw a position and a momentum."""
        key_position, key_momentum = derive_keys(key, 2)
        position = sample_from(self.start, key_position)
        flat, unravel = ravel_reals(position)
        return Phase(position, unravel(standard_normal(key_momentum, flat.shape, flat.dtype)))

    def log_density(self, state: Phase) -> LogProb:
        r"""$\log k_1(x) + \log N(p; 0, I)$."""
        return log_density_of(self.start, state.position) + log_standard_normal(state.momentum)


@keywords("aide.annealed_langevin")
def annealed_langevin(
    start: Distribution,
    log_joint: LogDensity,
    *,
    kernel: AnyKernels,
    num_steps: int | None = None,
    temperatures: Numbers | None = None,
    label: str = "",
) -> AnnealedLangevin:
    r"""Unadjusted Langevin along temperatures: one step at each, the last position is the output.

    The algorithm has the canonical guess of the way back, as if every kernel had reached its
    density. `aide.refine(key, algorithm)` makes the bound tight.

    Args:
        start: $k_1$, anything with `sample(key)` and `log_prob(x)`, such as a Gaussian fitted to
            the posterior.
        log_joint: $\log\gamma$.
        kernel: `aide.kernels.Ula` or `aide.kernels.UnderdampedLangevin`; or one for every step: a
            list of kernels of one kind, or a `KernelSchedule` from `aide.kernels.stack_kernels`.
        num_steps: Number of temperatures, equally spaced, the last one 1.
        temperatures: Your own increasing schedule in $(0, 1]$, ending at 1; fix it before the run.
        label: A name for tables.

    Returns:
        The algorithm. Its bound is loose until `aide.refine` has learned the way back.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> kernel = aide.kernels.Ula(0.1)
        >>> algorithm = aide.annealed_langevin(prior, log_joint, kernel=kernel, num_steps=5)
        >>> algorithm.simulate(jax.random.key(0)).value.shape
        ()
    """
    schedule = check_schedule(num_steps, temperatures, "num_steps")
    kernels = as_kernels(kernel)
    check_length(kernels, len(schedule), "give one per temperature")
    if not isinstance(kernels, KernelSchedule):
        kernels = stack_kernels([kernels] * len(schedule))
    name = f"annealed Langevin, {len(schedule)} steps"
    return AnnealedLangevin(start, log_joint, kernels, schedule, label or name)
