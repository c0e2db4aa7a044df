r"""Tuners: each finds the numbers of a kernel at a temperature from a population there.

A tuner chooses numbers (`settings`, one row per part of the kernel) and builds the kernel from
them; other numbers compile nothing.
"""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from aide._core.types import Key
from aide.engine.programs.map_runs import Asked, compile_together, map_runs
from aide.gold_standards.pilots.losses import Losses, losses_of_trial
from aide.gold_standards.pilots.population import Frame, Path, Population
from aide.gold_standards.pilots.rungs import NUM_RUNGS, Rungs
from aide.gold_standards.pilots.straightening import Structure, fit_coordinates
from aide.gold_standards.pilots.walking import (
    LAGS,
    Trial,
    Walked,
    choose,
    follow,
    length_of_trials,
    steps_asked,
    walk,
)
from aide.kernels.coordinates import InCoordinates, Metric, ScaledCoordinates
from aide.kernels.hamiltonian import Hmc
from aide.kernels.kernel import AnyKernel, Repeat
from aide.kernels.metropolis import RandomWalk

NUM_SIZES = 8
"""Number of step sizes that are tried at the same time: a choice."""
MOST_STUCK = 0.04
"""Smaller steps are added if the share of stuck particles exceeds chance by this much: a choice."""
MORE_STUCK = 0.003
"""A part is needed if the share of stuck particles is larger without it by this much: a choice."""
RUNG = 4.0
"""Factor between the sizes of successive parts: a choice."""
LENGTH = 16
"""Number of leapfrog steps of the smaller parts: a choice."""
NUM_TRIALS = 1000
"""Largest number of pilots that try trajectories: a choice."""
Settings = Float[np.ndarray, "parts 2"]


class TunedKernel(NamedTuple):
    """Numbers for the kernel, the steps of the population with them, and the cost.

    `losses` count the evaluations without a value in trials; empty if there were no trials.
    """

    settings: Settings
    walked: Walked
    num_evaluations: int
    losses: Losses = Losses()


class Tuner(Protocol):
    """Chooses kernels along a path."""

    dense: bool

    @property
    def name(self) -> str:
        """The kernel in a few words."""
        ...

    def words(self, settings: np.ndarray) -> str:
        """The numbers of all kernels, in a line."""
        ...

    def tune(
        self, key: Key, path: Path, population: Population, frame: Frame, last: Settings | None
    ) -> TunedKernel:
        """Find the numbers for this temperature; `last` are those of the temperature before."""
        ...

    def coordinates(self, flat: np.ndarray) -> ScaledCoordinates | None:
        """Coordinates in which the kernel moves this population; `None`: those of the state."""
        ...

    def kernel(
        self, settings: Settings, factor: np.ndarray, coordinates: ScaledCoordinates | None = None
    ) -> AnyKernel:
        """The kernel with these numbers."""
        ...

    def num_evaluations(self, settings: Settings) -> float:
        """Number of log densities or gradients that one step evaluates."""
        ...


class HmcTuner:
    """HMC: step size and number of leapfrog steps by trial, with smaller steps where one fails.

    With a structure the kernel moves in coordinates whose scales do not depend on each other.
    Without `may_split` there is one step size: particles in far tails stay behind until resampling
    removes them.
    """

    name = "HMC"

    def __init__(self, dense: bool, structure: Structure | None = None, may_split: bool = True):
        self.dense, self.structure, self.may_split = dense, structure, may_split

    def coordinates(self, flat: np.ndarray) -> ScaledCoordinates | None:
        """Fit coordinates to the population, by the structure."""
        return None if self.structure is None else fit_coordinates(self.structure, flat)

    def words(self, settings: np.ndarray) -> str:
        """Metric, step sizes and lengths."""
        sizes, lengths = settings[:, 0, 0], settings[:, 0, 1]
        metric = "dense" if self.dense else "diagonal"
        text = (
            f"HMC, one per temperature: {metric} metric, step sizes {sizes.min():.2g} to "
            f"{sizes.max():.2g} in units of the spread, {lengths.min():.0f} to {lengths.max():.0f} "
            "leapfrog steps"
        )
        more = settings.shape[1] - 1
        return f"{text}; then {more} smaller step{'s' if more > 1 else ''}" if more else text

    def tune(
        self, key: Key, path: Path, population: Population, frame: Frame, last: Settings | None
    ) -> TunedKernel:
        """Find a step for most particles; add smaller steps if this step leaves some behind."""
        metric, coordinates = Metric(frame.factor(self.dense)), frame.coordinates
        key_try, key_walk, key_again = jax.random.split(key, 3)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        num = min(population.num, NUM_TRIALS)
        chosen = population.take(rng.choice(population.num, num, replace=False))
        sizes, group = _sizes(last), rng.permutation(num) % NUM_SIZES
        length = length_of_trials(None if last is None else float(last[0, 1]))
        rows = (np.arange(num, dtype=np.uint32), chosen.states, sizes[group])
        asked = Asked(
            follow, Trial(path, metric, coordinates, length), rows, "a trajectory", often=True
        )
        likely = self.kernel(np.array([[1.0, 1.0]]), np.asarray(metric.factor), coordinates)
        compile_together(key_try, asked, steps_asked(path, likely, population)[0])
        tried, met = map_runs(*asked[:2], key_try, rows, what=asked.what, often=True)
        settings = np.array([choose(tried, sizes, group, chosen.log_ratios)], float)
        if last is not None and len(last) > 1:
            settings = ladder(settings[0])
        kernel = self.kernel(settings, np.asarray(metric.factor), coordinates)
        walked = walk(key_walk, path, kernel, population)
        spent = int(num * length) + population.num * LAGS * self.num_evaluations(settings)
        needed = num_needed(walked.acceptance)
        if self.may_split and len(settings) == 1 and needed > 1:
            settings = ladder(settings[0])
            kernel = self.kernel(settings, np.asarray(metric.factor), coordinates)
            walked = walk(key_again, path, kernel, population)
            spent += population.num * LAGS * self.num_evaluations(settings)
            needed = num_needed(walked.acceptance)
        losses = losses_of_trial(met)
        return TunedKernel(settings[:needed], walked, int(spent), losses)

    def kernel(
        self, settings: Settings, factor: np.ndarray, coordinates: ScaledCoordinates | None = None
    ) -> AnyKernel:
        """One HMC step, or several of falling size in a row."""
        metric = Metric(factor)
        sizes, lengths = settings[:, 0], settings[:, 1].astype(int)
        if len(settings) == 1:
            kernel = Hmc(float(sizes[0]), jnp.asarray(int(lengths[0])), metric)
        else:
            kernel = Rungs(sizes, lengths, metric)
        return kernel if coordinates is None else InCoordinates(coordinates, kernel)

    def num_evaluations(self, settings: Settings) -> float:
        """Gradients: one at the start of a trajectory, one per leapfrog step, and two densities."""
        return float(np.sum(settings[:, 1] + 2))


