"""Moving a population by a kernel, and the autocorrelation time of that kernel.

Trial trajectories: HMC's step size and number of steps are chosen by distance per gradient. Every
pilot follows one trajectory of many leapfrog steps, with one of several step sizes. Each prefix of
a trajectory is a proposal of HMC with that many steps, so that one pass shows all pairs (step
size, number of steps) at once.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from aide._core.numerics import as_parameter, flat_reals
from aide._core.random import standard_normal
from aide._core.types import Key, Parameter, Value
from aide._core.versions import ask
from aide.engine.programs.map_runs import Asked, map_runs
from aide.gold_standards.pilots.population import Path, Population, unraveller
from aide.gold_standards.pilots.rungs import with_room
from aide.kernels.coordinates import Metric, ScaledCoordinates
from aide.kernels.kernel import AbstractKernel, AnyKernel

LAGS = 4
"""Number of steps of the kernel that a population makes at a time: a choice."""
ROUNDING = 1e-12
"""Relative difference that counts as none, for a start that is the posterior itself."""


class Walk(eqx.Module):
    """A path at one temperature, and a kernel."""

    path: Path
    kernel: AnyKernel


class Walked(NamedTuple):
    r"""A population after some steps, and what these steps showed.

    Attributes:
        population: The population after the steps.
        log_ratios: $h$ before the first step and after every step.
        acceptance: Share of proposals accepted, by particle, step and part of the kernel.
        squared_jump: Mean squared change in the first step, by coordinate.
    """

    population: Population
    log_ratios: Float[np.ndarray, "n lags+1"]
    acceptance: Float[np.ndarray, "n lags parts"]
    squared_jump: Float[np.ndarray, " d"]

    @property
    def correlations(self) -> Float[np.ndarray, " lags"]:
        r"""Autocorrelation of $h$ by lag; 0 if $h$ does not vary, 1 if it is not finite."""
        first = self.log_ratios[:, 0]
        if np.ptp(first) <= ROUNDING * max(1.0, float(np.max(np.abs(first)))):
            return np.zeros(LAGS)
        with np.errstate(invalid="ignore", divide="ignore"):
            found = [np.corrcoef(first, later)[0, 1] for later in self.log_ratios[:, 1:].T]
        return np.where(np.isfinite(found), found, 1.0)

    @property
    def time(self) -> float:
        r"""$\tau = 1 + 2\sum_k\rho_k$, with geometric decay after the last lag."""
        rho = np.clip(self.correlations, 0.0, 0.999)
        rate = rho[-1] ** (1 / LAGS)
        return float(1 + 2 * rho.sum() + 2 * rho[-1] * rate / (1 - rate))


def walk(key: Key, path: Path, kernel: AnyKernel, population: Population) -> Walked:
    """Move every particle by `LAGS` steps."""
    asked, num_rungs = steps_asked(path, kernel, population)
    moved = map_runs(*asked[:2], key, asked.rows, what=asked.what, often=asked.often)
    states, flat, ratios, acceptance, jumps = moved
    acceptance = acceptance[..., :num_rungs]
    after = Population(states, flat, ratios[:, -1])
    ratios = np.column_stack([population.log_ratios, ratios])
    return Walked(after, ratios, acceptance, jumps.mean(axis=0))


def steps_asked(path: Path, kernel: AnyKernel, population: Population) -> tuple[Asked, int | None]:
    """What `walk` asks of the engine, and the number of the kernel's step sizes, if any."""
    rows = (np.arange(population.num, dtype=np.uint32), population.states)
    roomy, num_rungs = with_room(kernel)
    return Asked(_steps, Walk(path, roomy), rows, "a step of a pilot", often=True), num_rungs


def _steps(subject: Walk, key: Key, run: int, x: Value) -> tuple[Any, ...]:
    """Move one particle, as an operation of the engine."""
    log_density = subject.path.log_density

    def step(x: Value, key: Key) -> tuple[Value, tuple[Array, ...]]:
        y, share = ask(AbstractKernel, subject.kernel, "observe_step", key, log_density, x)
        jump = (flat_reals(y) - flat_reals(x)) ** 2
        return y, (subject.path.log_ratio(y), share, jump)

    keys = jax.random.split(jax.random.fold_in(key, run), LAGS)
    y, (ratios, shares, jumps) = jax.lax.scan(step, x, keys)
    return y, flat_reals(y), ratios, shares, jumps[0]


LONGEST = 32
"""Largest number of leapfrog steps of a trial: a choice."""
LONGER = 4
"""Length of trials as a multiple of the best length at the temperature before: a choice."""
SHORTEST = 8
"""Least number of leapfrog steps of a trial: a choice."""
LEAST_ACCEPTANCE = 0.5
"""Trajectories of lower acceptance are not chosen: they leave particles behind; a choice."""


class Trial(eqx.Module):
    """A path at one temperature, and the metric of the trajectories that are tried there.

    With `coordinates`, trajectories run in $z$; `length` is the number of leapfrog steps.
    """

    path: Path
    metric: Metric
    coordinates: ScaledCoordinates | None = None
    length: Parameter = eqx.field(converter=as_parameter, default=float(LONGEST))


class Tried(NamedTuple):
    r"""Results of trajectories after every leapfrog step, with a leading axis of pilots.

    Attributes:
        acceptance: $\min\{1, e^{-\Delta H}\}$.
        jump: Mean over coordinates of the squared distance, in units of the spread.
        log_ratio: $h$ at the point.
    """

    acceptance: Any
    jump: Any
    log_ratio: Any


