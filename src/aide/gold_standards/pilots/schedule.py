r"""From pilots to a path that never changes: temperatures, kernels, and passes of pilots along it.

With $T$ steps of equal length along
$\Lambda = \int\sqrt{\mathrm{var}_\beta(h)\,\tau_\beta}\,d\beta$ the variance of the log evidence is
about $\Lambda^2/(TP)$, and no other spacing makes it smaller (Sivak & Crooks 2012): temperatures
are close where weights vary, and where one step does not mix, so that steps are repeated there.

Pilots pass along the path of the last pass again and again, until the path stops growing.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from aide._core.distribution import Distribution
from aide._core.types import Key, LogDensity
from aide.algorithms.annealed import tempered_smc
from aide.gold_standards.budget import Budget
from aide.gold_standards.pilots.pilot import Pilot, run_pilot
from aide.gold_standards.pilots.population import Frame, Path
from aide.gold_standards.pilots.straightening import find_structure
from aide.gold_standards.pilots.tuners import RUNG, HmcTuner, Tuner
from aide.kernels.coordinates import ScaledCoordinates
from aide.kernels.kernel import as_invariant
from aide.kernels.schedule import stack_kernels
from aide.smc.smc import Smc

STEP = 0.5
"""Length of one step: the standard deviation of its log weights, about."""
FEWEST_TEMPERATURES = 4
NEXT_TO = 1e-12
"""Relative distance of temperatures between which nothing changes: schedules must increase."""
NEIGHBOURS = 5
"""Temperatures whose kernels share their numbers (the median)."""


class Recipe(NamedTuple):
    """All numbers of a tempered SMC sampler; `build` makes it.

    Attributes:
        temperatures: From above 0 to 1.
        settings: Numbers of the kernels, by temperature, part, and (size, number).
        factors: Their metrics, by temperature.
        num_particles: How many.
        coordinates: Those in which kernels move, by temperature; `None`: those of the state.
    """

    temperatures: Float[np.ndarray, " T"]
    settings: Float[np.ndarray, "T-1 parts 2"]
    factors: np.ndarray
    num_particles: int = 1
    coordinates: ScaledCoordinates | None = None

    def cost(self, tuner: Tuner) -> float:
        """Evaluations per particle, over the whole path."""
        return 2.0 + sum(tuner.num_evaluations(numbers) for numbers in self.settings)

    def halved(self) -> "Recipe":
        """Every second temperature, by an algorithm of the same shape: its program is the same.

        A temperature that is left out lies next to the one that follows, where weights do not
        change, and its kernel makes no step. Only HMC knows settings with that meaning: 0 leapfrog
        steps.
        """
        num = len(self.temperatures)
        left_out = np.arange(num - 2, -1, -2)
        temperatures, settings = self.temperatures.copy(), self.settings.copy()
        temperatures[left_out] = temperatures[left_out + 1] * (1 - NEXT_TO)
        settings[left_out, :, 1] = 0.0
        return self._replace(temperatures=temperatures, settings=settings)

    def build(
        self, start: Distribution, log_joint: LogDensity, tuner: Tuner, label: str = ""
    ) -> Smc:
        """The algorithm with these numbers."""
        kernels = [
            as_invariant(tuner.kernel(numbers, factor, self._coordinates_at(place)))
            for place, (numbers, factor) in enumerate(zip(self.settings, self.factors, strict=True))
        ]
        return tempered_smc(
            start,
            log_joint,
            kernel=stack_kernels(kernels) if self.settings.size else kernels[0],
            num_particles=self.num_particles,
            temperatures=self.temperatures,
            resampler="systematic",
            label=label,
        )

    def _coordinates_at(self, place: int) -> ScaledCoordinates | None:
        return jax.tree.map(lambda leaf: leaf[place], self.coordinates)


def make_recipe(pilot: Pilot, tuner: Tuner, like: Recipe | None = None, fewest: int = 0) -> Recipe:
    """Temperatures of equal length, and kernels between those of the pilots.

    Args:
        pilot: What pilots found.
        tuner: Builds kernels.
        like: A recipe of the same size, so that one program serves both; otherwise as long a path
            as the pilots found necessary.
        fewest: Temperatures there should be at least.
    """
    from scipy.interpolate import PchipInterpolator

    stages = pilot.stages
    known = np.array([0.0, *(stage.temperature for stage in stages)])
    lengths = [stage.length for stage in stages]
    passed = np.concatenate([[0.0], np.cumsum(np.maximum(lengths, 1e-9))])
    num = max(fewest, FEWEST_TEMPERATURES, int(np.ceil(pilot.length / STEP)))
    num = num if like is None else len(like.temperatures)
    temperatures = PchipInterpolator(passed, known)(np.linspace(0.0, passed[-1], num + 1)[1:])
    temperatures[-1] = 1.0
    places = np.interp(temperatures[:-1], known[1:], np.arange(len(stages), dtype=float))
    settings = _between(_smooth(_complete([stage.settings for stage in stages], like)), places)
    settings[..., 1:] = np.round(settings[..., 1:])
    num_particles = 1 if like is None else like.num_particles
    if not settings.size:
        return Recipe(temperatures, settings, np.ones((num - 1, 0)), num_particles)
    frames = [_frame_at(pilot, place) for place in places]
    factors = np.array([frame.factor(tuner.dense) for frame in frames])
    coordinates = [frame.coordinates for frame in frames]
    stack = None if coordinates[0] is None else jax.tree.map(lambda *a: np.array(a), *coordinates)
    return Recipe(temperatures, settings, factors, num_particles, stack)


def _complete(
    settings: list[np.ndarray], like: Recipe | None
) -> Float[np.ndarray, "stages parts 2"]:
    """As many parts everywhere: where fewer were needed, a small and cheap step."""
    num = max(len(parts) for parts in settings) if like is None else like.settings.shape[1]
    found = []
    for parts in settings:
        rows = list(parts[:num])
        while len(rows) < num:
            rows.append(np.array([rows[-1][0] / RUNG, 1.0]))
        found.append(rows)
    return np.array(found).reshape(len(settings), num, 2)


def _smooth(settings: np.ndarray) -> np.ndarray:
    """Medians of neighbours: single choices are noisy."""
    from scipy.ndimage import median_filter

    return (
        median_filter(settings, (NEIGHBOURS, 1, 1), mode="nearest") if settings.size else settings
    )


def _between(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Interpolated between stages, in logarithms."""
    if not values.size:
        return np.zeros((len(places), 0, 2))
    low = np.minimum(places.astype(int), max(len(values) - 2, 0))
    high = np.minimum(low + 1, len(values) - 1)
    share = (places - low)[:, None, None]
    return np.exp((1 - share) * np.log(values[low]) + share * np.log(values[high]))


