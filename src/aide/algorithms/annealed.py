r"""Annealing from a distribution one can sample to a posterior: tempered SMC and AIS.

Path: $\log\gamma_\beta(x) = (1-\beta)\log k_1(x) + \beta\log\gamma(x)$. Step $t$ moves by a kernel
invariant for $\gamma_{\beta_{t-1}}$ and then reweights to $\gamma_{\beta_t}$.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.distribution import (
    Distribution,
    LogDensityOf,
    as_written,
    check_distribution,
    possible,
)
from aide._core.jax_compat import is_traced
from aide._core.keywords import keywords
from aide._core.numerics import as_log, as_parameter, log_ratio
from aide._core.types import Key, LogDensity, LogProb, Numbers, Parameter, Value
from aide._core.validate import check_scalar, check_size
from aide._core.versions import KernelUse, ObservedMove
from aide.kernels.kernel import InvariantKernel, as_invariant, observe_kernel
from aide.kernels.schedule import (
    InvariantKernels,
    KernelSchedule,
    as_kernels,
    check_length,
    take,
)
from aide.smc.moves import AbstractMove, Rejuvenate
from aide.smc.policy import AbstractResampler, EveryStep, as_resampler
from aide.smc.smc import Smc
from aide.smc.steps import AbstractMoveAt, Steps


class Tempered(eqx.Module):
    r"""$\log\gamma_\beta$ as a function of $x$; each end depends on its own density alone.

    Args:
        log_start: Log density at temperature 0.
        log_end: Log density at temperature 1.
        temperature: $\beta$: the result is $(1-\beta)$ times the first plus $\beta$ times the
            second.

    Example:
        >>> broad, narrow = Normal(0.0, 3.0), Normal(1.0, 0.5)
        >>> half = aide.algorithms.Tempered(broad.log_prob, narrow.log_prob, 0.5)
        >>> bool(half(1.0) == 0.5 * broad.log_prob(1.0) + 0.5 * narrow.log_prob(1.0))
        True
    """

    log_start: LogDensity
    log_end: LogDensity
    temperature: Parameter = eqx.field(converter=as_parameter)

    def __call__(self, x: Value) -> LogProb:
        """Evaluate the tempered log density."""
        start = as_log(self.log_start(x))
        end = check_scalar("log_joint", self.log_end(x))
        # At the ends the other density does not count even where it is 0: 0 * log(0) = 0.
        first = jnp.where(self.temperature == 1.0, 0.0, (1.0 - self.temperature) * start)
        return first + jnp.where(self.temperature == 0.0, 0.0, self.temperature * end)

    def with_start(self, start: Distribution) -> "Tempered":
        """The density at the same temperature on the path from another start."""
        return replace(self, log_start=LogDensityOf(start))


class AnnealingStep(AbstractMoveAt):
    r"""A kernel at $\beta_{t-1}$, then the weight $(\gamma/k_1)^{\beta_t-\beta_{t-1}}$.

    Inputs of a step are $\beta_{t-1}$, $\beta_t$ and, where kernels change along the path, the
    numbers of its kernel; `kernel` is then the part that all kernels share.
    """

    log_start: LogDensity
    log_end: LogDensity
    kernel: InvariantKernel

    def __check_init__(self) -> None:
        as_invariant(self.kernel)  # a kernel without a reversal is an error here, not in a run

    def __call__(self, inputs: tuple[Any, ...]) -> "AnnealingMove":
        """The move between two successive temperatures."""
        return AnnealingMove(self, *inputs)

    def shortened(self, inputs: tuple[Any, ...], num_steps: int) -> Steps:
        """At most `num_steps` steps, at evenly chosen temperatures from the first to the last."""
        before, after, *numbers = inputs
        knots = np.append(np.asarray(before), np.asarray(after)[-1])
        chosen = np.linspace(0, len(knots) - 1, num_steps + 1).round().astype(int)
        path = (knots[chosen[:-1]], knots[chosen[1:]])
        return Steps(self, (*path, *(take(part, chosen[:-1]) for part in numbers)))

    def with_start(self, start: Distribution) -> "AnnealingStep":
        """The path from another start."""
        return replace(self, log_start=LogDensityOf(start))

    def kernels(self, inputs: tuple[Any, ...]) -> list[KernelUse]:
        """The kernel at the first temperature; if kernels change, the first, a middle, the last."""
        num = len(inputs[0])
        places = sorted({0, num // 2, num - 1}) if len(inputs) > 2 else [0]
        moves = [self(take(inputs, place)) for place in places]
        return [(move.kernel, move.log_density) for move in moves]


class AnnealingMove(AbstractMove):
    """One step of an annealing path as a weighted move."""

    step: AnnealingStep
    before: Parameter
    after: Parameter
    numbers: Any = None

    @property
    def kernel(self) -> InvariantKernel:
        """The kernel of the step."""
        if self.numbers is None:
            return self.step.kernel
        return eqx.combine(self.numbers, self.step.kernel)

    @property
    def log_density(self) -> Tempered:
        r"""$\log\gamma_{\beta_{t-1}}$, which the kernel leaves invariant."""
        return Tempered(self.step.log_start, self.step.log_end, self.before)

    def forward(self, key: Key, x: Value) -> tuple[Value, LogProb]:
        r"""Move by the kernel at $\beta_{t-1}$; weigh $y$."""
        y, _ = Rejuvenate(self.kernel, self.log_density).forward(key, x)
        return y, self.log_weight(y)

    def backward(self, key: Key, y: Value) -> tuple[Value, LogProb]:
        r"""Move by the kernel's reversal at $\beta_{t-1}$; weigh $y$."""
        x, _ = Rejuvenate(self.kernel, self.log_density).backward(key, y)
        return x, self.log_weight(y)

    def observe_move(self, key: Key, x: Value) -> ObservedMove:
        """The kernel's step, its temperature, and the weight."""
        moved = observe_kernel(key, self.kernel, self.log_density, x)
        temperature = jnp.asarray(self.before, float)
        return moved._replace(log_weight=self.log_weight(moved.value), temperature=temperature)

    def log_weight(self, y: Value) -> LogProb:
        r"""$(\beta_t - \beta_{t-1}) \log\{\gamma(y)/k_1(y)\}$."""
        ratio = log_ratio(self.step.log_end(y), self.step.log_start(y))
        return jnp.asarray((self.after - self.before) * ratio)