class WalkTuner:
    """A random walk, for densities without a gradient; a kernel step is one move per dimension."""

    name = "random walk"

    def __init__(self, dense: bool, num_dimensions: int):
        self.dense, self.num_times = dense, max(1, num_dimensions)

    def words(self, settings: np.ndarray) -> str:
        """Scales, and numbers of moves."""
        sizes = settings[:, 0, 0]
        return (
            f"random walk (there is no gradient), {self.num_times} steps per temperature, scales "
            f"{sizes.min():.2g} to {sizes.max():.2g} in units of the spread"
        )

    def tune(
        self, key: Key, path: Path, population: Population, frame: Frame, last: Settings | None
    ) -> TunedKernel:
        """Choose the scale with the shortest autocorrelation time."""
        factor, spent = frame.factor(self.dense), 0
        scale = 2.38 / np.sqrt(len(frame.moments.mean)) if last is None else float(last[0, 0])
        best = None
        for number, size in enumerate(scale * 2.0 ** np.linspace(-1.0, 1.0, 3)):
            settings = np.array([[size, self.num_times]])
            subkey = jax.random.fold_in(key, number)
            walked = walk(subkey, path, self.kernel(settings, factor), population)
            spent += population.num * LAGS * self.num_evaluations(settings)
            if best is None or walked.time < best.walked.time:
                best = TunedKernel(settings, walked, 0)
        assert best is not None
        return best._replace(num_evaluations=int(spent))

    def coordinates(self, flat: np.ndarray) -> None:
        """`None`: the coordinates of the state."""

    def kernel(
        self, settings: Settings, factor: np.ndarray, coordinates: ScaledCoordinates | None = None
    ) -> AnyKernel:
        """Several moves of one scale."""
        return Repeat(RandomWalk(float(settings[0, 0]), Metric(factor)), int(settings[0, 1]))

    def num_evaluations(self, settings: Settings) -> float:
        """Two densities per move: at its start and at its end."""
        return 2.0 * settings[0, 1]


class GivenKernel:
    """A kernel that needs no numbers: Gibbs sweeps, or the caller's own."""

    dense = False

    def __init__(self, kernel: AnyKernel, num_evaluations: float, name: str):
        self.given, self.cost, self.name = kernel, num_evaluations, name

    def words(self, settings: np.ndarray) -> str:
        """The name alone, since there are no numbers."""
        return self.name

    def tune(
        self, key: Key, path: Path, population: Population, frame: Frame, last: Settings | None
    ) -> TunedKernel:
        """Move the population; there is nothing to choose."""
        walked = walk(key, path, self.given, population)
        spent = population.num * LAGS * self.cost
        return TunedKernel(np.zeros((0, 2)), walked, int(spent))

    def coordinates(self, flat: np.ndarray) -> None:
        """`None`: the coordinates of the state."""

    def kernel(
        self, settings: Settings, factor: np.ndarray, coordinates: ScaledCoordinates | None = None
    ) -> AnyKernel:
        """The given kernel."""
        return self.given

    def num_evaluations(self, settings: Settings) -> float:
        """The number that was stated."""
        return self.cost


def num_needed(acceptance: Float[np.ndarray, "n lags parts"]) -> int:
    """Of parts with falling step sizes, the number that leave hardly more stuck particles than all.

    If all parts leave many more stuck particles than chance does, the number of parts plus one.
    """
    num_parts = acceptance.shape[2]
    expected = np.prod(1 - acceptance[..., 0].mean(axis=0))
    stuck = [np.mean(acceptance[..., : num + 1].max(axis=(1, 2)) == 0) for num in range(num_parts)]
    if stuck[-1] > MOST_STUCK + expected:
        return num_parts + 1
    return int(np.argmax(stuck <= stuck[-1] + MORE_STUCK)) + 1


def ladder(first: np.ndarray) -> Settings:
    """A step and smaller steps after it, for densities whose scale changes from place to place."""
    sizes = first[0] / RUNG ** np.arange(NUM_RUNGS)
    return np.column_stack([sizes, [first[1], *[LENGTH] * (NUM_RUNGS - 1)]])


def _sizes(last: Settings | None) -> np.ndarray:
    """Step sizes to try, about the size that was chosen at the temperature before."""
    if last is None:
        return 1.4 * 2.0 ** np.linspace(-5.0, 0.0, NUM_SIZES)
    return float(last[0, 0]) * 2.0 ** np.linspace(-2.0, 1.0, NUM_SIZES)
