"""Moving a population by a kernel, and how fast it forgets where it was.

Hamiltonian trajectories are tried on pilots: how far do they get, for how many gradients?

Every pilot follows one trajectory of many leapfrog steps, with one of several step sizes. Each of
its prefixes is a proposal of HMC with that many steps, so that one pass shows all pairs (step size,
number of steps) at once.
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
from aide.engine.programs.map_runs import map_runs
from aide.gold_standards.pilots.population import Path, Population, unraveller
from aide.gold_standards.pilots.rungs import with_room
from aide.kernels.coordinates import Metric, ScaledCoordinates
from aide.kernels.kernel import AbstractKernel, AnyKernel

LAGS = 4
"""Steps at a time."""
ROUNDING = 1e-12
"""Relative differences that are none: a start that is the posterior leaves nothing to forget."""


class Walk(eqx.Module):
    """A path at one temperature, and a kernel."""

    path: Path
    kernel: AnyKernel


class Walked(NamedTuple):
    r"""A population after some steps, and what it showed.

    Attributes:
        population: Where it is.
        log_ratios: $h$ before, and after every step.
        acceptance: Share of proposals accepted, by particle, step and part of the kernel.
        squared_jump: Of the first step, by coordinate: the mean over particles.
    """

    population: Population
    log_ratios: Float[np.ndarray, "n lags+1"]
    acceptance: Float[np.ndarray, "n lags parts"]
    squared_jump: Float[np.ndarray, " d"]

    @property
    def correlations(self) -> Float[np.ndarray, " lags"]:
        r"""Autocorrelation of $h$, by lag; 0 where it does not vary, 1 where it cannot be told."""
        first = self.log_ratios[:, 0]
        if np.ptp(first) <= ROUNDING * max(1.0, float(np.max(np.abs(first)))):
            return np.zeros(LAGS)
        with np.errstate(invalid="ignore", divide="ignore"):
            found = [np.corrcoef(first, later)[0, 1] for later in self.log_ratios[:, 1:].T]
        return np.where(np.isfinite(found), found, 1.0)

    @property
    def time(self) -> float:
        r"""$\tau = 1 + 2\sum_k\rho_k$, beyond the last lag as if it fell geometrically."""
        rho = np.clip(self.correlations, 0.0, 0.999)
        rate = rho[-1] ** (1 / LAGS)
        return float(1 + 2 * rho.sum() + 2 * rho[-1] * rate / (1 - rate))


def walk(key: Key, path: Path, kernel: AnyKernel, population: Population) -> Walked:
    """A few steps of every particle."""
    rows = (np.arange(population.num, dtype=np.uint32), population.states)
    roomy, num_rungs = with_room(kernel)
    moved = map_runs(_steps, Walk(path, roomy), key, rows, what="a step of a pilot", often=True)
    states, flat, ratios, acceptance, jumps = moved
    acceptance = acceptance[..., :num_rungs]
    after = Population(states, flat, ratios[:, -1])
    ratios = np.column_stack([population.log_ratios, ratios])
    return Walked(after, ratios, acceptance, jumps.mean(axis=0))


def _steps(subject: Walk, key: Key, run: int, x: Value) -> tuple[Any, ...]:
    """The steps of one particle, as an operation of the engine."""
    log_density = subject.path.log_density

    def step(x: Value, key: Key) -> tuple[Value, tuple[Array, ...]]:
        y, share = ask(AbstractKernel, subject.kernel, "observe_step", key, log_density, x)
        jump = (flat_reals(y) - flat_reals(x)) ** 2
        return y, (subject.path.log_ratio(y), share, jump)

    keys = jax.random.split(jax.random.fold_in(key, run), LAGS)
    y, (ratios, shares, jumps) = jax.lax.scan(step, x, keys)
    return y, flat_reals(y), ratios, shares, jumps[0]


LONGEST = 32
"""Leapfrog steps of a trial at most."""
LONGER, SHORTEST = 4, 8
"""Trials follow so many times the steps that were best at the temperature before, and so many at
least."""
LEAST_ACCEPTANCE = 0.5
"""Trajectories accepted less often would leave too many particles where they are."""


class Trial(eqx.Module):
    """A path at one temperature, and the metric in which to follow its dynamics.

    With `coordinates`, the dynamics are those of $z$; `length` leapfrog steps are followed.
    """

    path: Path
    metric: Metric
    coordinates: ScaledCoordinates | None = None
    length: Parameter = eqx.field(converter=as_parameter, default=float(LONGEST))


class Tried(NamedTuple):
    r"""What trajectories showed after every leapfrog step; a leading axis of pilots.

    Attributes:
        acceptance: $\min\{1, e^{-\Delta H}\}$.
        jump: Mean over coordinates of the squared distance, in units of the spread.
        log_ratio: $h$ there.
    """

    acceptance: Any
    jump: Any
    log_ratio: Any


class Met(NamedTuple):
    r"""Where trajectories had no log density; a leading axis of pilots.

    Attributes:
        seen: Whether the trajectory got to a finite point, after every leapfrog step.
        near: Whether that is at most one spread away from where it began.
        lost: Whether the log density is NaN or $+\infty$ there.
        place: The first such point, flat; the pilot itself where there is none.
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
    """One trajectory, as an operation of the engine."""
    unravel, metric, start = unraveller(x), trial.metric, flat_reals(x)
    log_density, at = lambda flat: trial.path.log_density(unravel(flat)), unravel
    if trial.coordinates is not None:
        moved, start = trial.coordinates, trial.coordinates.away(start)
        at = lambda z: unravel(moved.back(z))
        log_density = lambda z: trial.path.log_density(at(z)) + moved.log_volume(z)

    def climb(flat: Array) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(log_density)(flat)
        return value, metric.pull(gradient)

    def leapfrog(carry: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        position, momentum, slope, travelled, place, any_lost = carry
        middle = momentum + 0.5 * step_size * slope
        position = position + step_size * metric.stretch(middle)
        travelled = travelled + step_size * middle
        value, slope = climb(position)
        momentum = middle + 0.5 * step_size * slope
        gain = value - 0.5 * jnp.sum(momentum**2) - first
        acceptance = jnp.where(jnp.isnan(gain), 0.0, jnp.exp(jnp.minimum(gain, 0.0)))
        # Where a trajectory went astray nothing else is of interest, NaN or not.
        keep = lambda value: jnp.where(acceptance > 0, value, 0.0)
        there, jump = at(position), jnp.mean(travelled**2)
        ratio, lost = trial.path.look(there)
        seen = jnp.all(jnp.isfinite(flat_reals(there)))
        lost = lost & seen
        place = jnp.where(lost & ~any_lost, flat_reals(there), place)
        shown = Tried(acceptance, keep(jump), keep(ratio)), (seen, jump <= 1.0, lost)
        return (position, momentum, slope, travelled, place, any_lost | lost), shown

    momentum = standard_normal(jax.random.fold_in(key, run), start.shape, start.dtype)
    value, slope = climb(start)
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
    """Leapfrog steps worth following, given how many were best at the temperature before."""
    return float(LONGEST if last is None else np.clip(LONGER * last, SHORTEST, LONGEST))


def choose(
    tried: Tried, step_sizes: np.ndarray, group: np.ndarray, log_ratios: np.ndarray
) -> Choice:
    r"""The cheapest way to forget: least $(l + 1)(1 + \rho)/(1 - \rho)$ for $l$ leapfrog steps.

    $\rho$ is the larger of two autocorrelations, that of $h$ and that of squared coordinates, which
    follows from the mean squared jump: an orbit that arrives on the other side of the mean has
    forgotten nothing about the energy.

    Args:
        tried: What pilots showed.
        step_sizes: Those tried.
        group: Which of them each pilot had.
        log_ratios: $h$ at every pilot's start.
    """
    lengths = np.arange(1, tried.acceptance.shape[1] + 1)
    spread = max(2.0 * float(np.var(log_ratios)), 1e-300)
    best, least = Choice(float(np.min(step_sizes)), 1), np.inf
    for number, step_size in enumerate(step_sizes):
        mine = group == number
        accepted = tried.acceptance[mine]
        change = (tried.log_ratio[mine] - log_ratios[mine, None]) ** 2
        energy = 1.0 - np.mean(accepted * change, axis=0) / spread
        place = 1.0 - np.mean(accepted * tried.jump[mine], axis=0) / 2.0
        rho = np.clip(np.maximum(energy, place**2), 0.0, 1.0 - 1e-6)
        cost = (lengths + 1) * (1 + rho) / (1 - rho)
        cost[accepted.mean(axis=0) < LEAST_ACCEPTANCE] = np.inf
        if cost.min() < least:
            least, best = cost.min(), Choice(float(step_size), int(cost.argmin()) + 1)
    return best