def _frame_at(pilot: Pilot, place: float) -> Frame:
    low = min(int(place), max(len(pilot.stages) - 2, 0))
    high = min(low + 1, len(pilot.stages) - 1)
    share = place - low
    one, other = pilot.stages[low].frame, pilot.stages[high].frame
    return jax.tree.map(lambda a, b: (1 - share) * a + share * b, one, other)


MOST_PASSES = 5
"""Passes of pilots along a path, in all."""
PILOT_TIME, CUT_TIME = 0.3, 0.45
"""Shares of the seconds of a budget after which no further pass begins, and after which pilots of
the first one take the rest of the path in one step."""
GROWTH = 1.2
"""Pilots walk again if their pass found the path this many times as long as the one before did."""
SLOW = 3.0
"""Autocorrelation time, in steps of the kernel, from which on one pass does not show the length of
a path: pilots of the first pass lag behind the temperatures there."""


def first_pass(
    key: Key,
    path: Path,
    tuner: Tuner,
    num_pilots: int,
    budget: Budget,
    report: Callable[[int, float], None],
    share: float,
) -> tuple[Pilot, Tuner]:
    """Pilots that walk the path once, or twice if it turns out that scales depend on coordinates.

    Where no step size suited all pilots for that reason, kernels move in other coordinates from
    then on: the tuner that comes back knows them. `share`: see `run_pilot`.
    """
    is_late = lambda: budget.is_late(CUT_TIME)
    walk = partial(run_pilot, path=path, num_pilots=num_pilots, share=share, is_late=is_late)
    pilot = walk(jax.random.fold_in(key, 0), tuner=tuner, report=partial(report, 0))
    may_bend = isinstance(tuner, HmcTuner) and tuner.structure is None and _needs_sizes(pilot)
    if not isinstance(tuner, HmcTuner) or not may_bend or budget.is_late(PILOT_TIME):
        return pilot, tuner
    structure = find_structure(pilot.population.flat)
    if structure is None:
        return pilot, tuner
    bent = HmcTuner(tuner.dense, structure)
    subkey = jax.random.fold_in(key, MOST_PASSES)
    again = walk(subkey, tuner=bent, report=partial(report, 1))
    if again.cut_at is not None:
        return pilot.after(again), tuner
    return again.after(pilot), bent


def further_passes(
    key: Key,
    path: Path,
    tuner: Tuner,
    pilot: Pilot,
    budget: Budget,
    report: Callable[[int, float], None],
) -> Pilot:
    """Pilots that walk the path again until its length is known, or the budget is spent.

    Where kernels mix slowly, pilots of a first pass are behind the temperatures all the time and
    see less change than there is; along a path with more temperatures they see more.
    """
    for number in range(1, MOST_PASSES):
        if max(stage.time for stage in pilot.stages) < SLOW:
            break
        if pilot.num_evaluations > budget.evaluations or budget.is_late(PILOT_TIME):
            break
        temperatures = make_recipe(pilot, tuner, fewest=len(pilot.stages)).temperatures
        subkey, hear = jax.random.fold_in(key, number), partial(report, number)
        num_pilots = pilot.population.num
        is_late = lambda: budget.is_late(CUT_TIME)
        again = run_pilot(
            subkey, path, tuner, num_pilots, hear, temperatures.tolist(), is_late=is_late
        )
        if again.cut_at is not None:
            return pilot.after(again)
        known = again.length < GROWTH * pilot.length
        pilot = again.after(pilot)
        if known:
            break
    return pilot


def _needs_sizes(pilot: Pilot) -> bool:
    """Whether steps of several sizes were needed somewhere."""
    return any(len(stage.settings) > 1 for stage in pilot.stages)
