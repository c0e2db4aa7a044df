"""Settings of a target, the stored numbers of each (no draws), and plots of several settings."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.versions import budget_version, rebuilt
from aide.comparing.columns import total_looseness
from aide.engine.pilot import PilotDraws
from aide.engine.programs.tracing import users_code_ran
from aide.engine.stage import Sizes
from aide.estimation.closeness import LEVEL, bound_of
from aide.estimation.errors.tolerance import (
    ErrorCloseness,
    ErrorTolerance,
    Tolerance,
    judge_errors,
    tolerance_words,
)
from aide.estimation.errors.variables import NamesOutputs
from aide.estimation.sandwich.balance import balanced_error, balanced_limits
from aide.estimation.summary import Estimate
from aide.reporting.figures import few_ticks, plain_ticks
from aide.reporting.numbers import PASSED, short

Setting = dict[str, Any]
Family = Callable[..., InferenceAlgorithm] | InferenceAlgorithm
"""A function from parameters to an algorithm, or an algorithm that can be rebuilt with others."""
METAS = ("num_meta_gold", "num_meta_target")
"""Parameters of the estimate that a grid may have besides those of the target."""
BUDGET = "budget_factor"
"""Name of the parameter that multiplies the budget of an algorithm with `with_budget`."""


def settings_of(
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
) -> tuple[Setting, ...]:
    """All combinations of a grid, the last parameter fastest; or the settings of a list."""
    found: list[Setting]
    if isinstance(grid, Mapping):
        names, values = [str(name) for name in grid], [list(each) for each in grid.values()]
        found = [dict(zip(names, each, strict=True)) for each in itertools.product(*values)]
    else:
        found = [dict(setting) for setting in grid]
    if not found or not all(found):
        raise ValueError(
            "settings must be a grid such as {'num_particles': [10, 100]}, or a list of such "
            f"dictionaries with one value each, got {grid!r}."
        )
    if any(set(setting) != set(found[0]) for setting in found):
        raise ValueError("all settings must have the same parameters.")
    return tuple(found)


def build(family: Family, setting: Setting) -> InferenceAlgorithm:
    """The algorithm at a setting: the function's, or the given one with other parameters.

    An algorithm is rebuilt with these fields, or with a multiple of its budget if the only
    parameter is `budget_factor`.
    """
    own = {name: value for name, value in setting.items() if name not in METAS}
    if not isinstance(family, InferenceAlgorithm):
        algorithm = family(**own)
        users_code_ran()
        return algorithm
    if not own:
        return family
    if set(own) == {"budget"}:
        raise ValueError("the parameter budget is called budget_factor now.")
    found = budget_version(family, own[BUDGET]) if set(own) == {BUDGET} else rebuilt(family, **own)
    if found is None:
        raise ValueError(
            f"{describe(family)} cannot be had with {words_of(setting)}: pass a function from "
            "parameters to an algorithm instead."
        )
    return found


def metas_of(setting: Setting, num_meta_gold: int, num_meta_target: int) -> Sizes:
    """M of both algorithms at a setting."""
    return {
        "num_meta_gold": int(setting.get("num_meta_gold", num_meta_gold)),
        "num_meta_target": int(setting.get("num_meta_target", num_meta_target)),
    }


def words_of(setting: Setting) -> str:
    """A setting in words, such as `num_particles=100, step=0.5`."""
    return ", ".join(f"{name}={_short(value)}" for name, value in setting.items())


def particles_of(algorithm: InferenceAlgorithm) -> int | None:
    """The algorithm's own number of particles; `None` if it states none."""
    found = getattr(algorithm, "num_particles", None)
    return found if isinstance(found, int) else None


def axis_of(settings: Sequence[Setting]) -> str | None:
    """The name of the only parameter that varies, if its values are numbers; else `None`."""
    names = [name for name in settings[0] if len({repr(setting[name]) for setting in settings}) > 1]
    if len(names) != 1:
        return None
    values = [setting[names[0]] for setting in settings]
    is_numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return names[0] if is_numeric else None


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 24 else f"{text[:23]}…"


KINDS = {"means": "a mean off by", "sds": "an sd off by", "probabilities": "a probability off by"}
"""Headings of the limits of the largest error, by the kind of the tolerance."""


class Point(NamedTuple):
    """One setting, measured.

    Attributes:
        setting: The parameters.
        num_particles: The algorithm's number of particles, or `None`.
        seconds: Seconds of one run of the target, measured on this machine.
        value: AIDE's estimate by its plain terms, that of `aide.estimate`.
        std_error: Standard error of `value`.
        bound: The same bound by balanced terms, which vary less.
        low: Lower 95% limit of `bound`; no lower limit of the divergence.
        high: Upper 95% limit of the divergence, not counting `Estimate.unseen` outputs.
        looseness: Nats that meta-inference adds at own outputs, or `None`.
        num_meta: M of the target.
        num_runs: Runs of the target.
        bound_std_error: Standard error of `bound`.
        closeness: Errors of the variables and their tolerance, or `None`.
    """

    setting: Setting
    num_particles: int | None
    seconds: float
    value: float
    std_error: float
    bound: float
    low: float
    high: float
    looseness: float | None
    num_meta: int
    num_runs: int
    bound_std_error: float = np.nan
    closeness: ErrorCloseness | None = None

    def is_within(self, tolerance: Tolerance) -> bool:
        """Whether limits at 95%, taken alone, are within the tolerance."""
        if isinstance(tolerance, ErrorTolerance):
            return self.closeness is not None and self.closeness.outcome == PASSED
        return self.high <= tolerance

    @property
    def name(self) -> str:
        """The setting in words."""
        return words_of(self.setting)

    def record(self) -> dict[str, Any]:
        """All numbers, parameters first."""
        numbers = {k: v for k, v in self._asdict().items() if k not in ("setting", "closeness")}
        tolerance = None if self.closeness is None else self.closeness.tolerance
        errors = error_record(tolerance, self.closeness)
        return {**self.setting, **numbers, **errors}


