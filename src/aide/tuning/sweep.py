"""One target at many settings, against one gold standard."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.keywords import keywords
from aide._core.types import Key
from aide.engine.outputs import check_algorithm
from aide.engine.pilot import TimedGold
from aide.engine.programs.map_runs import Progress
from aide.engine.programs.sharing import Client, as_executor, share_out
from aide.engine.programs.tracing import one_call
from aide.engine.stage import Sizes
from aide.estimation.errors.tolerance import AnyTolerance, ErrorTolerance, Tolerance, as_tolerance
from aide.estimation.errors.variables import posterior_of
from aide.estimation.trust import Trust, trust_of_algorithm
from aide.reporting.figures import PanelGrid
from aide.reporting.grid import Grid
from aide.reporting.numbers import PASSED, in_nats, interval, short, with_error
from aide.reporting.result import Result
from aide.tuning.point import (
    Family,
    Point,
    Setting,
    axis_of,
    build,
    error_cells,
    metas_of,
    particles_of,
    plot_points,
    point_of,
    seconds_words,
    settings_of,
    titles_of,
)

MOST_LINES = 40
"""Largest number of settings in a table; more are for records and plots."""


@dataclass(frozen=True, repr=False, eq=False)
class Sweep(Result):
    """AIDE of one target at every setting.

    Attributes:
        gold: The gold standard's name.
        points: One `Point` per setting, in the order given; no draws are kept.
        tolerance: Largest divergence in nats, or errors, that are good enough, or `None`.
        trust: The trust in the gold standard, if known.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> shifted = lambda shift: aide.Tractable.of(Normal(shift, 1.0))
        >>> settings = {"shift": [1.0, 0.1]}
        >>> curve = aide.sweep(0, exact, shifted, settings, num_gold=100, num_target=100)
        >>> [point.setting for point in curve.points]
        [{'shift': 1.0}, {'shift': 0.1}]
    """

    gold: str
    points: tuple[Point, ...]
    tolerance: Tolerance | None = None
    trust: Trust | None = None

    @property
    def headline(self) -> str:
        """The number of settings, and of those with an upper limit within the tolerance."""
        text = f"{len(self.points)} settings measured against {self.gold}"
        if self.tolerance is None:
            return text
        num = sum(point.is_within(self.tolerance) for point in self.points)
        if isinstance(self.tolerance, ErrorTolerance):
            return f"{text}; {num} of them within {self.tolerance}"
        return f"{text}; {num} have an upper limit below {in_nats(self.tolerance)}"

    @property
    def head(self) -> tuple[str, ...]:
        """The trust in the gold standard."""
        return () if self.trust is None else (self.trust.words,)

    def grid(self) -> Grid | None:
        """One line per setting."""
        if len(self.points) > MOST_LINES:
            return None
        is_errors = isinstance(self.tolerance, ErrorTolerance)
        lines = tuple(
            (
                point.name,
                *(() if point.closeness is None else error_cells(point.closeness)),
                with_error(point.bound, point.bound_std_error),
                interval(point.low, point.high),
                "–" if point.looseness is None else short(point.looseness, 2),
                str(point.num_meta),
                seconds_words(point.seconds),
            )
            for point in self.points
        )
        errors = titles_of(self.tolerance) if self.tolerance is not None and is_errors else ()
        bound = "divergence ≤ (nats)", "95% limits", "looseness"
        titles = ("setting", *errors, *bound, "M", "one run")
        verdicts = tuple(
            PASSED if self.tolerance is not None and point.is_within(self.tolerance) else ""
            for point in self.points
        )
        return Grid(titles, lines, verdicts, frozenset({"setting"}), ("M", "looseness"))

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per setting."""
        return [point.record() for point in self.points]

    def rows(self) -> list[tuple[str, str]]:
        """The meaning of the limits."""
        best = min(self.points, key=lambda point: point.bound)
        text = "All errors of one setting hold together with 95% confidence."
        errors = [("errors", text)] if isinstance(self.tolerance, ErrorTolerance) else []
        return [
            ("smallest", f"The smallest bound is {in_nats(short(best.bound))}, at {best.name}."),
            (
                "95% limits",
                "Each limit alone holds with 97.5% confidence. They do not allow for choosing the "
                "best of many settings: aide.tune does.",
            ),
            *errors,
            ("one run", "Time of one run of the target, measured on this machine."),
        ]

    def numbers(self) -> dict[str, Any]:
        """The gold standard and the tolerance."""
        return {
            "gold": self.gold,
            "gold_trust": None if self.trust is None else self.trust.outcome,
            "tolerance": str(self.tolerance)
            if isinstance(self.tolerance, ErrorTolerance)
            else self.tolerance,
            "num_settings": len(self.points),
        }

    def layout(self) -> PanelGrid:
        """Two panels side by side."""
        return PanelGrid(1, 2, (9.0, 3.6))

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot against the parameter or the order of settings (left), and seconds (right)."""
        axis = axis_of([point.setting for point in self.points])
        places = (
            list(range(1, len(self.points) + 1))
            if axis is None
            else [point.setting[axis] for point in self.points]
        )
        plot_points(panels[0], places, self.points, self.tolerance)
        panels[0].set_xlabel("setting" if axis is None else axis)
        if len(panels) > 1:
            seconds = [point.seconds for point in self.points]
            plot_points(panels[1], seconds, self.points, self.tolerance)
            panels[1].set_xlabel("seconds of one run")


@keywords("aide.sweep")
@one_call()
def sweep(
    key: Key | int,
    gold: InferenceAlgorithm,
    target: Family,
    settings: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
    *,
    tolerance: AnyTolerance | None = None,
    num_gold: int = 200,
    num_target: int = 200,
    num_meta_gold: int = 1,
    num_meta_target: int = 1,
    progress: bool | None = None,
    measure_looseness: bool = True,
    chunk_size: int | None = None,
    executor: Executor | Client | None = None,
) -> Sweep:
    """AIDE of a target at every setting of a grid; the gold standard is run once.

    Settings that differ in arrays and floats share one compiled program; integers, such as numbers
    of particles, need one each. Numbers are stored and draws are not, so that memory stays flat.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard.
        target: A function from parameters to an algorithm; or an algorithm, which is rebuilt with
            the parameters as its fields, or at multiples of its budget
            (`budget_factor`).
        settings: Values of every parameter, of which all combinations are measured, or a list of
            settings. `num_meta_gold` and `num_meta_target` may be among the parameters.
        tolerance: Largest divergence in nats that is good enough, or errors: `means 0.1 sd, sds
            10%, probabilities 0.05`; marked in table and plot.
        num_gold: Runs of the gold standard.
        num_target: Runs of the target at every setting.
        num_meta_gold: Meta-inference runs of the gold standard per output.
        num_meta_target: Meta-inference runs of the target per output.
        progress: Show a progress bar; by default in long runs at a terminal.
        measure_looseness: See `aide.draw`.
        chunk_size: See `aide.draw`.
        executor: Measures settings elsewhere, one per worker at a time; see `aide.draw`. The first
            setting runs the gold standard, and the others follow with these runs.

    Returns:
        The bound, its limits and the seconds of one run at every setting; `plot()` draws them.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> exact = aide.Tractable.of(Normal(1.0, 0.5**0.5))
        >>> sampler = lambda num_particles: aide.sir(prior, log_joint, num_particles=num_particles)
        >>> settings = {"num_particles": [2, 50]}
        >>> curve = aide.sweep(0, exact, sampler, settings, num_gold=100, num_target=100)
        >>> curve.points[1].bound < curve.points[0].bound
        True
    """
    check_algorithm("gold", gold)
    if tolerance is not None:
        tolerance = as_tolerance(tolerance)
    chosen, measured = settings_of(settings), TimedGold(key, gold)
    sizes: Sizes = {
        "num_gold": num_gold,
        "num_target": num_target,
        "measure_looseness": measure_looseness,
        "chunk_size": chunk_size,
    }
    points, made = list[Point](), as_executor(executor)

    def tasks(some: Iterable[Setting]) -> Iterator[tuple[Any, ...]]:
        for setting in some:
            metas = metas_of(setting, num_meta_gold, num_meta_target)
            algorithm = build(target, setting)
            yield measured, gold, algorithm, setting, {**sizes, **metas}, tolerance

    with Progress(["settings"], [len(chosen)], progress) as bar:

        def take(_: int, point: Point) -> None:
            points.append(point)
            bar.reporter(0)(1)

        def take_first(_: int, found: tuple[Point, TimedGold]) -> None:
            nonlocal measured
            measured = found[1]
            take(0, found[0])

        parts = {"gold": gold, "target": target}
        share_out(made, _measure_first, tasks(chosen[:1]), take_first, parts=parts)
        share_out(made, _measure_setting, tasks(chosen[1:]), take, parts=parts)
    return Sweep(describe(gold), tuple(points), tolerance, trust_of_algorithm(gold))


def _measure_setting(
    measured: TimedGold,
    gold: InferenceAlgorithm,
    algorithm: InferenceAlgorithm,
    setting: Setting,
    sizes: Sizes,
    tolerance: Tolerance | None,
) -> Point:
    """Measure one setting, here or in a worker."""
    with one_call():
        found = measured.measure(algorithm, sizes)
        named = posterior_of(gold, algorithm)
    return point_of(setting, particles_of(algorithm), found, tolerance, named)


def _measure_first(measured: TimedGold, *task: Any) -> tuple[Point, TimedGold]:
    """Measure one setting; also return the gold standard with its runs."""
    return _measure_setting(measured, *task), measured
