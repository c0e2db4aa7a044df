r"""Repair: correcting means, sds and quantiles by weights $\hat\xi_{gold}/\hat\xi_{target}$.

For every algorithm, with any meta-inference and any M, these are importance weights from the
target's outputs to the gold standard's, correct on average up to a constant, by the identity of
`aide.estimation.errors.overlap`. Averages with them are reliable if the weights have a light tail,
which $\hat k$ of Pareto-smoothed importance sampling measures (Vehtari, Simpson, Gelman, Yao &
Gabry, 2024, JMLR 25:72). Weights cannot add regions that the target did not visit.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aide._core.types import TARGET
from aide.estimation.errors.overlap import Overlap
from aide.estimation.errors.quantiles import QUANTILES
from aide.estimation.errors.variables import OutputVariable
from aide.estimation.interval import importance_shape
from aide.reporting.figures import PanelGrid, plot_limits
from aide.reporting.grid import Grid
from aide.reporting.numbers import rounded_up, short, with_error
from aide.reporting.result import Result

if TYPE_CHECKING:
    from aide.estimation.errors.errors import Errors

MOST_K_HAT = 0.7
"""Largest k-hat at which averages with the weights have a reliable error (Vehtari et al., 2024)."""
FEWEST_WEIGHTS = 25
"""Least number of weights for a k-hat: a choice."""


@dataclass(frozen=True, repr=False, eq=False)
class Repair(Result):
    """Means, sds and quantiles of the target's outputs after weighting, or why there are none.

    Attributes:
        names: Names of gold standard and target.
        k_hat: Shape of the tail of the weights.
        effective: Number of independent draws from the gold standard with the same precision.
        refusal: Why the weights cannot be used, in words; empty if they can be.
        log_weights: Log weight of every output of the target, in the order of runs; not normalised.
        lines: One dictionary per variable: corrected numbers, standard errors, and the target's.
        columns: Values of all variables at the target's outputs.
    """

    names: tuple[str, str]
    k_hat: float
    effective: float
    refusal: str
    log_weights: np.ndarray
    lines: tuple[dict[str, Any], ...]
    columns: dict[str, np.ndarray]

    @property
    def is_refused(self) -> bool:
        """Whether the weights cannot be used."""
        return bool(self.refusal)

    @property
    def weights(self) -> np.ndarray:
        """Normalised weights of the target's outputs, in the order of its runs.

        Raises:
            ValueError: If the weights cannot be used; `log_weights` are there all the same.
        """
        if self.refusal:
            raise ValueError(f"These weights cannot be used: {self.refusal}")
        return _normalised(self.log_weights)

    def draws(self, num: int | None = None, seed: int = 0) -> dict[str, np.ndarray]:
        """Draws by name, (chain, draw) with one chain, as `arviz.from_dict` takes them.

        Draws are the target's outputs, resampled by weight (systematic resampling).

        Args:
            num: Number of draws; by default `effective`, rounded down.
            seed: Seed of the resampling.
        """
        weights = self.weights
        size = max(int(self.effective), 1) if num is None else num
        points = (np.arange(size) + np.random.default_rng(seed).random()) / size
        rows = np.minimum(np.searchsorted(np.cumsum(weights), points), weights.size - 1)
        return {name: column[rows][None] for name, column in self.columns.items()}

    @property
    def subject(self) -> str:
        """The names: which outputs are weighted, towards which algorithm."""
        return f"{self.names[1]}, weighted towards {self.names[0]}"

    @property
    def headline(self) -> str:
        """The precision of corrected means, or why there are none."""
        if self.refusal:
            return f"No repair: {self.refusal}"
        most = max((line["mean_error_in_sds"] for line in self.lines), default=0.0)
        return (
            f"Weighting the target's {self.log_weights.size:,} outputs gives these means to within "
            f"{rounded_up(1.96 * most)} sd (k-hat {self.k_hat:.2f}, worth "
            f"{self.effective:.0f} draws)"
        )

    def grid(self) -> Grid | None:
        """Means and sds of the target, the corrected ones, and corrected quantiles."""
        if self.refusal:
            return None
        titles = ("variable", "target's mean", "corrected mean", "target's sd", "corrected sd")
        titles = (*titles, "corrected 5 / 50 / 95%")
        lines = tuple(
            (
                line["name"],
                short(line["target_mean"]),
                with_error(line["mean"], line["mean_std_error"]),
                short(line["target_sd"]),
                short(line["sd"]),
                " / ".join(short(line[f"q{100 * level:g}"]) for level in QUANTILES),
            )
            for line in self.lines
        )
        return Grid(titles, lines, ("",) * len(lines), frozenset(titles[:1]), titles[-1:])

    def rows(self) -> list[tuple[str, str]]:
        """A row on what weights cannot repair."""
        text = (
            "Weights see only what the target visited: a region that no output of the target is in "
            "stays missing."
        )
        return [("not shown", text)]

    def numbers(self) -> dict[str, Any]:
        """The quality of the weights."""
        return {
            "k_hat": self.k_hat,
            "effective": self.effective,
            "refusal": self.refusal,
            "num_target": self.log_weights.size,
        }

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per variable; none if the weights are refused."""
        return [] if self.refusal else list(self.lines)

    def layout(self) -> PanelGrid:
        """One panel with a line for every variable."""
        return PanelGrid(size=(6.4, 1.2 + 0.3 * max(len(self.lines), 1)))

    def plot_on(self, panels: np.ndarray) -> None:
        """Draw the change of every mean by weighting, in corrected sds, with 95% limits."""
        moves = [(line["mean"] - line["target_mean"]) / line["sd"] for line in self.lines]
        errors = [1.96 * line["mean_error_in_sds"] for line in self.lines]
        ends = [(m - e, m + e) for m, e in zip(moves, errors, strict=True)]
        plot_limits(panels[0], [line["name"] for line in self.lines], ends, moves)
        panels[0].set_xlabel("corrected mean minus the target's (sds)")


