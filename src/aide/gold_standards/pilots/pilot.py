r"""Pilot runs: SMC that adapts as it goes, to find the numbers of an algorithm that does not adapt.

With $h = \log\gamma - \log k_1$ (`log_ratios`) the log weight from start to posterior, pilots find
at every temperature the distance to the next temperature (by the spread of the weights), the spread
of the particles, the numbers of the kernel, and its autocorrelation time. The result keeps only
these numbers, which are fixed from then on: a run that adapted to its own particles would have a
wrong $\xi$.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from aide._core.distribution import Strict
from aide._core.types import Key
from aide._core.validate import LARGEST_RESOLVED, UNRESOLVED
from aide.engine.programs.map_runs import in_double, map_runs
from aide.engine.programs.programs import compile_quickly
from aide.gold_standards.pilots.losses import (
    Losses,
    StartError,
    check_near,
    check_start,
    losses_near,
    place_words,
)
from aide.gold_standards.pilots.population import (
    Frame,
    Path,
    Population,
    effective_share,
    moments_of,
    next_temperature,
    resample,
    start_watched,
    weigh,
)
from aide.gold_standards.pilots.tuners import Settings, Tuner
from aide.gold_standards.pilots.walking import LAGS, walk
from aide.kernels.coordinates import ScaledCoordinates

SHARE = 0.8
"""Effective share of the particles that a step of the pilots leaves: a choice."""
COARSE_SHARE = 0.5
"""The same share where pilots only look for the posterior and another path follows: a choice."""
FORGOTTEN = 0.3
"""Pilots move on when the autocorrelation of $h$ has fallen to this value: a choice."""
MOST_ROUNDS = 8
"""Largest number of rounds of steps at one temperature, after which pilots move on: a choice."""
NO_WEIGHT = 3.0
"""Log weights this many nats below the median are raised to that value: a choice."""
SAME_OFFSET = 1e-3
"""Spread of a log density, relative to its size, below which the size is that of an offset."""
NUM_PEAKS = 4
"""Number of pilots with the largest $h$ that are kept at every temperature: a choice."""
MOST_STAGES = 2000
"""Number of temperatures at which pilots give up: more than any useful path has, a choice."""


class Stage(NamedTuple):
    r"""The numbers that pilots found at one temperature.

    Attributes:
        temperature: $\beta$.
        distance: Distance from the temperature before: the square root of $-\log\mathrm{ESS}$ of
            the weights between both, or of the symmetrised divergence
            $(\beta'-\beta)(E_{\beta'}h - E_\beta h)$ if that is larger. Both are about the variance
            of the log weights, but only the second one sees states that open up at $\beta'$.
        time: Autocorrelation time $\tau$ of $h$, in steps of the kernel.
        frame: Coordinates for the kernel, and mean and covariance in these coordinates.
        settings: Numbers of the kernel.
        correlation: Autocorrelation of $h$ that remained when the pilots moved on.
    """

    temperature: float
    distance: float
    time: float
    frame: Frame
    settings: Settings
    correlation: float

    @property
    def length(self) -> float:
        r"""$s\sqrt\tau$, with $s$ the `distance`."""
        return float(self.distance * np.sqrt(self.time))


class PilotedPath(NamedTuple):
    """A path as the pilots found it, their final places, their cost, and their losses.

    `peaks` are flat states with the largest $h$ among the pilots at every temperature, the largest
    first: a pilot that passes a narrow mode early on may end far from that mode. `cut_at` is the
    temperature at which the time was up: the rest of the path is one step.
    """

    stages: tuple[Stage, ...]
    population: Population
    num_evaluations: int
    losses: Losses = Losses()
    peaks: np.ndarray | None = None
    cut_at: float | None = None

    @property
    def length(self) -> float:
        r"""$\Lambda = \sum_t s_t\sqrt{\tau_t}$; log evidence varies by about $\Lambda^2/TP$."""
        return float(sum(stage.length for stage in self.stages))

    def after(self, earlier: "PilotedPath") -> "PilotedPath":
        """This pilot with the cost and the losses of earlier pilots added."""
        spent = self.num_evaluations + earlier.num_evaluations
        return self._replace(num_evaluations=spent, losses=earlier.losses.joined(self.losses))


def walk_pilots(
    key: Key,
    path: Path,
    tuner: Tuner,
    num_pilots: int,
    report: Callable[[float], None],
    temperatures: Sequence[float] | None = None,
    longest: float = np.inf,
    share: float = SHARE,
    is_late: Callable[[], bool] = lambda: False,
) -> PilotedPath:
    """Walk from the start to the posterior, by steps of equal length or along given temperatures.

    Args:
        key: A JAX key.
        path: The path.
        tuner: Chooses kernels.
        num_pilots: Number of particles.
        report: Called with every temperature that pilots reach.
        temperatures: The temperatures, if they are known from an earlier pass.
        longest: Pilots stop once the path has this length, since a longer path is of no use.
        share: Effective share of the particles that a step leaves.
        is_late: Whether the time is up: pilots then take the rest of the path in one step.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    rows = (np.arange(num_pilots, dtype=np.uint32),)
    key_start, key = jax.random.split(key)
    with compile_quickly():  # one evaluation per pilot
        *found, lost = map_runs(
            start_watched, path, key_start, rows, what="log_joint at a draw of the start"
        )
    population, temperature, spent = Population(*found), 0.0, float(num_pilots)
    _check(population, path)
    losses = check_start(lost, population.flat, path, population.states)
    stages, settings, length, peaks = list[Stage](), None, 0.0, list[Population]()
    cut_at: float | None = None
    while temperature < 1.0 and length <= longest:
        if len(stages) == MOST_STAGES:
            raise RuntimeError(
                f"after {MOST_STAGES} temperatures pilots are only at {temperature:.2g}: the start "
                "is too far from the posterior. Pass a start that is nearer, or wider."
            )
        if cut_at is None and is_late():
            cut_at = temperature
        if cut_at is not None:
            after = 1.0
        elif temperatures is None:
            after = next_temperature(population, temperature, share)
        else:
            after = float(temperatures[len(stages)])
        key = jax.random.fold_in(key, 1)
        step = after - temperature
        stage, population, cost, losses_here = _stage(
            key, path.at(after), tuner, population, step, settings, rng
        )
        spent, temperature, settings = spent + cost, after, stage.settings
        stages.append(stage)
        highest = np.argsort(-population.log_ratios, kind="stable")[:NUM_PEAKS]
        peaks.append(population.take(highest))
        length += stage.length
        losses = losses.joined(losses_here if temperature == 1.0 else losses_here.far())
        report(temperature)
    if temperature == 1.0:
        losses = _check_end(key, path.at(1.0), population, losses)
    ratios = np.concatenate([one.log_ratios for one in peaks])
    places = np.vstack([one.flat for one in peaks])[np.argsort(-ratios, kind="stable")]
    return PilotedPath(tuple(stages), population, int(spent), losses, places, cut_at)


