r"""The numbers: AIDE's estimate and everything that can be said about it from the draws."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aide._numerics import running_log_mean_exp
from aide.estimation.draws import Draws, Side
from aide.estimation.storage import load_draws, save_draws, to_xarray


class Mean(NamedTuple):
    """A mean and its standard error (NaN for a single run, infinite for infinite terms)."""

    value: float
    std_error: float


class Direction(NamedTuple):
    r"""One direction of the divergence: a KL bound only if $Z$ is known on both sides.

    Otherwise the value is shifted by an unknown constant that cancels in the sum.
    """

    value: float
    std_error: float
    is_kl_bound: bool
    num_infinite: int


class LogZBounds(NamedTuple):
    r"""A two-sided bound, in expectation, on the unknown $\log Z$ of one algorithm.

    If that algorithm's $\xi$ is $p(x, y)$, this is the log evidence $\log p(y)$.
    """

    of: str
    lower: Mean
    upper: Mean


class Looseness(NamedTuple):
    r"""How much of the estimate meta-inference may be responsible for, at most, per algorithm.

    At the algorithm's own outputs, the average gap between its upper and lower estimate of
    $\log q(x)$; 0 for tractable algorithms; `None` if it was not drawn. Raise M if it is large.
    """

    gold: Mean | None
    target: Mean | None


class MetaCurve(NamedTuple):
    """The estimate for every smaller number of meta-inference runs of one algorithm."""

    num_meta: np.ndarray
    value: np.ndarray
    std_error: np.ndarray


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
        return _terms(self.draws.gold, self.draws.num_meta_gold, self.draws.num_meta_target)

    @cached_property
    def target_terms(self) -> np.ndarray:
        r"""$\log\hat\xi_{target}(x'_n) - \log\hat\xi_{gold}(x'_n)$ at the target's outputs."""
        return _terms(self.draws.target, self.draws.num_meta_target, self.draws.num_meta_gold)

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
        r"""Confidence interval for $E[\hat D]$ (Welch's t, for two samples of different size)."""
        _check_level(level)
        return self._quantile(0.5 - level / 2), self._quantile(0.5 + level / 2)

    def _quantile(self, level: float) -> float:
        if self.value == np.inf:
            return np.inf
        if not np.isfinite(self.std_error):
            return -np.inf if level < 0.5 else np.inf
        if self.std_error == 0.0:
            return self.value
        from scipy import special

        parts = [(t.var(ddof=1) / t.size, t.size) for t in (self.gold_terms, self.target_terms)]
        freedom = sum(v for v, _ in parts) ** 2 / sum(v**2 / (n - 1) for v, n in parts)
        return self.value + float(special.stdtrit(freedom, level)) * self.std_error

    def total_variation(self, level: float = 0.95) -> float:
        r"""Any probability computed from the target is off by at most this much.

        The solution $V$ of $2V\log\frac{1+V}{1-V} = D$ at the upper confidence limit of $D$.
        """
        _check_level(level)
        return total_variation_bound(self._quantile(level))

    @cached_property
    def looseness(self) -> Looseness:
        """The looseness meter; see `Looseness`."""
        draws = self.draws
        return Looseness(
            _gap(draws.gold, draws.num_meta_gold), _gap(draws.target, draws.num_meta_target)
        )

    @cached_property
    def log_z_bounds(self) -> LogZBounds | None:
        r"""Evidence bounds, where exactly one of the two $\log Z$ is unknown."""
        gold_z, target_z = self.draws.log_z
        if (gold_z is None) == (target_z is None):
            return None
        high, low = mean_of(self.gold_terms), mean_of(-self.target_terms)
        if gold_z is None:
            shift, name = target_z, "gold"
        else:
            shift, name = gold_z, "target"
            high, low = mean_of(self.target_terms), mean_of(-self.gold_terms)
        assert shift is not None
        lower = Mean(low.value + shift, low.std_error)
        return LogZBounds(name, lower, Mean(high.value + shift, high.std_error))

    def meta_curve(self, role: str = "target") -> MetaCurve:
        """The estimate for M = 1, 2, … of `role`, from the same draws, own trace always kept."""
        if role not in ("gold", "target"):
            raise ValueError(f"role must be 'gold' or 'target', got {role!r}.")
        draws = self.draws
        sides = (draws.gold, draws.target) if role == "gold" else (draws.target, draws.gold)
        num = draws.num_meta_gold if role == "gold" else draws.num_meta_target
        fixed = draws.num_meta_target if role == "gold" else draws.num_meta_gold
        own = running_log_mean_exp(sides[0].own[:, :num]) - sides[0].scored(fixed)[:, None]
        cross = sides[1].kept(fixed)[:, None] - running_log_mean_exp(sides[1].cross[:, :num])
        columns = [(mean_of(own[:, m]), mean_of(cross[:, m])) for m in range(num)]
        value = np.array([a.value + b.value for a, b in columns])
        std_error = np.array([np.hypot(a.std_error, b.std_error) for a, b in columns])
        return MetaCurve(np.arange(1, num + 1), value, std_error)

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
        save_draws(self.draws, path)

    @staticmethod
    def load(path: str | Path) -> "Estimate":
        """Read what `save` wrote."""
        return Estimate(load_draws(path))

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


def total_variation_bound(divergence: float) -> float:
    r"""The largest total variation that a symmetrised KL divergence $D$ allows."""
    if np.isnan(divergence) or divergence == np.inf:
        return 1.0
    if divergence <= 0.0:
        return 0.0
    from scipy import optimize

    upper = min(0.5 * np.sqrt(divergence), 1.0 - 1e-16)

    def excess(v: float) -> float:
        return 2 * v * (np.log1p(v) - np.log1p(-v)) - divergence

    if excess(upper) <= 0:
        return float(upper)
    root: Any = optimize.brentq(excess, 0.0, upper)
    return float(root)


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}.")


def _terms(side: Side, num_own: int, num_cross: int) -> np.ndarray:
    return side.kept(num_own) - side.scored(num_cross)


def _gap(side: Side, num_meta: int) -> Mean | None:
    fresh = side.fresh(num_meta)
    return None if fresh is None else mean_of(side.kept(num_meta) - fresh)


def mean_of(terms: np.ndarray) -> Mean:
    """Mean and standard error; an infinite term makes both infinite."""
    if np.isinf(terms).any():
        return Mean(float(terms[np.isinf(terms)][0]), np.inf)
    error = terms.std(ddof=1) / np.sqrt(terms.size) if terms.size > 1 else np.nan
    return Mean(float(terms.mean()), float(error))