def find_repair(errors: "Errors") -> Repair:
    """Weigh the target's outputs, test the weights, and correct every variable."""
    overlap = errors.overlap
    part = overlap.part(TARGET)
    log_weights = overlap.log_ratio[part]
    enough = np.isfinite(log_weights).sum() >= FEWEST_WEIGHTS
    k_hat = importance_shape(log_weights) if enough else np.nan
    refusal = _refusal(errors, log_weights, k_hat)
    columns = {one.name: one.values[part] for one in errors.variables}
    weights = _normalised(log_weights) if np.isfinite(log_weights).any() else None
    effective = 0.0 if weights is None else float(1 / np.sum(weights**2))
    lines = [] if weights is None else [_line(one, weights, overlap) for one in errors.variables]
    kept = tuple(line for line in lines if line is not None)
    return Repair(errors.names, k_hat, effective, refusal, log_weights, kept, columns)


def _refusal(errors: "Errors", log_weights: np.ndarray, k_hat: float) -> str:
    if not errors.knows_ratios:
        return "no densities entered, so there are no weights."
    if not np.isfinite(log_weights).any():
        return "no output of the target has mass under the gold standard."
    if log_weights.size < FEWEST_WEIGHTS:
        return f"{log_weights.size} weights are too few to judge: {FEWEST_WEIGHTS} are needed."
    if k_hat > MOST_K_HAT:
        return (
            f"the weights have too heavy a tail (k-hat {k_hat:.3g}, above {MOST_K_HAT}), so that "
            "averages with them are not reliable. Improve the target, or raise M."
        )
    return ""


def _normalised(log_weights: np.ndarray) -> np.ndarray:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def _line(variable: OutputVariable, weights: np.ndarray, overlap: Overlap) -> dict[str, Any] | None:
    """Corrected numbers of one variable; `None` if its values are constant or infinite."""
    x = variable.values[overlap.part(TARGET)]
    if not np.isfinite(x).all() or np.ptp(x) == 0:
        return None
    mean = float(weights @ x)
    sd = float(np.sqrt(weights @ (x - mean) ** 2))
    error = float(np.sqrt(np.sum(weights**2 * (x - mean) ** 2)))
    order = np.argsort(x)
    total = np.cumsum(weights[order])
    places = np.minimum(np.searchsorted(total, QUANTILES), x.size - 1)
    found = {
        "name": variable.name,
        "target_mean": float(x.mean()),
        "mean": mean,
        "mean_std_error": error,
        "mean_error_in_sds": error / sd if sd > 0 else np.inf,
        "target_sd": float(x.std()),
        "sd": sd,
    }
    quantiles = zip(QUANTILES, x[order[places]], strict=True)
    return found | {f"q{100 * level:g}": float(value) for level, value in quantiles}
