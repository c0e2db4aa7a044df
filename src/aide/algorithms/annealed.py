r"""Annealing from a distribution one can sample to a posterior: tempered SMC and AIS.

Path: $\log\gamma_\beta(x) = (1-\beta)\log k_1(x) + \beta\log\gamma(x)$. Step $t$ moves by a kernel
invariant for $\gamma_{\beta_{t-1}}$ and then reweights to $\gamma_{\beta_t}$.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.distribution import Distribution, LogDensityOf, check_distribution
from aide._core.numerics import as_log, as_parameter, log_ratio
from aide._core.types import Key, LogDensity, LogProb, Numbers, Parameter, Value
from aide._core.validate import check_scalar, check_size
from aide._core.versions import KernelUse
from aide.kernels.kernel import InvariantKernel
from aide.smc.move import AbstractMove
from aide.smc.moves import AbstractMoveAt, Rejuvenate, Steps
from aide.smc.policy import AbstractResampler, EveryStep, as_resampler
from aide.smc.smc import Smc


class Tempered(eqx.Module):
    r"""$\log\gamma_\beta$ as a function of $x$; the end points ignore the other density."""

    log_start: LogDensity
    log_end: LogDensity
    temperature: Parameter = eqx.field(converter=as_parameter)

    def __call__(self, x: Value) -> LogProb:
        """Evaluate the tempered log density."""
        start = as_log(self.log_start(x))
        end = check_scalar("log_joint", self.log_end(x))
        # 0 * log 0 = 0 on the path, as in 0 * log(0) = log(0 ** 0).
        first = jnp.where(self.temperature == 1.0, 0.0, (1.0 - self.temperature) * start)
        return first + jnp.where(self.temperature == 0.0, 0.0, self.temperature * end)

    def with_start(self, start: Distribution) -> "Tempered":
        """The density at the same temperature on the path from another start."""
        return replace(self, log_start=LogDensityOf(start))


class AnnealingStep(AbstractMoveAt):
    r"""A kernel at $\beta_{t-1}$, then the weight $(\gamma/k_1)^{\beta_t-\beta_{t-1}}$."""

    log_start: LogDensity
    log_end: LogDensity
    kernel: InvariantKernel

    def __check_init__(self) -> None:
        Rejuvenate(self.kernel, self.log_end)  # its checks apply

    def __call__(self, inputs: tuple[Array, Array]) -> "AnnealingMove":
        """The move between two neighbouring temperatures."""
        return AnnealingMove(self, *inputs)

    def shortened(self, inputs: tuple[Array, Array], num_steps: int) -> Steps:
        """Some of the temperatures, evenly chosen, the first and the last among them."""
        before, after = (np.asarray(a) for a in inputs)
        knots = np.append(before, after[-1])
        chosen = knots[np.linspace(0, len(knots) - 1, num_steps + 1).round().astype(int)]
        return Steps(self, (chosen[:-1], chosen[1:]))

    def with_start(self, start: Distribution) -> "AnnealingStep":
        """The path from another start."""
        return replace(self, log_start=LogDensityOf(start))

    def kernels(self, inputs: tuple[Array, Array]) -> list[KernelUse]:
        """The kernel, at the first temperature."""
        temperature = np.asarray(inputs[0])[0]
        return [(self.kernel, Tempered(self.log_start, self.log_end, temperature))]


class AnnealingMove(AbstractMove):
    """One step of an annealing path as a weighted move."""

    step: AnnealingStep
    before: Array
    after: Array

    @property
    def kernel(self) -> InvariantKernel:
        """The kernel of the step."""
        return self.step.kernel

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

    def log_weight(self, y: Value) -> LogProb:
        r"""$(\beta_t - \beta_{t-1}) \log\{\gamma(y)/k_1(y)\}$."""
        ratio = log_ratio(self.step.log_end(y), self.step.log_start(y))
        return (self.after - self.before) * ratio


def tempered_smc(
    prior: Distribution,
    log_joint: LogDensity,
    *,
    kernel: InvariantKernel,
    num_particles: int,
    num_temperatures: int | None = None,
    temperatures: Numbers | None = None,
    resampler: AbstractResampler | str | None = None,
    label: str = "",
) -> Smc:
    r"""An SMC sampler along the path from `prior` to the posterior.

    Args:
        prior: Start of the path, with `sample(key)` and `log_density(x)`; any distribution that
            covers the posterior will do.
        log_joint: $\log\gamma$: prior times likelihood, or an unnormalised density.
        kernel: MCMC kernel applied at every temperature but the last.
        num_particles: $P$.
        num_temperatures: Number of temperatures, equally spaced, the last one 1. Fix them before
            the run: a schedule adapted to the particles of the run itself makes $\xi$ wrong.
        temperatures: Your own increasing schedule in $(0, 1]$, ending at 1.
        resampler: Multinomial at every step unless stated; a name such as "systematic" means that
            scheme at every step.
        label: A name for tables.
    """
    schedule = _schedule(num_temperatures, temperatures)
    check_distribution("prior", prior)
    first = Tempered(LogDensityOf(prior), log_joint, schedule[0])
    step = AnnealingStep(LogDensityOf(prior), log_joint, kernel)
    moves = (Steps(step, (schedule[:-1], schedule[1:])),) if len(schedule) > 1 else ()
    size = f"{len(schedule)} temperatures"
    name = (
        f"tempered SMC, {num_particles} particles, {size}" if num_particles > 1 else f"AIS, {size}"
    )
    chosen = EveryStep() if resampler is None else as_resampler(resampler)
    return Smc(prior, moves, log_joint, num_particles, first, chosen, label or name)


def ais(
    prior: Distribution,
    log_joint: LogDensity,
    *,
    kernel: InvariantKernel,
    num_temperatures: int | None = None,
    temperatures: Numbers | None = None,
    label: str = "",
) -> Smc:
    r"""Annealed importance sampling (Neal 2001): tempered SMC with one particle.

    `simulate` is the forward chain, `regenerate` the reverse chain of Grosse et al. (2015).
    See `tempered_smc` for the arguments.
    """
    return tempered_smc(
        prior,
        log_joint,
        kernel=kernel,
        num_particles=1,
        num_temperatures=num_temperatures,
        temperatures=temperatures,
        label=label,
    )


def _schedule(num_temperatures: int | None, temperatures: Numbers | None) -> np.ndarray | Array:
    if (num_temperatures is None) == (temperatures is None):
        raise ValueError(
            "give either num_temperatures or temperatures, got "
            f"num_temperatures={num_temperatures} and temperatures={temperatures}."
        )
    if num_temperatures is not None:
        check_size("num_temperatures", num_temperatures)
        return np.arange(1, num_temperatures + 1) / num_temperatures
    if isinstance(temperatures, jax.core.Tracer):
        return temperatures
    schedule = np.asarray(temperatures, np.float64)
    steps = np.diff(schedule, prepend=0.0)
    if schedule.ndim != 1 or not schedule.size or not (steps > 0).all() or schedule[-1] != 1.0:
        raise ValueError(
            f"temperatures must increase from above 0 to exactly 1, got {temperatures}."
        )
    return schedule
