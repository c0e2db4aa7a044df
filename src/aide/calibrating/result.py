"""What simulation-based calibration says of a fit, beside its divergence on the same data sets."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from aide.auditing.simulated import Simulated
from aide.calibrating.bands import band_of_ranks, uniform_p_value
from aide.reporting.figures import PanelGrid, as_label
from aide.reporting.grid import Grid
from aide.reporting.numbers import (
    FAILED,
    PASSED,
    UNDECIDED,
    Verdict,
    in_nats,
    interval,
    p_value,
    short,
    with_error,
)
from aide.reporting.result import Result

MOST_LINES = 8
"""Largest number of functions in the table."""
MOST_PANELS = 6
"""Largest number of functions in the figure."""
FEW_DRAWS = 20
"""Median number of draws of a data set below which ranks are coarse, and a note says so."""
MOVED = 3.0
"""Standard errors by which a mean or a spread of ranks must differ to be named."""
RANKS_MISS = (
    "A right posterior. The prior returned for all data has uniform ranks, and an error in rare "
    "data, or in how variables depend on each other, hardly moves a rank."
)


class RankTest(NamedTuple):
    """The ranks of one function.

    Attributes:
        function: Name of the function.
        p_value: P-value of uniform ranks, of this function alone.
        mean: Mean of the ranks; 0.5 is right, and above it the draws are too low.
        spread: Standard deviation of the ranks divided by that of uniform numbers; above 1 the
            draws are too narrow, below 1 too wide.
        reading: What the mean or the spread says, if either differs from uniform ranks.
    """

    function: str
    p_value: float
    mean: float
    spread: float
    reading: str


@dataclass(frozen=True, repr=False, eq=False)
class Calibration(Result):
    r"""Ranks of simulated parameters among the draws of fits to their data.

    Law: if every fit gives independent draws of the posterior, a miscalibration is claimed with
    probability `1 - level` at most, for all functions together.

    Attributes:
        ranks: Normalised ranks in (0, 1), shape (data set, function); uniform if the fit is right.
        functions: The names of the functions.
        num_draws: Draws per data set among which the truth was ranked.
        given: Draws per data set that the fit gave, before autocorrelated draws were thinned.
        nats: AIDE on the same data sets; `None` without `log_joint` or a fit with a density.
        name: The fit.
        level: The confidence of all bands together.
        tolerance: Nats that are good enough, if they were given.
        about: What the data sets were simulated from.
        why_slow: The reason why data sets were run one by one; empty if they were compiled.

    Example:
        >>> def sample_joint(key):
        ...     x, noise = jax.random.normal(key, 2)
        ...     return x, x + noise
        ...
        >>> exact = lambda key, y: aide.Tractable.of(Normal(0.5 * y, 0.5**0.5))
        >>> found = aide.check_calibration(0, sample_joint, exact, num_datasets=50)
        >>> found.num_datasets, found.ranks.shape[1] == len(found.functions)
        (50, True)
    """

    ranks: np.ndarray
    functions: tuple[str, ...]
    num_draws: np.ndarray
    given: np.ndarray
    nats: Simulated | None
    name: str
    level: float
    tolerance: float | None
    about: str
    why_slow: str = ""

    @property
    def num_datasets(self) -> int:
        """Number of data sets."""
        return len(self.ranks)

    @property
    def band_level(self) -> float:
        """The confidence of the band of each function (Bonferroni)."""
        return 1 - (1 - self.level) / len(self.functions)

    @cached_property
    def tests(self) -> tuple[RankTest, ...]:
        """The test of every function, the smallest p-value first."""
        found = [
            _test(name, column) for name, column in zip(self.functions, self.ranks.T, strict=True)
        ]
        return tuple(sorted(found, key=lambda test: test.p_value))

    @property
    def p_value(self) -> float:
        """P-value of the hypothesis that the ranks of all functions are uniform."""
        return min(1.0, len(self.tests) * self.tests[0].p_value)

    @property
    def outside(self) -> tuple[RankTest, ...]:
        """Functions whose ranks leave their band."""
        return tuple(test for test in self.tests if test.p_value <= 1 - self.band_level)

    @property
    def verdict(self) -> Verdict:
        """`failed` if ranks leave their bands; `passed` if the nats are below the tolerance, too.

        Ranks alone never pass a fit.
        """
        return FAILED if self.outside else PASSED if self.is_close else UNDECIDED

    @property
    def is_close(self) -> bool:
        """Whether the nats are shown to be below the tolerance, if there are both."""
        if self.nats is None or self.tolerance is None:
            return False
        return self.nats.interval(self.level)[1] <= self.tolerance

    @property
    def hard_share(self) -> float | None:
        r"""The share of data sets, the hardest ones, that hold half of the nats.

        A data set's term $D$ at M = 1 is $|D|\tanh(|D|/2)$ on average given $|D|$ (the law of
        `aide.auditing.simulated_runs`): this number has no sign and less noise, and is taken here.
        """
        if self.nats is None or not np.isfinite(self.nats.terms).all():
            return None
        pieces = self.nats.pieces
        exact = pieces.exact_log_joint - pieces.exact_log_xi[:, 0]
        sizes = np.abs(exact - pieces.own_log_joint + pieces.own_log_xi[:, 0])
        sums = np.cumsum(np.sort(sizes * np.tanh(sizes / 2))[::-1])
        return float((1 + np.searchsorted(sums, 0.5 * sums[-1])) / sums.size)

    @property
    def subject(self) -> str:
        """The fit, and what the data were simulated from."""
        return f"{self.name} on {self.about}"

    @property
    def headline(self) -> str:
        """Whether ranks leave their bands, on one line."""
        num, level = len(self.functions), f"{100 * self.level:g}%"
        size = (
            f"p = {self.p_value:.2g}".replace("p = 0", "p < 1e-300")
            if not self.p_value
            else (p_value(self.p_value))
        )
        if not self.outside:
            what = "the ranks of " + ("1 function" if num == 1 else f"all {num} functions")
            bands = "their" if num > 1 else "the"
            return f"No miscalibration seen: {what} stay in {bands} {level} band ({size})"
        names = ", ".join(test.function for test in self.outside[:3])
        more = f" and {len(self.outside) - 3} more" if len(self.outside) > 3 else ""
        return f"Not calibrated: ranks of {names}{more} leave their {level} bands ({size})"

    def rows(self) -> list[tuple[str, str]]:
        """The draws, the divergence on the same data, and what ranks do not show."""
        sizes, given = self.num_draws, self.given
        many, all_of = (f"{int(np.median(num)):,}" for num in (sizes, given))
        found = [("data sets", f"{self.num_datasets:,}, each with {_range(sizes)} ranked draws.")]
        if (sizes < given).any():
            text = (
                f"Autocorrelated: {many} were ranked, of {int(np.median(given)):,} that a fit gave."
            )
            found.append(("draws", text))
        if self.nats is None:
            text = (
                "Not measured: log_joint, and a fit with a density, give the divergence from the "
                "exact posterior on the same data sets."
            )
            return [*found, ("divergence", text), ("not shown", RANKS_MISS)]
        low, high = self.nats.interval(self.level)
        text = (
            f"At most {with_error(self.nats.value, self.nats.std_error)} nats from the exact "
            f"posterior, on average over the same data sets ({100 * self.level:g}% interval "
            f"{interval(low, high)})."
        )
        found.append(("divergence", text))
        if self.hard_share is not None and low > 0:
            share = f"{100 * self.hard_share:.2g}%"
            found.append(("hard data", f"Half of these nats are in {share} of the data sets."))
        if self.tolerance is not None:
            shown = "was shown" if self.is_close else "was not shown"
            text = f"A divergence below {in_nats(self.tolerance)} {shown}."
            found.append(("tolerance", text))
        found.append(("unseen", dict(self.nats.rows())["unseen"]))
        return [*found, ("not shown", f"By ranks: {RANKS_MISS[0].lower()}{RANKS_MISS[1:]}")]

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats."""
        found = [] if self.nats is None else [*self.nats.notes]
        if np.median(self.num_draws) < FEW_DRAWS:
            found.append(
                f"The truth was ranked among {int(np.median(self.num_draws))} draws in the median: "
                "ranks are coarse, and errors in the tails stay unseen."
            )
        if self.why_slow and self.nats is None:
            found.append(
                "Data sets were run one by one, not compiled, because JAX could not trace them: "
                f"{self.why_slow}"
            )
        return tuple(found)

    def grid(self) -> Grid:
        """The functions with the smallest p-values."""
        titles = ("function", "p-value", "mean rank", "spread", "reading")
        lines = tuple(
            (
                test.function,
                p_value(test.p_value),
                short(test.mean),
                short(test.spread),
                test.reading,
            )
            for test in self.tests[:MOST_LINES]
        )
        return Grid(titles, lines, ("",) * len(lines), frozenset(("function", "reading")))

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per function."""
        return [test._asdict() for test in self.tests]

    def numbers(self) -> dict[str, Any]:
        """The numbers of the ranks and of the nats."""
        return {
            "p_value": self.p_value,
            "level": self.level,
            "num_datasets": self.num_datasets,
            "num_draws": _range(self.num_draws),
            "tolerance": self.tolerance,
            "hard_share": self.hard_share,
            "nats": None if self.nats is None else self.nats.numbers(),
        }

    def layout(self) -> PanelGrid:
        """A panel per function, the worst ones first, and one for the nats."""
        num = min(len(self.functions), MOST_PANELS) + (self.nats is not None)
        columns = min(num, 3)
        return PanelGrid(-(-num // columns), columns, (3.2 * columns, 2.8 * -(-num // columns)))

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot the ECDF of ranks minus the diagonal with its band, and the nats per data set."""
        limits = band_of_ranks(self.num_datasets, self.band_level)
        for panel, test in zip(panels, self.tests[:MOST_PANELS], strict=False):
            ranks = np.sort(self.ranks[:, self.functions.index(test.function)])
            shares = np.searchsorted(ranks, limits.points, side="right") / ranks.size
            low, high = (part - limits.points for part in (limits.lower, limits.upper))
            panel.fill_between(limits.points, low, high, color="0.85", lw=0)
            colour = "#b3392f" if test in self.outside else "#1f6fb4"
            panel.plot(limits.points, shares - limits.points, color=colour, lw=1.5)
            panel.axhline(0.0, color="grey", lw=0.5)
            panel.set(xlabel="normalised rank", title=as_label(test.function))
        panels[0].set_ylabel("ECDF of ranks, minus uniform")
        num = min(len(self.functions), MOST_PANELS)
        if self.nats is not None:
            self.nats.plot_on(panels[num : num + 1])
        for panel in panels[num + (self.nats is not None) :]:
            panel.set_axis_off()


def _test(name: str, ranks: np.ndarray) -> RankTest:
    num, centred = ranks.size, ranks - 0.5
    mean, square = float(centred.mean()), float((centred**2).mean())
    found = []
    if abs(mean) > MOVED * (12 * num) ** -0.5:
        found.append("draws too low" if mean > 0 else "draws too high")
    if abs(square - 1 / 12) > MOVED * (180 * num) ** -0.5:
        found.append("draws too narrow" if square > 1 / 12 else "draws too wide")
    return RankTest(
        *(name, uniform_p_value(ranks), 0.5 + mean, (12 * square) ** 0.5, ", ".join(found))
    )


def _range(numbers: np.ndarray) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
