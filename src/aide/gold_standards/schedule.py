r"""From what pilots learned to a path that never changes: temperatures and kernels.

With $T$ steps of equal length along $\Lambda = \int\sqrt{\mathrm{var}_\beta(h)\,\tau_\beta}\,d\beta$
the variance of the log evidence is about $\Lambda^2/(TP)$, and no other spacing makes it smaller
(Sivak & Crooks 2012): temperatures are close where weights vary, and where one step does not mix,
so that steps are repeated there.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from aide.gold_standards.pilot import Pilot
from aide.gold_standards.population import Moments
from aide.gold_standards.tuners import Tuner
from aide.kernels.kernel import AnyKernel
from aide.kernels.schedule import KernelSchedule, stack_kernels

STEP = 0.5
"""Length of one step: the standard deviation of its log weights, about."""
FEWEST_TEMPERATURES = 4
NEIGHBOURS = 5
"""Temperatures whose kernels share their numbers (the median)."""


class Schedule(NamedTuple):
    """Temperatures and kernels, and what a step costs.

    Attributes:
        temperatures: From above 0 to 1.
        kernels: One per temperature but the last, or one for all.
        settings: Numbers of the kernels, by temperature, part, and (size, number).
        length: See `Pilot.length`.
        num_evaluations: Per particle, over the whole path.
    """

    temperatures: Float[np.ndarray, " T"]
    kernels: AnyKernel | KernelSchedule
    settings: Float[np.ndarray, "T-1 parts 2"]
    length: float
    num_evaluations: float


def make_schedule(pilot: Pilot, tuner: Tuner, fewest: int = FEWEST_TEMPERATURES) -> Schedule:
    """Temperatures of equal length, `fewest` or more; kernels between those of the pilots."""
    from scipy.interpolate import PchipInterpolator

    stages = pilot.stages
    known = np.array([0.0, *(stage.temperature for stage in stages)])
    lengths = [stage.distance * np.sqrt(stage.time) for stage in stages]
    passed = np.concatenate([[0.0], np.cumsum(lengths)])
    num = max(fewest, FEWEST_TEMPERATURES, int(np.ceil(pilot.length / STEP)))
    temperatures = PchipInterpolator(passed, known)(np.linspace(0.0, passed[-1], num + 1)[1:])
    temperatures[-1] = 1.0
    places = np.interp(temperatures[:-1], known[1:], np.arange(len(stages), dtype=float))
    settings = _between(_smooth(_complete([stage.settings for stage in stages])), places)
    settings[..., 1:] = np.round(settings[..., 1:])
    kernels = [
        tuner.kernel(numbers, _moments_at(pilot, place).factor(tuner.dense))
        for numbers, place in zip(settings, places, strict=True)
    ]
    cost = 2.0 + sum(tuner.num_evaluations(numbers) for numbers in settings)
    stacked = stack_kernels(kernels) if settings.size else kernels[0]
    return Schedule(temperatures, stacked, settings, pilot.length, float(cost))


def _complete(settings: list[np.ndarray]) -> Float[np.ndarray, "stages parts 2"]:
    """As many parts everywhere: where fewer were needed, a small and cheap step."""
    num = max(len(parts) for parts in settings)
    found = []
    for parts in settings:
        rows = list(parts)
        while len(rows) < num:
            rows.append(np.array([rows[-1][0] / 3, 1.0]))
        found.append(rows)
    return np.array(found).reshape(len(settings), num, 2)


def _smooth(settings: np.ndarray) -> np.ndarray:
    """Medians of neighbours: single choices are noisy."""
    from scipy.ndimage import median_filter

    return median_filter(settings, (NEIGHBOURS, 1, 1), mode="nearest") if settings.size else settings


def _between(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Interpolated between stages, in logarithms."""
    if not values.size:
        return np.zeros((len(places), 0, 2))
    low = np.minimum(places.astype(int), max(len(values) - 2, 0))
    high = np.minimum(low + 1, len(values) - 1)
    share = (places - low)[:, None, None]
    return np.exp((1 - share) * np.log(values[low]) + share * np.log(values[high]))


def _moments_at(pilot: Pilot, place: float) -> Moments:
    low = min(int(place), max(len(pilot.stages) - 2, 0))
    high = min(low + 1, len(pilot.stages) - 1)
    share = place - low
    one, other = pilot.stages[low].moments, pilot.stages[high].moments
    mixed = [(1 - share) * a + share * b for a, b in zip(one, other, strict=True)]
    return Moments(*mixed)