@keywords("aide.tempered_smc")
def tempered_smc(
    start: Distribution,
    log_joint: LogDensity,
    *,
    kernel: InvariantKernels,
    num_particles: int,
    num_temperatures: int | None = None,
    temperatures: Numbers | None = None,
    resampler: AbstractResampler | str | None = None,
    label: str = "",
) -> Smc:
    r"""An SMC sampler along the path from `start` to the posterior.

    Args:
        start: Beginning of the path, with `sample(key)` and `log_density(x)`; any distribution that
            covers the posterior will do.
        log_joint: $\log\gamma$: prior times likelihood, or an unnormalised density. A value of NaN
            or $+\infty$ before the output counts as $-\infty$; see `aide.algorithms.strict`.
        kernel: MCMC kernel applied at every temperature but the last; or one for each of them: a
            list of kernels of one kind, or a `KernelSchedule` from `aide.kernels.stack_kernels`.
        num_particles: $P$.
        num_temperatures: Number of temperatures, equally spaced, the last one 1. Fix them before
            the run: a schedule adapted to the particles of the run itself makes $\xi$ wrong.
        temperatures: Your own increasing schedule in $(0, 1]$, ending at 1.
        resampler: An `EveryStep`, `EssBelow` or `Never`, or the name of a scheme, such as
            "systematic", for every step; by default multinomial at every step.
        label: A name for tables.

    Returns:
        The sampler, an `aide.smc.Smc`.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> kernel = aide.kernels.RandomWalk(0.7)
        >>> sizes = {"num_particles": 50, "num_temperatures": 4}
        >>> smc = aide.tempered_smc(prior, log_joint, kernel=kernel, **sizes)
        >>> exact = aide.Tractable.of(Normal(1.0, 0.5**0.5))
        >>> aide.estimate(0, exact, smc, num_gold=100, num_target=100).value < 0.3
        True
    """
    schedule = check_schedule(num_temperatures, temperatures)
    check_distribution("start", start)
    log_start, log_end = LogDensityOf(start), possible(log_joint)
    first = Tempered(log_start, log_end, schedule[0])
    moves = _path(log_start, log_end, as_kernels(kernel), schedule)
    size = f"{len(schedule)} temperatures"
    name = (
        f"tempered SMC, {num_particles} particles, {size}" if num_particles > 1 else f"AIS, {size}"
    )
    chosen = EveryStep() if resampler is None else as_resampler(resampler)
    written = as_written(log_joint)  # a NaN at an output is an error
    return Smc(start, moves, written, num_particles, first, chosen, label or name)