def _check_end(key: Key, path: Path, population: Population, losses: Losses) -> Losses:
    """Raise if the log density has no value at points next to the posterior; return the losses.

    If no trajectory passed next to the posterior, points beside pilots of real states are checked.
    """
    real = all(np.asarray(leaf).dtype.kind == "f" for leaf in jax.tree.leaves(population.states))
    if not losses.num_near and real:
        moments = moments_of(population.flat, np.full(population.num, 1 / population.num))
        beside = losses_near(key, path, population.states, moments.factor(dense=False))
        losses = losses.joined(beside)
    check_near(losses, path, population.states)
    return losses


def _stage(
    key: Key,
    path: Path,
    tuner: Tuner,
    population: Population,
    step: float,
    settings: Settings | None,
    rng: np.random.Generator,
) -> tuple[Stage, Population, float, Losses]:
    """Weigh, resample, tune, and move until the start is forgotten; also return cost and losses."""
    weights, before = weigh(population, step), population.log_ratios
    resampled = resample(rng, population, weights)
    coordinates = tuner.coordinates(resampled.flat)
    frame = Frame(moments_of(moved(population.flat, coordinates), weights), coordinates)
    tuned = tuner.tune(key, path, resampled, frame, settings)
    walked, spent, time = tuned.walked, float(tuned.num_evaluations), tuned.walked.time
    kernel = tuner.kernel(tuned.settings, frame.factor(tuner.dense), coordinates)
    remains = 1.0
    for number in range(MOST_ROUNDS):
        remains = _correlation(resampled.log_ratios, walked.population.log_ratios)
        if remains <= FORGOTTEN:
            break
        walked = walk(jax.random.fold_in(key, 100 + number), path, kernel, walked.population)
        spent += population.num * LAGS * tuner.num_evaluations(tuned.settings)
        time = max(time, walked.time)
    _check(walked.population, path, f"at temperature {path.temperature:.2g}")
    spread = -np.log(effective_share(step * before))
    change = _change(step, before, walked.population.log_ratios)
    # Both numbers are 0 up to rounding if the start is the posterior.
    distance = float(np.sqrt(max(spread, change, 0.0)))
    stage = Stage(float(path.temperature), distance, time, frame, tuned.settings, remains)
    return stage, walked.population, spent, tuned.losses


def moved(flat: np.ndarray, coordinates: ScaledCoordinates | None) -> np.ndarray:
    """Convert flat states to other coordinates."""
    return flat if coordinates is None else np.asarray(in_double(jax.vmap(coordinates.away), flat))


def _change(step: float, before: np.ndarray, after: np.ndarray) -> float:
    r"""$(\beta'-\beta)(E_{\beta'}h - E_\beta h)$, with the smallest $h$ limited by `NO_WEIGHT`."""
    before = before[np.isfinite(before)]
    floor = np.median(before) - NO_WEIGHT / step
    return float(step * (np.mean(np.maximum(after, floor)) - np.mean(np.maximum(before, floor))))


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    """The correlation; 0 if one of the arrays does not vary."""
    return float(np.corrcoef(one, other)[0, 1]) if np.std(one) * np.std(other) > 0 else 0.0


def _check(population: Population, path: Path, where: str = "at draws of the start") -> None:
    """Raise early for NaN, or for a start without a point in the support."""
    ratios = population.log_ratios
    broken = np.flatnonzero(np.isnan(ratios) | (ratios == np.inf))
    if len(broken):
        place = place_words(population.flat[broken[0]], path, population.states)
        why = (
            "The log density is strict: it may be -inf outside its support, never nan."
            if isinstance(path.log_joint, Strict)
            else "The density of the start may be -inf outside its support, never nan."
        )
        raise ValueError(
            f"log_joint returned nan (or +inf) for {len(broken)} of {population.num} pilots of the "
            f"gold standard {where}, first at {place}. {why}"
        )
    known = ratios[np.isfinite(ratios)]
    size = np.abs(known).min(initial=np.inf)
    if LARGEST_RESOLVED <= size < np.inf and np.ptp(known) < SAME_OFFSET * size:
        raise ValueError(f"log_joint of the pilots of the gold standard {where}: {UNRESOLVED}")
    if not known.size:
        raise StartError(
            f"log_joint is -inf for all {population.num} pilots {where}: the start has no mass "
            "where the posterior has. Pass another start."
        )
