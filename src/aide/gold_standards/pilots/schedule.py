r"""Temperatures and kernels of a path that never changes, from pilots; passes of pilots along it.

With $T$ steps of equal length along
$\Lambda = \int\sqrt{\mathrm{var}_\beta(h)\,\tau_\beta}\,d\beta$ the variance of the log evidence is
about $\Lambda^2/(TP)$, and no other spacing makes it smaller (Sivak & Crooks 2012): temperatures
are close where weights vary, and where one step does not mix, so that more steps are made there.

Each pass of pilots follows the path of the pass before, until the length of the path stops growing.
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
from aide.gold_standards.budget import LAST_PASS, PILOTS_CUT, Budget
from aide.gold_standards.pilots.pilot import PilotedPath, walk_pilots
from aide.gold_standards.pilots.population import Frame, Path
from aide.gold_standards.pilots.straightening import find_structure
from aide.gold_standards.pilots.tuners import RUNG, HmcTuner, Tuner
from aide.kernels.coordinates import ScaledCoordinates
from aide.kernels.kernel import as_invariant
from aide.kernels.schedule import stack_kernels
from aide.smc.smc import Smc

STEP = 0.5
"""Length of one step, about the standard deviation of its log weights: a choice."""
FEWEST_TEMPERATURES = 4
"""Least number of temperatures of a path: a choice."""
NEXT_TO = 1e-12
"""Relative distance between two temperatures that stand for one, since schedules must increase."""
NEIGHBOURS = 5
"""Number of neighbouring stages whose kernels share their median numbers: a choice."""


class Recipe(NamedTuple):
    """All numbers of a tempered SMC sampler; `build` makes the sampler.

    Attributes:
        temperatures: Temperatures, from above 0 to 1.
        settings: Numbers of the kernels, by temperature, part, and (size, number).
        factors: Factors of the kernels' metrics, by temperature.
        num_particles: The number of particles.
        coordinates: Coordinates in which kernels move, by temperature; `None`: those of the state.
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
        """Use every second temperature, in an algorithm of the same shape and the same program.

        A temperature that is left out moves next to the following one, so that weights do not
        change there, and its kernel makes no step. Only HMC has settings with that meaning: 0
        leapfrog steps.
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
        """Build the algorithm with these numbers."""
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


def make_recipe(
    pilot: PilotedPath, tuner: Tuner, like: Recipe | None = None, fewest: int = 0
) -> Recipe:
    """Choose temperatures at equal lengths, and kernels between those of the pilots.

    Args:
        pilot: The pilots' stages.
        tuner: Builds kernels.
        like: A recipe whose sizes are copied, so that one program serves both; by default the
            length of the path determines the sizes.
        fewest: Least number of temperatures.
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
    """Give all stages the same number of parts: missing parts become a small and cheap step."""
    num = max(len(parts) for parts in settings) if like is None else like.settings.shape[1]
    found = []
    for parts in settings:
        rows = list(parts[:num])
        while len(rows) < num:
            rows.append(np.array([rows[-1][0] / RUNG, 1.0]))
        found.append(rows)
    return np.array(found).reshape(len(settings), num, 2)


def _smooth(settings: np.ndarray) -> np.ndarray:
    """Take medians of neighbouring stages, since the choice at a single stage is noisy."""
    from scipy.ndimage import median_filter

    return (
        median_filter(settings, (NEIGHBOURS, 1, 1), mode="nearest") if settings.size else settings
    )


def _between(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Interpolate between stages, in logarithms."""
    if not values.size:
        return np.zeros((len(places), 0, 2))
    low = np.minimum(places.astype(int), max(len(values) - 2, 0))
    high = np.minimum(low + 1, len(values) - 1)
    share = (places - low)[:, None, None]
    return np.exp((1 - share) * np.log(values[low]) + share * np.log(values[high]))


def _frame_at(pilot: PilotedPath, place: float) -> Frame:
    low = min(int(place), max(len(pilot.stages) - 2, 0))
    high = min(low + 1, len(pilot.stages) - 1)
    share = place - low
    one, other = pilot.stages[low].frame, pilot.stages[high].frame
    return jax.tree.map(lambda a, b: (1 - share) * a + share * b, one, other)


MOST_PASSES = 5
"""Largest number of passes of pilots along a path: a choice."""
GROWTH = 1.2
"""Another pass follows a pass whose path was this many times longer than the last: a choice."""
SLOW = 3.0
"""Autocorrelation time, in steps of the kernel, from which one pass does not show the length of a
path, since pilots of a first pass lag behind the temperatures: a choice."""


def first_pass(
    key: Key,
    path: Path,
    tuner: Tuner,
    num_pilots: int,
    budget: Budget,
    report: Callable[[int, float], None],
    share: float,
) -> tuple[PilotedPath, Tuner]:
    """Walk pilots along the path once, or twice if scales turn out to depend on coordinates.

    If no single step size suited all pilots for that reason, kernels move in other coordinates from
    then on: the returned tuner knows these coordinates. `share`: see `walk_pilots`.
    """
    is_late = lambda: budget.is_late(PILOTS_CUT)
    walk = partial(walk_pilots, path=path, num_pilots=num_pilots, share=share, is_late=is_late)
    pilot = walk(jax.random.fold_in(key, 0), tuner=tuner, report=partial(report, 0))
    may_straighten = isinstance(tuner, HmcTuner) and tuner.structure is None and _needs_sizes(pilot)
    if not isinstance(tuner, HmcTuner) or not may_straighten or budget.is_late(LAST_PASS):
        return pilot, tuner
    structure = find_structure(pilot.population.flat)
    if structure is None:
        return pilot, tuner
    straightened = HmcTuner(tuner.dense, structure)
    subkey = jax.random.fold_in(key, MOST_PASSES)
    again = walk(subkey, tuner=straightened, report=partial(report, 1))
    if again.cut_at is not None:
        return pilot.after(again), tuner
    return again.after(pilot), straightened


def further_passes(
    key: Key,
    path: Path,
    tuner: Tuner,
    pilot: PilotedPath,
    budget: Budget,
    report: Callable[[int, float], None],
) -> PilotedPath:
    """Walk pilots along the path again until its length is known, or the budget is spent.

    With kernels that mix slowly, pilots of a first pass lag behind the temperatures and find the
    path too short; along a path with more temperatures they find it longer.
    """
    for number in range(1, MOST_PASSES):
        if max(stage.time for stage in pilot.stages) < SLOW:
            break
        if pilot.num_evaluations > budget.evaluations or budget.is_late(LAST_PASS):
            break
        temperatures = make_recipe(pilot, tuner, fewest=len(pilot.stages)).temperatures
        subkey, on_progress = jax.random.fold_in(key, number), partial(report, number)
        num_pilots = pilot.population.num
        is_late = lambda: budget.is_late(PILOTS_CUT)
        again = walk_pilots(
            subkey, path, tuner, num_pilots, on_progress, temperatures.tolist(), is_late=is_late
        )
        if again.cut_at is not None:
            return pilot.after(again)
        known = again.length < GROWTH * pilot.length
        pilot = again.after(pilot)
        if known:
            break
    return pilot


def _needs_sizes(pilot: PilotedPath) -> bool:
    """Whether a stage needed steps of several sizes."""
    return any(len(stage.settings) > 1 for stage in pilot.stages)
