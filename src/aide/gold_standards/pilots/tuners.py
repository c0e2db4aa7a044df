r"""What a kernel needs to know at a temperature, found on a population there.

A tuner chooses numbers (`settings`, one row per part of the kernel) and builds the kernel from
them; other numbers compile nothing.
"""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from aide._core.types import Key
from aide.engine.programs.map_runs import map_runs
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
    walk,
)
from aide.kernels.coordinates import InCoordinates, Metric, ScaledCoordinates
from aide.kernels.hamiltonian import Hmc
from aide.kernels.kernel import AnyKernel, Repeat
from aide.kernels.metropolis import RandomWalk

NUM_SIZES = 8
"""Step sizes tried at a time."""
MOST_STUCK = 0.04
"""Smaller steps follow for particles left behind, if so many more than expected are."""
MORE_STUCK = 0.003
"""Share of particles that a step may help before it is one of those that are needed."""
RUNG, LENGTH = 4.0, 16
"""By which factor each of several steps is smaller, and the leapfrog steps of the smaller ones."""
NUM_TRIALS = 1000
"""Pilots that try trajectories."""
Settings = Float[np.ndarray, "parts 2"]


class TunedKernel(NamedTuple):
    """Numbers for the kernel, how the population moved with them, what that cost.

    `losses` are the evaluations without a value that trials met, where they were looked for.
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
        """The kernel in a word or two."""
        ...

    def words(self, settings: np.ndarray) -> str:
        """The numbers of all kernels, in a line."""
        ...

    def tune(
        self, key: Key, path: Path, population: Population, frame: Frame, last: Settings | None
    ) -> TunedKernel:
        """Numbers for this temperature; `last` are those of the one before."""
        ...

    def coordinates(self, flat: np.ndarray) -> ScaledCoordinates | None:
        """Those in which the kernel should move such a population; `None`: its own."""
        ...

    def kernel(
        self, settings: Settings, factor: np.ndarray, coordinates: ScaledCoordinates | None = None
    ) -> AnyKernel:
        """The kernel with these numbers."""
        ...

    def num_evaluations(self, settings: Settings) -> float:
        """Log densities, or gradients, that a step evaluates."""
        ...


class HmcTuner:
    """HMC: step size and number of leapfrog steps by trial, and a smaller step where one fails.

    With a structure it moves in coordinates in which scales that depend on others do not. Without
    `may_split` there is one step size: particles in far tails stay behind until they are weighed
    out.
    """

    name = "HMC"

    def __init__(self, dense: bool, structure: Structure | None = None, may_split: bool = True):
        self.dense, self.structure, self.may_split = dense, structure, may_split

    def coordinates(self, flat: np.ndarray) -> ScaledCoordinates | None:
        """Fitted to the population, by the structure."""
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
        """A step for most particles; a ladder of smaller ones where it leaves some behind."""
        metric, coordinates = Metric(frame.factor(self.dense)), frame.coordinates
        key_try, key_walk, key_again = jax.random.split(key, 3)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        num = min(population.num, NUM_TRIALS)
        chosen = population.take(rng.choice(population.num, num, replace=False))
        sizes, group = _sizes(last), rng.permutation(num) % NUM_SIZES
        length = length_of_trials(None if last is None else float(last[0, 1]))
        rows = (np.arange(num, dtype=np.uint32), chosen.states, sizes[group])
        trial = Trial(path, metric, coordinates, length)
        tried, met = map_runs(follow, trial, key_try, rows, what="a trajectory", often=True)
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
    """A random walk, for densities without a gradient: as many steps as there are dimensions."""

    name = "random walk"

    def __init__(self, dense: bool, num_dimensions: int):
        self.dense, self.num_times = dense, max(1, num_dimensions)

    def words(self, settings: np.ndarray) -> str:
        """Scales and numbers."""
        sizes = settings[:, 0, 0]
        return (
            f"random walk (there is no gradient), {self.num_times} steps per temperature, scales "
            f"{sizes.min():.2g} to {sizes.max():.2g} in units of the spread"
        )

    def tune(
        self, key: Key, path: Path, population: Population, frame: Frame, last: Settings | None
    ) -> TunedKernel:
        """The scale that jumps farthest."""
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
        """Its own."""

    def kernel(
        self, settings: Settings, factor: np.ndarray, coordinates: ScaledCoordinates | None = None
    ) -> AnyKernel:
        """Steps of one scale in a row."""
        return Repeat(RandomWalk(float(settings[0, 0]), Metric(factor)), int(settings[0, 1]))

    def num_evaluations(self, settings: Settings) -> float:
        """One density per step, and one at the start of each."""
        return 2.0 * settings[0, 1]


class GivenKernel:
    """A kernel that needs no numbers: Gibbs sweeps, or the caller's own."""

    dense = False

    def __init__(self, kernel: AnyKernel, num_evaluations: float, name: str):
        self.given, self.cost, self.name = kernel, num_evaluations, name

    def words(self, settings: np.ndarray) -> str:
        """Its name: there are no numbers."""
        return self.name

    def tune(
        self, key: Key, path: Path, population: Population, frame: Frame, last: Settings | None
    ) -> TunedKernel:
        """Nothing to choose."""
        walked = walk(key, path, self.given, population)
        spent = population.num * LAGS * self.cost
        return TunedKernel(np.zeros((0, 2)), walked, int(spent))

    def coordinates(self, flat: np.ndarray) -> None:
        """Its own."""

    def kernel(
        self, settings: Settings, factor: np.ndarray, coordinates: ScaledCoordinates | None = None
    ) -> AnyKernel:
        """The same everywhere."""
        return self.given

    def num_evaluations(self, settings: Settings) -> float:
        """As stated."""
        return self.cost


def num_needed(acceptance: Float[np.ndarray, "n lags parts"]) -> int:
    """Of steps of falling size, how many leave hardly more particles behind than all of them.

    One more than there are where even all of them leave many more than chance does.
    """
    num_parts = acceptance.shape[2]
    expected = np.prod(1 - acceptance[..., 0].mean(axis=0))
    stuck = [np.mean(acceptance[..., : num + 1].max(axis=(1, 2)) == 0) for num in range(num_parts)]
    if stuck[-1] > MOST_STUCK + expected:
        return num_parts + 1
    return int(np.argmax(stuck <= stuck[-1] + MORE_STUCK)) + 1


def ladder(first: np.ndarray) -> Settings:
    """A step, and smaller ones in a row: for densities whose scale changes from place to place."""
    sizes = first[0] / RUNG ** np.arange(NUM_RUNGS)
    return np.column_stack([sizes, [first[1], *[LENGTH] * (NUM_RUNGS - 1)]])


def _sizes(last: Settings | None) -> np.ndarray:
    """Step sizes to try: about those of the temperature before."""
    if last is None:
        return 1.4 * 2.0 ** np.linspace(-5.0, 0.0, NUM_SIZES)
    return float(last[0, 0]) * 2.0 ** np.linspace(-2.0, 1.0, NUM_SIZES)
