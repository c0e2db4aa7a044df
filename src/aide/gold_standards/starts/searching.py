r"""Separate modes: whether pilots are divided between several, and climbs that look for more.

Tempering reaches a narrow mode through few particles: with weight $w$ and width $s$ in $d$
dimensions its mass at temperature $\beta$ is $w^\beta s^{d(1-\beta)}$, up to a factor, once modes
have parted (Woodard, Schmidler & Huber 2009). More steps do not help then, and more particles
hardly; a start that covers the modes does. Climbs find modes at a small part of the cost of a
particle, in particular climbs from draws of the start whose density known modes do not explain.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.types import Key, Parameter
from aide.engine.programs.map_runs import map_runs
from aide.gold_standards.pilots.pilot import PilotedPath
from aide.gold_standards.pilots.population import Path, moments_of
from aide.gold_standards.starts.ascent import (
    NUM_STEPS,
    Ascent,
    Screen,
    climb_from,
    climb_from_start,
)
from aide.gold_standards.starts.climbing import FlatDensity, Mode, Optimiser, join_modes
from aide.gold_standards.starts.tails import draw_student, inverses_of, log_student

MOST_PEAKS = 64
"""Largest number of climbs from places on the pilots' way to the posterior: a choice."""
PILOT_CLIMBS = 64
"""Number of climbs from pilots at the posterior: a choice."""
MOST_FRUITLESS = 16
"""Successive ends, each at a mode of its own, after which modes count as too many: a choice."""
MOST_STEPS = 200
"""Largest number of optimiser's steps from the end of a climb: a choice."""
MOST_MODES = 30
"""Largest number of modes that are kept: a choice."""
FARTHEST = 9.0
"""Squared distance per coordinate, in units of a mode's stretched width, up to which draws about a
mode count in its mass: a choice."""
INSIDE = 4.0
"""Squared distance per coordinate, in units of a mode's width, up to which a point is inside."""
HELD = 0.8
"""If modes hold at least this share of the pilots, nothing lies outside of modes: a choice."""
HIDDEN = 0.2
"""Pilots miss a mode if they give it less than this multiple of its share of the mass: a choice."""
LEAST_HIDDEN = 0.05
"""Least share of the mass of a mode that pilots may miss: a choice."""
NUM_DRAWS = 1000
"""Number of draws about a mode for its mass: a choice."""
SMALLEST = 1e-3
"""Least mass of a mode that is kept, relative to the largest: a choice."""
FEWEST_CLIMBS = 200
"""Least number of climbs from the start that look for a second mode: a choice."""
LARGEST_BATCH = 50_000
"""Largest number of climbs in a batch; each batch doubles the number of climbs: a choice."""
MOST_BATCHES = 12
"""Largest number of batches of climbs that look for further modes: a choice."""
FEWEST_HITS = 3
"""Batches go on while a mode was reached by fewer climbs than this: a choice."""
SHARE = 0.1
"""Evaluations of climbs that look for a second mode, as a share of the pilots': a choice."""
MOST_SCREENED = 65_536
"""Largest number of draws of the start that are screened: a choice. Draws are no more than the
evaluations of the first climbs from the start: their number depends on the key alone, and not on
the load of the machine."""
MOST_UNEXPLAINED = 64
"""Largest number of climbs from screened draws that modes do not explain: a choice."""
MOST_SCREENS = 4
"""Largest number of screens, which are repeated while they show new modes: a choice."""
KEY_SCREEN = 1
"""Index that derives the key of the screened draws."""


