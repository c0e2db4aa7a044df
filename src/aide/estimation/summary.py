r"""The numbers: AIDE's estimate and everything that can be said about it from the draws."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aide.draws.draws import Draws
from aide.draws.repeats import rests_on_one_density
from aide.draws.storage.dataset import to_xarray
from aide.draws.storage.files import load, save
from aide.estimation.advice import Advice, find_advice
from aide.estimation.interval import (
    check_level,
    confidence_limit,
    total_variation_bound,
    unseen_share,
)
from aide.estimation.quantities import (
    Direction,
    KlBounds,
    LogZBounds,
    Looseness,
    MetaCurve,
    check_role,
    kl_bounds_of,
    log_z_bounds_of,
    looseness_of,
    mean_of,
    meta_curve_of,
    terms_of,
)
from aide.estimation.quantities import (
    Mean as Mean,
)

if TYPE_CHECKING:
    from aide.estimation.sandwich.sandwich import Sandwich


@dataclass(frozen=True, repr=False, eq=False)
class Estimate:
    r"""AIDE's upper bound on the symmetrised KL divergence between two algorithms' outputs.

    $E[\hat D] \ge KL(gold \| target) + KL(target \| gold)$, with equality for perfect
    meta-inference; the bound falls as either M grows. Computed from `draws` alone.
    """

    draws: Draws

    @cached_property
    def gold_terms(self) -> np.ndarray:
        r"""$\log\hat\xi_{gold}(x_n) - \log\hat\xi_{target}(x_n)$ at the gold standard's outputs."""
        return terms_of(self.draws)[0]

    @cached_property
    def target_terms(self) -> np.ndarray:
        r"""$\log\hat\xi_{target}(x'_n) - \log\hat\xi_{gold}(x'_n)$ at the target's outputs."""
        return terms_of(self.draws)[1]

    @property
    def value(self) -> float:
        r"""$\hat D$ in nats. May be negative by chance when the divergence is near 0."""
        return self.gold_to_target.value + self.target_to_gold.value

    @property
    def std_error(self) -> float:
        """Standard error of `value`: the two samples are independent."""
        return float(np.hypot(self.gold_to_target.std_error, self.target_to_gold.std_error))

    @property
    def gold_to_target(self) -> Direction:
        r"""$KL(gold \| target)$ side: mass of the gold standard that the target misses."""
        return self._direction(self.gold_terms)

    @property
    def target_to_gold(self) -> Direction:
        r"""$KL(target \| gold)$ side: mass that the target invents."""
        return self._direction(self.target_terms)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        r"""Confidence interval for $E[\hat D]$, corrected for skewness; see `confidence_limit`.

        Law: with probability `level` it holds the sum of both means, for some outputs of mass at
        most `unseen(level)` left out.
        """
        check_level(level)
        return self._limit(0.5 - level / 2), self._limit(0.5 + level / 2)

    def unseen(self, level: float = 0.95) -> tuple[float, float]:
        """Share of the gold standard's and of the target's outputs that no run may have shown."""
        check_level(level)
        sides = (self.draws.gold, self.draws.target)
        gold, target = (unseen_share(side.num_runs, level) for side in sides)
        return gold, target

    def _limit(self, level: float) -> float:
        return confidence_limit((self.gold_terms, self.target_terms), level)

    def total_variation(self, level: float = 0.95) -> float:
        r"""Any probability under the target differs from the gold standard's by at most this much.

        Law: holds with probability `level`. $V + \max(\varepsilon)$, where $V$ solves
        $2V\log\frac{1+V}{1-V} = D$ at the upper end of `interval(level)` and $\varepsilon$ is
        `unseen(level)`: if $p = (1-\varepsilon)p' + \varepsilon r$ and $q = (1-\varepsilon')q' +
        \varepsilon's$, then $TV(p, q) \le TV(p', q') + \max(\varepsilon, \varepsilon')$.
        1 where the estimate rests on one density that both state (`rests_on_one_density`).
        """
        if rests_on_one_density(self.draws):  # the estimate says nothing about the samplers
            return 1.0
        seen = total_variation_bound(self.interval(level)[1])
        return min(seen + max(self.unseen(level)), 1.0)

    @cached_property
    def looseness(self) -> Looseness:
        """The looseness meter, at each algorithm's own outputs; see `Looseness`."""
        return looseness_of(self.draws)

    @cached_property
    def log_z_bounds(self) -> LogZBounds | None:
        r"""Evidence bounds, where exactly one of the two $\log Z$ is unknown."""
        return log_z_bounds_of(self.draws, self.gold_terms, self.target_terms)

    @cached_property
    def kl_bounds(self) -> KlBounds:
        r"""Each direction from both sides, where its second argument is tractable."""
        return kl_bounds_of(self.draws)

    def meta_curve(self, role: str = "target") -> MetaCurve:
        """The estimate for M = 1, 2, … of `role`, from the same draws, own trace always kept."""
        check_role(role)
        return meta_curve_of(self.draws, role)

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """Which M to raise, to what, and how far the bound would fall; empty if not worthwhile."""
        return find_advice(self.draws, self.value, self.std_error)

    def sandwich(self, level: float = 0.95) -> "Sandwich":
        r"""$lower \le D \le upper$ with probability `level`.

        Above, AIDE's bound without `unseen(level)` outputs; below, a classifier between the two
        algorithms' outputs, or, if both are tractable, AIDE's estimate itself. Needs
        `keep_values=True` unless both are tractable. It never lies beside `interval(level)`.
        """
        check_level(level)
        if level not in self._sandwiches:
            from aide.estimation.sandwich.sandwich import find_sandwich

            self._sandwiches[level] = find_sandwich(self.draws, level)
        return self._sandwiches[level]

    @cached_property
    def _sandwiches(self) -> "dict[float, Sandwich]":
        return {}

    @property
    def asked_levels(self) -> tuple[float, ...]:
        """Levels for which a sandwich was made already."""
        return tuple(self._sandwiches)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What to keep in mind about these numbers, in words."""
        from aide.estimation.caution import find_cautions

        return find_cautions(self)

    def to_xarray(self) -> Any:
        """All draws as an `xarray.Dataset`."""
        return to_xarray(self.draws)

    def save(self, path: str | Path) -> None:
        """Write all draws to a netCDF file, or a zarr folder if the name ends in `.zarr`."""
        save(self.draws, path)

    @staticmethod
    def load(path: str | Path) -> "Estimate":
        """Read what `save` wrote."""
        return Estimate(load(path))

    def plot(self, axes: Any = None) -> Any:
        """Draw the estimate against M and the distribution of its terms; return the figure."""
        from aide.estimation.plot import plot_estimate

        return plot_estimate(self, axes)

    def __repr__(self) -> str:
        from aide.estimation.report import summary_text

        return summary_text(self)

    def __rich__(self) -> Any:
        from aide.estimation.report import summary_table

        return summary_table(self)

    def _direction(self, terms: np.ndarray) -> Direction:
        known = all(z is not None for z in self.draws.log_z)
        # With both constants known they are taken off, so that each direction is a KL bound.
        shift = (self.draws.log_z[1] or 0.0) - (self.draws.log_z[0] or 0.0) if known else 0.0
        sign = 1.0 if terms is self.gold_terms else -1.0
        mean = mean_of(terms)
        infinite = int(np.isinf(terms).sum())
        return Direction(mean.value + sign * shift, mean.std_error, known, infinite)


def summarise(draws: Draws) -> Estimate:
    """Turn draws into numbers."""
    return Estimate(draws)