class Met(NamedTuple):
    r"""Points of trajectories without a log density, with a leading axis of pilots.

    Attributes:
        seen: Whether the trajectory is at a finite point, after every leapfrog step.
        near: Whether this point is at most one spread away from the beginning.
        lost: Whether the log density is NaN or $+\infty$ at this point.
        place: The first such point, flat; the pilot itself if there is none.
    """

    seen: Any
    near: Any
    lost: Any
    place: Any


class Choice(NamedTuple):
    """A step size, in units of the spread, and a number of leapfrog steps."""

    step_size: float
    num_leapfrog: int


def follow(trial: Trial, key: Key, run: int, x: Value, step_size: Parameter) -> tuple[Tried, Met]:
    """Follow one trajectory, as an operation of the engine."""
    unravel, metric, start = unraveller(x), trial.metric, flat_reals(x)
    log_density, at = lambda flat: trial.path.log_density(unravel(flat)), unravel
    if trial.coordinates is not None:
        moved, start = trial.coordinates, trial.coordinates.away(start)
        at = lambda z: unravel(moved.back(z))
        log_density = lambda z: trial.path.log_density(at(z)) + moved.log_volume(z)

    def value_and_slope(flat: Array) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(log_density)(flat)
        return value, metric.pull(gradient)

    def leapfrog(carry: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        position, momentum, slope, travelled, place, any_lost = carry
        middle = momentum + 0.5 * step_size * slope
        position = position + step_size * metric.stretch(middle)
        travelled = travelled + step_size * middle
        value, slope = value_and_slope(position)
        momentum = middle + 0.5 * step_size * slope
        gain = value - 0.5 * jnp.sum(momentum**2) - first
        acceptance = jnp.where(jnp.isnan(gain), 0.0, jnp.exp(jnp.minimum(gain, 0.0)))
        # After a proposal without any acceptance the other results do not count, NaN or not.
        keep = lambda value: jnp.where(acceptance > 0, value, 0.0)
        there, jump = at(position), jnp.mean(travelled**2)
        ratio, lost = trial.path.log_ratio_and_lost(there)
        seen = jnp.all(jnp.isfinite(flat_reals(there)))
        lost = lost & seen
        place = jnp.where(lost & ~any_lost, flat_reals(there), place)
        shown = Tried(acceptance, keep(jump), keep(ratio)), (seen, jump <= 1.0, lost)
        return (position, momentum, slope, travelled, place, any_lost | lost), shown

    momentum = standard_normal(jax.random.fold_in(key, run), start.shape, start.dtype)
    value, slope = value_and_slope(start)
    first = value - 0.5 * jnp.sum(momentum**2)
    carry = (start, momentum, slope, jnp.zeros_like(start), flat_reals(x), jnp.asarray(False))
    blank = jax.tree.map(
        lambda part: jnp.zeros((LONGEST, *part.shape), part.dtype),
        jax.eval_shape(leapfrog, carry)[1],
    )

    def body(index: Array, state: Any) -> Any:
        carry, rows = state
        carry, shown = leapfrog(carry)
        return carry, jax.tree.map(lambda row, part: row.at[index].set(part), rows, shown)

    num = jnp.asarray(trial.length).astype(int)
    end, (tried, (seen, near, lost)) = jax.lax.fori_loop(0, num, body, (carry, blank))
    return tried, Met(seen, near, lost, place=end[4])


def length_of_trials(last: float | None) -> float:
    """Number of leapfrog steps to try, given the best number at the temperature before."""
    return float(LONGEST if last is None else np.clip(LONGER * last, SHORTEST, LONGEST))


def choose(
    tried: Tried, step_sizes: np.ndarray, group: np.ndarray, log_ratios: np.ndarray
) -> Choice:
    r"""Choose the least cost per independent state, $(l + 1)(1 + \rho)/(1 - \rho)$ for $l$ steps.

    $\rho$ is the larger of two autocorrelations, that of $h$ and that of squared coordinates, which
    follows from the mean squared jump: an orbit that ends on the other side of the mean still has
    nearly the same energy.

    Args:
        tried: Results of the trajectories.
        step_sizes: Step sizes that were tried.
        group: Index of each pilot's step size.
        log_ratios: $h$ at every pilot's start.
    """
    lengths = np.arange(1, tried.acceptance.shape[1] + 1)
    spread = max(2.0 * float(np.var(log_ratios)), 1e-300)
    best, least = Choice(float(np.min(step_sizes)), 1), np.inf
    for number, step_size in enumerate(step_sizes):
        pilots = group == number
        accepted = tried.acceptance[pilots]
        change = (tried.log_ratio[pilots] - log_ratios[pilots, None]) ** 2
        energy = 1.0 - np.mean(accepted * change, axis=0) / spread
        place = 1.0 - np.mean(accepted * tried.jump[pilots], axis=0) / 2.0
        rho = np.clip(np.maximum(energy, place**2), 0.0, 1.0 - 1e-6)
        cost = (lengths + 1) * (1 + rho) / (1 - rho)
        cost[accepted.mean(axis=0) < LEAST_ACCEPTANCE] = np.inf
        if cost.min() < least:
            least, best = cost.min(), Choice(float(step_size), int(cost.argmin()) + 1)
    return best