def titles_of(tolerance: Tolerance) -> tuple[str, ...]:
    """Titles of the columns about the tolerance."""
    if isinstance(tolerance, ErrorTolerance):
        return tuple(KINDS[kind] for kind in kinds_of(tolerance))
    return "bound (nats)", "95% limits"


def kinds_of(tolerance: ErrorTolerance) -> list[str]:
    """The kinds of error that a tolerance limits, in the order of the parts of a verdict."""
    return [kind for kind, limit in tolerance._asdict().items() if limit is not None]


def error_cells(closeness: ErrorCloseness) -> tuple[str, ...]:
    """Limits of the largest error of every kind."""
    return tuple(part.range for part in closeness.parts)


def error_record(
    tolerance: Tolerance | None, closeness: ErrorCloseness | None
) -> dict[str, float | None]:
    """Limits of the largest error of every kind, in sds, logs of sd ratios, and probabilities."""
    found: dict[str, float | None] = {}
    if isinstance(tolerance, ErrorTolerance):
        for index, kind in enumerate(kinds_of(tolerance)):
            part = None if closeness is None else closeness.parts[index]
            found[f"{kind}_low"] = None if part is None else part.least
            found[f"{kind}_high"] = None if part is None else part.most
    return found


def point_of(
    setting: Setting,
    num_particles: int | None,
    found: PilotDraws,
    tolerance: Tolerance | None = None,
    posterior: NamesOutputs | None = None,
) -> Point:
    """The numbers of one target's draws; with errors if the tolerance is one of errors."""
    estimate = Estimate(found.draws, posterior=posterior)
    low, high = balanced_limits(found.draws, LEVEL)
    target = found.draws.target
    return Point(
        setting,
        num_particles,
        found.costs[1].simulate,
        estimate.value,
        estimate.std_error,
        bound_of(estimate),
        low,
        high,
        total_looseness(estimate),
        target.num_meta,
        target.num_runs,
        balanced_error(found.draws),
        judge_errors(estimate, tolerance) if isinstance(tolerance, ErrorTolerance) else None,
    )


def seconds_words(seconds: float) -> str:
    """A time in words, such as `1.2 ms`."""
    if seconds >= 1.0:
        return f"{short(seconds)} s"
    return f"{short(1e3 * seconds)} ms" if seconds >= 1e-3 else f"{short(1e6 * seconds)} µs"


COLOUR = "#1f6fb4"
"""Colour of bounds and bands."""


def plot_points(
    axis: Any,
    places: Sequence[float],
    points: Sequence[Point],
    tolerance: Tolerance | None = None,
    label: str = "",
    others: Sequence[float] = (),
) -> Any:
    """Plot the bound with its 95% band against `places`, on logarithmic scales if possible.

    With a tolerance of errors, plot the largest error divided by its tolerance. `others` are
    further places on the axis, for the choice of the scale.

    Args:
        axis: The matplotlib axes to draw into.
        places: Where each point stands on the horizontal axis.
        points: The points of a sweep or of a tuning.
        tolerance: The largest divergence or errors that are good enough; a dashed line.
        label: A name for the legend.
        others: Places of what is drawn beside the points.

    Returns:
        The axes, with points and bands drawn.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> from aide import plots
        >>> from matplotlib.figure import Figure
        >>> shifted = lambda shift: aide.Tractable.of(Normal(shift, 1.0))
        >>> settings = {"shift": [1.0, 0.1]}
        >>> curve = aide.sweep(0, exact, shifted, settings, num_gold=100, num_target=100)
        >>> axis = plots.plot_points(Figure().subplots(), [1.0, 0.1], curve.points)
    """
    is_errors = isinstance(tolerance, ErrorTolerance)
    order = np.argsort(places, kind="stable")
    x = np.asarray(places, float)[order]
    bands = [_band(points[index], is_errors) for index in order]
    value, low, high = np.array(bands, float).reshape(-1, 3).T
    finite = np.isfinite(value) & np.isfinite(high)
    axis.plot(x[finite], value[finite], "o-", color=COLOUR, ms=3, lw=1, label=label or None)
    axis.fill_between(x[finite], low[finite], high[finite], color=COLOUR, alpha=0.2, lw=0)
    if finite.sum() == 1:  # a band of one point has no width
        axis.vlines(x[finite], low[finite], high[finite], color=COLOUR, lw=1)
    if tolerance is not None:
        level = 1.0 if isinstance(tolerance, ErrorTolerance) else tolerance
        axis.axhline(level, color="grey", ls="--", lw=1, label=tolerance_words(tolerance))
        axis.legend(frameon=False)
    spread = np.concatenate([x, np.asarray(others, float)])
    if finite.any() and (spread > 0).all() and spread.max() > 5 * spread.min():
        axis.set_xscale("log")
        plain_ticks(axis.xaxis)
    else:
        few_ticks(axis.xaxis)
    if finite.any() and (value[finite] > 0).all():
        axis.set_yscale("log")
        plain_ticks(axis.yaxis)
    label = "largest error / tolerance" if is_errors else "bound on the divergence (nats)"
    axis.set_ylabel(label)
    return axis


def _band(point: Point, is_errors: bool) -> tuple[float, float, float]:
    """The value, the lower and the upper limit of one point."""
    if not is_errors:
        return point.bound, point.low, point.high
    if point.closeness is None:
        return np.nan, np.nan, np.nan
    low, value, high = point.closeness.shares
    return value, low, high