class Search:
    """A search for modes at the end of a path, given pilots that walked the path.

    Args:
        key: A JAX key.
        path: The path.
        pilot: The pilots' stages and final places.
        is_late: Whether the time is up: climbs then stop where they are.
    """

    def __init__(
        self, key: Key, path: Path, pilot: PilotedPath, is_late: Callable[[], bool] = lambda: False
    ):
        self.num_evaluations = 0
        self._key, flat = key, pilot.population.flat
        like = jax.tree.map(lambda leaf: np.asarray(leaf)[0], pilot.population.states)
        moments = moments_of(flat, np.full(len(flat), 1 / len(flat)))
        self._ascent = Ascent(path, moments.mean, moments.factor(dense=True), like)
        self._is_late = is_late
        self._optimiser = Optimiser(self._ascent.density, is_late)
        self._flat, self._ratios = flat, pilot.population.log_ratios
        self._peaks = flat[:0] if pilot.peaks is None else pilot.peaks[:MOST_PEAKS]
        self._pilot_evaluations = pilot.num_evaluations

    def find(self, most_evaluations: float) -> tuple[Mode, ...]:
        """Components for a start, if these are more than the pilots' mean and spread; else none.

        Climbs begin at pilots, first where the density has grown most, and at draws of the start;
        if they show several modes that hold the pilots, at many more draws; and at those of many
        draws of the start whose density the modes do not explain. A narrow mode counts however few
        pilots are there: if modes do not hold the pilots, the rest of the pilots is another
        component, and masses decide which components are kept.
        """
        modes = self._follow_up((), self._climb(climb_from, self._begins()))
        if not modes:
            return ()
        most = SHARE * self._pilot_evaluations / NUM_STEPS
        num = int(np.clip(most, FEWEST_CLIMBS, LARGEST_BATCH))
        are_held = self._share_held(modes) >= HELD
        num = num if are_held else FEWEST_CLIMBS
        ends = self._climb(climb_from_start, np.arange(num, dtype=np.uint32))
        modes = self._follow_up(modes, ends)
        if are_held and len(modes) > 1:
            modes = self._look_further(modes, ends, num, most_evaluations)
        weighed = self._weighed(modes)
        for _ in range(MOST_SCREENS):
            more = join_modes(modes, self._unexplained(weighed, num * NUM_STEPS))
            if len(more) == len(modes) or self._is_late():
                break
            modes, weighed = more, self._weighed(more)
        found = _largest(weighed)
        return () if len(found) == 1 and found[0].is_rest else found

    def _begins(self) -> np.ndarray:
        """Pilots from which climbs begin: those of largest $h$, at the end or on the way; others.

        Their number does not depend on the length of the path, so that one program serves all.
        """
        rng = np.random.default_rng(np.asarray(jax.random.key_data(self._key)))
        order = np.argsort(-self._ratios, kind="stable")
        highest, others = order[: PILOT_CLIMBS // 2], rng.permutation(order[PILOT_CLIMBS // 2 :])
        chosen = self._flat[np.concatenate([highest, others])]
        return np.concatenate([self._peaks, chosen])[: MOST_PEAKS + PILOT_CLIMBS]

    def _share_held(self, modes: tuple[Mode, ...]) -> float:
        return float(np.mean(which_holds(modes, self._flat) >= 0))

    def _rest(self, modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
        """Pilots outside of all modes as one component, by mean and spread."""
        flat = self._flat[which_holds(modes, self._flat) < 0]
        moments = moments_of(flat, np.full(len(flat), 1 / len(flat)))
        if len(flat) <= len(moments.mean):
            return ()
        return (Mode(0.0, moments.mean, moments.factor(dense=True), is_rest=True),)

    def _look_further(
        self, modes: tuple[Mode, ...], ends: np.ndarray, num: int, most_evaluations: float
    ) -> tuple[Mode, ...]:
        """Run further batches of climbs from the start, until one shows no new mode."""
        for _ in range(MOST_BATCHES):
            size = min(num, LARGEST_BATCH)
            if self._is_late() or self.num_evaluations + NUM_STEPS * size > most_evaluations:
                break
            runs = np.arange(num, num + size, dtype=np.uint32)
            num += size
            more, known = self._climb(climb_from_start, runs), len(modes)
            modes, ends = self._follow_up(modes, more), np.concatenate([ends, more])
            hits = np.bincount(1 + which_holds(modes, ends))[1:]
            rare = np.any((hits > 0) & (hits < FEWEST_HITS))
            if len(modes) == known and not rare:
                break
        return modes

    def _weighed(self, modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
        """Modes with their masses, and the rest of the pilots if modes do not hold the pilots."""
        rest = () if self._share_held(modes) >= HELD else self._rest(modes)
        return weigh_modes(self._key, self._ascent.density, (*modes, *rest))

    def _unexplained(self, weighed: tuple[Mode, ...], num: int) -> tuple[Mode, ...]:
        """Modes at the ends of climbs from the draws of the start that known modes explain least.

        If a climb ends inside of a wide mode, the height shows whether the end is another mode.
        """
        screen, key = Screen.of(self._ascent, weighed), jax.random.fold_in(self._key, KEY_SCREEN)
        num = min(num, MOST_SCREENED)
        runs = screen.worst_runs(key, num, MOST_UNEXPLAINED)
        self.num_evaluations += num
        if not len(runs):
            return ()
        ends, heights = self._climbs(climb_from_start, runs, key)
        return self._follow_up((), ends[screen.are_unexplained(ends, heights)])

    def _climb(self, operation: Callable[..., Any], begins: np.ndarray) -> np.ndarray:
        """The ends of climbs, the highest first."""
        return self._climbs(operation, begins, self._key)[0]

    def _climbs(
        self, operation: Callable[..., Any], begins: np.ndarray, key: Key
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ends of climbs, the highest first, with their log densities."""
        found = map_runs(operation, self._ascent, key, (begins,), what="log_joint")
        self.num_evaluations += len(begins) * NUM_STEPS
        ends, heights = found
        order = np.argsort(-heights)
        order = order[np.isfinite(heights[order])]
        return ends[order], heights[order]

    def _follow_up(self, modes: tuple[Mode, ...], ends: np.ndarray) -> tuple[Mode, ...]:
        """The modes, and new modes at ends outside of them; no mode if each end has its own."""
        given, fruitless = len(modes), 0
        ends = ends[which_holds(modes, ends) < 0]
        while len(ends) and fruitless < MOST_FRUITLESS and len(modes) < MOST_MODES:
            modes = join_modes(modes, self._follow(ends[0]))
            rest = ends[1:][which_holds(modes, ends[1:]) < 0]
            fruitless = fruitless + 1 if len(rest) == len(ends) - 1 else 0
            ends = rest
        return () if not given and fruitless == MOST_FRUITLESS else modes

    def _follow(self, end: np.ndarray) -> list[Mode]:
        return self._optimiser.modes_of(self._optimiser.climb([end], MOST_STEPS), 1)


def which_holds(modes: tuple[Mode, ...], flat: np.ndarray) -> np.ndarray:
    """Index of the first mode that holds each point, by its Laplace approximation; -1 for none."""
    which = np.full(len(flat), -1)
    for number, mode in enumerate(modes):
        inside = mode.distances(flat) <= INSIDE
        which[inside & (which < 0)] = number
    return which


def hidden_modes(modes: tuple[Mode, ...], flat: np.ndarray) -> tuple[Mode, ...]:
    r"""Modes with much more mass than pilots give them: tempering hardly reached these modes.

    The share of mode $k$ in the mass, $\int\pi\,t_k/\sum_j t_j$, is a mean over the posterior, and
    is estimated by a mean over pilots.
    """
    if not modes:
        return ()
    log_masses = np.array([mode.log_mass for mode in modes])
    masses = np.exp(log_masses - log_masses.max())
    masses /= masses.sum()
    about, key = Tails.about(modes), jax.random.key(0)  # nothing is drawn
    logs = map_runs(log_tails_at, about, key, (flat,), what="")
    shares = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None]).mean(axis=0)
    found = zip(modes, masses, shares, strict=True)
    return tuple(
        mode
        for mode, mass, share in found
        if not mode.is_rest and mass > LEAST_HIDDEN and share < HIDDEN * mass
    )


class Tails(eqx.Module):
    """The $t$ distributions about modes, and the log density whose modes they are, if it matters.

    Args:
        means: Places of the modes, by rows.
        inverses: Inverses of the factors of the modes.
        density: The log density.
    """

    means: Parameter
    inverses: Parameter
    density: FlatDensity | None = None

    @staticmethod
    def about(modes: Sequence[Mode], density: FlatDensity | None = None) -> "Tails":
        """The distributions about several modes."""
        means, factors = (np.array(part) for part in zip(*(m[1:3] for m in modes), strict=True))
        return Tails(means, inverses_of(factors), density)


def log_tails_at(tails: Tails, key: Key, flat: Array) -> Array:
    """The log densities of all $t$ distributions at a point, as an operation of the engine."""
    one = jax.vmap(log_student, (None, 0, 0))
    return one(flat, jnp.asarray(tails.means), jnp.asarray(tails.inverses))


def log_mass_about(tails: Tails, key: Key, mean: Array, factor: Array) -> Array:
    r"""$\log E_{t_k}[\gamma/\sum_j t_j]$ for a mode $k$, as an operation of the engine."""
    assert tails.density is not None
    keys = jax.random.split(key, NUM_DRAWS)
    noise = jax.vmap(lambda k: draw_student(k, mean.size))(keys)
    x, near = mean + noise @ factor.T, jnp.mean(noise**2, axis=1) <= FARTHEST
    log_near = jax.vmap(lambda x: jax.nn.logsumexp(log_tails_at(tails, key, x)))(x)
    log_ratios = jnp.where(near, jax.vmap(tails.density)(x) - log_near, -jnp.inf)
    return jax.nn.logsumexp(log_ratios) - np.log(NUM_DRAWS)


def weigh_modes(key: Key, density: FlatDensity, modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
    r"""Replace Laplace's masses by $E_{t_k}[\gamma/\sum_j t_j]$.

    Draws of $t_k$ farther than `FARTHEST` from mode $k$ do not count: a draw at an unknown mode
    would give mode $k$ the mass of both.
    """
    tails = Tails.about(modes, density)
    rows = (np.asarray(tails.means), np.array([mode.factor for mode in modes]))
    masses = map_runs(log_mass_about, tails, key, rows, what="log_joint")
    return tuple(m._replace(log_mass=float(mass)) for m, mass in zip(modes, masses, strict=True))


def _largest(weighed: tuple[Mode, ...]) -> tuple[Mode, ...]:
    """Modes with at least the share `SMALLEST` of the mass of the largest one."""
    masses = np.array([mode.log_mass for mode in weighed])
    kept = np.exp(masses - np.max(masses)) >= SMALLEST
    return tuple(mode for mode, large in zip(weighed, kept, strict=True) if large)
