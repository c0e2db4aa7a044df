r"""Moving a population by a kernel, and how fast it forgets where it was."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from aide._core.flat_states import flat_reals
from aide._core.types import Key, Value
from aide._core.versions import ask
from aide.engine.programs.map_runs import map_runs
from aide.gold_standards.pilots.path import Path
from aide.gold_standards.pilots.population import Population
from aide.gold_standards.pilots.rungs import with_room
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
    moved = map_runs(_steps, Walk(path, roomy), key, rows, what="a step of a pilot")
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
