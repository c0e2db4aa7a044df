r"""`Estimate`: AIDE's estimate and everything that is computed from the draws about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from aide._core.types import GOLD, TARGET, Role, as_role
from aide.engine.dataset import to_xarray
from aide.engine.draws import Draws
from aide.engine.files import load, save
from aide.estimation.bounds import (
    DirectedBound,
    KlBounds,
    LogZBounds,
    direction_of,
    kl_bounds_of,
    log_z_bounds_of,
)
from aide.estimation.errors.errors import Errors, find_errors
from aide.estimation.errors.repair import Repair
from aide.estimation.errors.tolerance import AnyTolerance
from aide.estimation.errors.total_variation import (
    hellinger_sizes,
    jensen_shannon_sizes,
    total_variation_of,
)
from aide.estimation.errors.variables import NamesOutputs
from aide.estimation.interval import InterimLook, check_level, confidence_limit, unseen_share
from aide.estimation.looseness import (
    Advice,
    Looseness,
    MetaCurve,
    find_advice,
    looseness_of,
    meta_curve_of,
)
from aide.estimation.notes import LEAST_EFFECTIVE, find_notes
from aide.estimation.plot import pictures_of
from aide.estimation.reach import CloserLook, Reach, find_reach
from aide.estimation.report import estimate_headline, estimate_numbers, estimate_rows
from aide.estimation.terms import Terms, Worth, terms_of, worth_of
from aide.estimation.trust import Trust, trust_of
from aide.reporting.figures import PanelGrid
from aide.reporting.result import Result

if TYPE_CHECKING:
    from aide.estimation.closeness import Closeness
    from aide.estimation.errors.tolerance import ErrorCloseness
    from aide.estimation.sandwich.sandwich import Sandwich


@dataclass(frozen=True, repr=False, eq=False)
class Estimate(Result):
    r"""AIDE's upper bound on the symmetrised KL divergence between two algorithms' outputs.

    $E[\hat D] \ge KL(gold \| target) + KL(target \| gold)$, with equality for perfect
    meta-inference; the bound falls as either M grows. Computed from `draws` alone.

    Attributes:
        draws: All runs, scored by both algorithms.
        look: Which of several looks at growing runs this is; all limits allow for the other looks.
        closer_look: Makes extra runs for notes and `reach`; `None` for an estimate read from a
            file, which has no algorithms.
        posterior: The model that gives variables their names, if an algorithm was made for one.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit, num_gold=100, num_target=100)
        >>> estimate.gold_to_target.value + estimate.target_to_gold.value == estimate.value
        True
    """

    draws: Draws
    look: InterimLook = InterimLook()
    closer_look: CloserLook | None = None
    posterior: NamesOutputs | None = None

    @cached_property
    def terms(self) -> Terms:
        r"""$\log\hat\xi_{own} - \log\hat\xi_{other}$ at gold outputs and at target outputs.

        `value` is the sum of both means.
        """
        return terms_of(self.draws)

    @property
    def value(self) -> float:
        r"""$\hat D$ in nats. May be negative by chance when the divergence is near 0."""
        return self.gold_to_target.value + self.target_to_gold.value

    @property
    def std_error(self) -> float:
        """Standard error of `value`: the two samples are independent."""
        return float(np.hypot(self.gold_to_target.std_error, self.target_to_gold.std_error))

    @property
    def shown_error(self) -> float:
        """`std_error`, or NaN where stored draws have too few effective ones to estimate it."""
        stored = [role for role in Role if self.draws.side(role).chains is not None]
        few = any(self.num_effective(role) < LEAST_EFFECTIVE for role in stored)
        return np.nan if few and self.std_error > 0 else self.std_error

    @cached_property
    def gold_to_target(self) -> DirectedBound:
        r"""The part $KL(gold \| target)$: large where the target misses mass."""
        return direction_of(self.draws, self.terms, GOLD)

    @cached_property
    def target_to_gold(self) -> DirectedBound:
        r"""The part $KL(target \| gold)$: large where the target invents mass."""
        return direction_of(self.draws, self.terms, TARGET)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        r"""Confidence interval for $E[\hat D]$, corrected for skewness; see `confidence_limit`.

        Law: with probability `level` it contains the sum of both means, not counting some outputs
        of mass `unseen(level)` at most.
        """
        check_level(level)
        rows = [self.draws.sequences(role) for role in (GOLD, TARGET)]
        each = self.look.level(level) / 2
        low, high = (confidence_limit(self.terms, 0.5 + sign * each, rows) for sign in (-1, 1))
        return low, high

    def unseen(self, level: float = 0.95) -> tuple[float, float]:
        """Probability of gold and of target outputs that the runs may have missed.

        Draws that depend on each other count as their effective number.
        """
        check_level(level)
        each = self.look.level(level)
        gold, target = (unseen_share(self.num_effective(role), each) for role in (GOLD, TARGET))
        return gold, target

    @cached_property
    def worth(self) -> tuple[Worth | None, Worth | None]:
        """Effective number and R-hat of the terms of stored draws; `None` for independent runs."""
        gold, target = (worth_of(self.terms.at(r), self.draws.sequences(r)) for r in (GOLD, TARGET))
        return gold, target

    def num_effective(self, role: Role) -> float:
        """Effective number of independent runs of an algorithm.

        For stored draws it is the smaller of the effective numbers of their terms and of their
        coordinates.
        """
        worth, side = self.worth[role], self.draws.side(role)
        if worth is None or side.chains is None:
            return side.num_runs
        known = [e for e in (worth.effective, side.chains.effective) if not np.isnan(e)]
        return min([*known, side.num_runs])

    def total_variation(self, level: float = 0.95) -> float:
        r"""Any probability under the target differs from the gold standard's by at most this much.

        Law: holds with probability `level`, for all outputs, also those that no run showed. An
        upper limit of $TV(P, Q) = \frac12 E_P|\tanh(\ell/2)| + \frac12 E_Q|\tanh(\ell/2)| \ge
        TV(p, q)$, see `aide.estimation.errors.total_variation`: exact for every number of
        independent runs, approximate for reference draws that depend on each other. 1 where the
        estimate rests on one density that both state (`rests_on_one_density`).
        """
        check_level(level)
        if level not in self._total_variations:
            found = total_variation_of(self.draws, self.look.level(level))
            self._total_variations[level] = found.upper
        return self._total_variations[level]

    def jensen_shannon(self, level: float = 0.95) -> float:
        r"""The Jensen-Shannon divergence of both outputs is at most this many nats ($\le\log 2$).

        Law: that of `total_variation`. Finite where the divergence is infinite.
        """
        check_level(level)
        found = total_variation_of(self.draws, self.look.level(level), jensen_shannon_sizes)
        return float(np.log(2) * found.upper)

    def hellinger(self, level: float = 0.95) -> float:
        r"""The Hellinger distance, $\sqrt{1 - \int\sqrt{pq}} \le 1$, is at most this.

        Law: that of `total_variation`. Finite where the divergence is infinite.
        """
        check_level(level)
        found = total_variation_of(self.draws, self.look.level(level), hellinger_sizes)
        return float(np.sqrt(found.upper))

    @cached_property
    def _total_variations(self) -> dict[float, float]:
        return {}

    def errors(
        self,
        level: float = 0.95,
        *,
        functions: Mapping[str, Callable[[Any], Any]] | None = None,
        posterior: NamesOutputs | None = None,
    ) -> Errors:
        r"""Errors of what people report: means, sds, quantiles, intervals, probabilities.

        Every error has limits, which hold for the whole table with probability `level`; see
        `Errors`. The outputs must have been kept, which is the default where they are small.

        Args:
            level: The probability.
            functions: Functions of one output to report besides, by name, written with `jax.numpy`
                or NumPy. A function that returns true or false stands for a probability; of an
                array every element is reported. Where variables have names, the function gets a
                dictionary of their values.
            posterior: The model that gives variables their names (an `aide.numpyro`, `aide.pymc` or
                `aide.stan` posterior); known without this argument if an algorithm was made for
                one.
        """
        check_level(level)
        is_plain = functions is None and posterior is None
        if is_plain and level in self._errors:
            return self._errors[level]
        found = find_errors(
            self.draws,
            level=self.look.level(level),
            posterior=self.posterior if posterior is None else posterior,
            functions=functions,
        )
        if is_plain:
            self._errors[level] = found
        return found

    def repair(
        self,
        *,
        functions: Mapping[str, Callable[[Any], Any]] | None = None,
        posterior: NamesOutputs | None = None,
    ) -> Repair:
        r"""Means, sds and quantiles corrected by the weights $\hat\xi_{gold}/\hat\xi_{target}$.

        They are unbiased importance weights whatever the algorithms are. Where their tail is too
        heavy (k-hat above 0.7) the result says so, and gives no weights.

        Args:
            functions: Functions of one output to report besides; see `errors`.
            posterior: The model that gives variables their names; see `errors`.
        """
        return self.errors(functions=functions, posterior=posterior).repair

    @cached_property
    def _errors(self) -> dict[float, Errors]:
        return {}

    @cached_property
    def looseness(self) -> Looseness:
        """What meta-inference adds at each algorithm's own outputs; see `Looseness`."""
        return looseness_of(self.draws)

    @cached_property
    def log_z_bounds(self) -> LogZBounds | None:
        r"""Evidence bounds, where exactly one of the two $\log Z$ is unknown."""
        return log_z_bounds_of(self.draws, self.terms)

    @cached_property
    def kl_bounds(self) -> KlBounds:
        r"""Bounds from both sides on each direction whose second argument is tractable."""
        return kl_bounds_of(self.draws)

    def meta_curve(self, role: str = "target") -> MetaCurve:
        """The estimate for M = 1, 2, … of `role` (`gold` or `target`), from the same draws."""
        return meta_curve_of(self.draws, as_role(role))

    def reach(self, role: str = "target", *, num_runs: int = 50, num_meta: int = 8) -> Reach:
        """Whether meta-inference of `role` reaches the other algorithm's outputs; see `Reach`.

        Uses the meta-inference runs of this estimate if M is 2 or more; otherwise makes `num_runs`
        extra runs with `num_meta` meta-inference runs each.
        """
        return find_reach(self.draws, as_role(role), self.closer_look, num_runs, num_meta)

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """Which M to raise and to what, with the predicted fall; empty if it is not worthwhile."""
        return find_advice(self.draws, self.value, self.std_error)

    def sandwich(self, level: float = 0.95) -> "Sandwich":
        r"""$lower \le D \le upper$ with probability `level`.

        The upper limit is that of AIDE's bound, not counting outputs of mass `unseen(level)`. The
        lower limit comes from a classifier between both algorithms' outputs, or, if both are
        tractable, from AIDE's estimate itself. Needs `keep_values=True` unless both are tractable.
        It always overlaps or touches `interval(level)`.
        """
        check_level(level)
        if level not in self._sandwiches:
            from aide.estimation.sandwich.sandwich import find_sandwich

            found = find_sandwich(self.draws, self.look.level(level))
            self._sandwiches[level] = replace(found, level=level)
        return self._sandwiches[level]

    @cached_property
    def _sandwiches(self) -> "dict[float, Sandwich]":
        return {}

    @overload
    def judge(self, tolerance: float) -> "Closeness": ...
    @overload
    def judge(self, tolerance: AnyTolerance) -> "Closeness | ErrorCloseness": ...
    def judge(self, tolerance: AnyTolerance) -> "Closeness | ErrorCloseness":
        """Whether the target is within a tolerance: passed, failed or undecided, at 95%.

        Args:
            tolerance: Largest divergence in nats, or errors, that are good enough: `means 0.1 sd,
                sds 10%, probabilities 0.05` (or some of these), or an
                `aide.estimation.ErrorTolerance`.
        """
        from aide.estimation.closeness import judge

        return judge(self, tolerance)

    def require(self, tolerance: AnyTolerance) -> "Estimate":
        """This estimate, if the target is shown to be within a tolerance (95%); see `judge`.

        Raises:
            NotWithin: The verdict is `failed` or `undecided`; the message has all limits, and what
                would decide.
        """
        from aide.estimation.closeness import require

        require(self, tolerance)
        return self

    @property
    def subject(self) -> str:
        """The target and the gold standard."""
        return f"{self.draws.target.name}  against  {self.draws.gold.name}"

    @property
    def headline(self) -> str:
        """The bound, its interval, and how many runs it rests on."""
        return estimate_headline(self)

    @property
    def trust(self) -> Trust:
        """How far the gold standard can be trusted."""
        return trust_of(self.draws.gold, self.num_effective(GOLD))

    @property
    def head(self) -> tuple[str, ...]:
        """Findings against the gold standard; other facts about it are among the rows."""
        return (self.trust.words,) if self.trust.doubts else ()

    def rows(self) -> list[tuple[str, str]]:
        """Name and text of every line below the headline, notes apart."""
        return estimate_rows(self)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What limits the use of these numbers, in sentences."""
        return find_notes(self)

    def numbers(self) -> dict[str, Any]:
        """The numbers, by name; limits at 95%."""
        return estimate_numbers(self)

    def layout(self) -> PanelGrid:
        """One panel for each plot."""
        num = len(pictures_of(self))
        return PanelGrid(1, num, (4.2 * num, 3.4))

    def plot_on(self, panels: np.ndarray) -> None:
        """The bound against M, its directions, and log ratios, where they show something."""
        for panel, picture in zip(panels, pictures_of(self), strict=False):
            picture(panel, self)

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