@keywords("aide.ais")
def ais(
    start: Distribution,
    log_joint: LogDensity,
    *,
    kernel: InvariantKernels,
    num_temperatures: int | None = None,
    temperatures: Numbers | None = None,
    label: str = "",
) -> Smc:
    r"""Annealed importance sampling (Neal 2001): tempered SMC with one particle.

    `simulate` is the forward chain, `regenerate` the reverse chain of Grosse et al. (2015).
    See `tempered_smc` for the arguments.

    Args:
        start: Where the path begins, with `sample(key)` and `log_density(x)`.
        log_joint: $\log\gamma$, normalised or not.
        kernel: MCMC kernel applied at every temperature but the last, or one for each.
        num_temperatures: Number of temperatures, equally spaced, the last one 1.
        temperatures: Your own increasing schedule in $(0, 1]$, ending at 1.
        label: A name for tables.

    Returns:
        The algorithm, an `aide.smc.Smc` with one particle.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> kernel = aide.kernels.RandomWalk(0.7)
        >>> annealed = aide.ais(prior, log_joint, kernel=kernel, num_temperatures=10)
        >>> annealed.num_particles
        1
    """
    return tempered_smc(
        start,
        log_joint,
        kernel=kernel,
        num_particles=1,
        num_temperatures=num_temperatures,
        temperatures=temperatures,
        label=label,
    )


def _path(
    log_start: LogDensity,
    log_end: LogDensity,
    kernel: InvariantKernel | KernelSchedule,
    schedule: np.ndarray | Array,
) -> tuple[Steps, ...]:
    num_moves, temperatures = len(schedule) - 1, (schedule[:-1], schedule[1:])
    check_length(kernel, num_moves, "one at every temperature but the last")
    if isinstance(kernel, KernelSchedule):
        step = AnnealingStep(log_start, log_end, kernel.common)
        return (Steps(step, (*temperatures, kernel.numbers)),)
    step = AnnealingStep(log_start, log_end, kernel)
    return (Steps(step, temperatures),) if num_moves else ()


def check_schedule(
    num_temperatures: int | None, temperatures: Numbers | None, name: str = "num_temperatures"
) -> np.ndarray | Array:
    """Temperatures equally spaced or as given; raise unless they increase to 1."""
    if (num_temperatures is None) == (temperatures is None):
        raise ValueError(
            f"give either {name} or temperatures, got "
            f"{name}={num_temperatures} and temperatures={temperatures}."
        )
    if num_temperatures is not None:
        check_size(name, num_temperatures)
        return np.arange(1, num_temperatures + 1) / num_temperatures
    if is_traced(temperatures):
        return temperatures
    schedule = np.asarray(temperatures, np.float64)
    steps = np.diff(schedule, prepend=0.0)
    if schedule.ndim != 1 or not schedule.size or not (steps > 0).all() or schedule[-1] != 1.0:
        raise ValueError(
            f"temperatures must increase from above 0 to exactly 1, got {temperatures}."
        )
    return schedule
