"""An amortised posterior on thousands of observations: where is it wrong, and what makes it so?"""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from aide._core.keywords import keywords
from aide._core.random import as_key
from aide._core.types import Key, Value
from aide._core.validate import check_size
from aide.engine.programs.map_runs import Progress
from aide.engine.programs.sharing import Client, shared_out
from aide.engine.programs.tracing import one_call
from aide.estimation.interval import confidence_limit
from aide.estimation.trust import Trust, trust_of_algorithm
from aide.reporting.figures import PanelGrid, as_label, few_ticks, plain_ticks
from aide.reporting.grid import Grid
from aide.reporting.numbers import interval, short, with_error
from aide.reporting.result import Result
from aide.tuning.data_sets import Hardness, fit_hardness
from aide.tuning.observed_runs import (
    AnyPosterior,
    ObservedScores,
    TracedSide,
    as_side,
    run_observed,
)
from aide.tuning.outside import LEVEL, Outside, find_outside, fit_distance

MOST_LINES = 10
"""Number of observations in the printed table."""
MOST_COORDINATES = 6
"""Largest number of coordinates of an observation that serve as features if none are given."""
MOST_PANELS = 4
"""Most features that are plotted: those with the largest coefficients."""


@dataclass(frozen=True, repr=False, eq=False)
class AmortizedFit(Result):
    r"""Divergence of an amortised posterior from the gold standard, observation by observation.

    Attributes:
        gold_terms: Terms at gold outputs, shape (observations, num_gold).
        target_terms: Terms at outputs of the target, shape (observations, num_target).
        features: Features by name, one number per observation.
        outside: Which observations are unlike the simulated ones; `None` if not asked.
        name: The amortised posterior.
        gold: The gold standard.
        trust: How far the gold standard can be trusted, if that is known.

    Example:
        >>> observations = np.linspace(-2.0, 2.0, 9)
        >>> exact = lambda y: Normal(0.5 * y, 0.5**0.5)
        >>> network = lambda y: Normal(0.5 * y, 0.5**0.5 + 0.1 * jnp.abs(y))  # too wide far out
        >>> found = aide.tuning.measure_amortized(0, network, observations, exact)
        >>> found.values.shape, bool(abs(observations[found.order[0]]) == 2.0)
        ((9,), True)
    """

    gold_terms: np.ndarray
    target_terms: np.ndarray
    features: Mapping[str, np.ndarray]
    outside: Outside | None
    name: str
    gold: str
    trust: Trust | None = None

    @cached_property
    def values(self) -> np.ndarray:
        """Upper bounds on the symmetrised KL divergence in nats, one per observation."""
        return self.gold_terms.mean(axis=1) + self.target_terms.mean(axis=1)

    @cached_property
    def std_errors(self) -> np.ndarray:
        """Standard errors of `values`."""
        parts = (self.gold_terms, self.target_terms)
        return np.sqrt(sum(part.var(axis=1, ddof=1) / part.shape[1] for part in parts))

    def interval(self, index: int, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of one value; see `aide.estimate`."""
        terms = (self.gold_terms[index], self.target_terms[index])
        low, high = (confidence_limit(terms, 0.5 + sign * level / 2) for sign in (-1, 1))
        return low, high

    @cached_property
    def order(self) -> np.ndarray:
        """Numbers of the observations, the one with the largest divergence first."""
        return np.argsort(-self.values, kind="stable")

    @cached_property
    def hardness(self) -> Hardness | None:
        """The log of the divergence as a linear function of the features."""
        known = np.flatnonzero(np.isfinite(self.values) & (self.std_errors > 0))
        floored = np.maximum(self.values, self.std_errors)[known]
        names = [name for name, column in self.features.items() if np.ptp(column[known]) > 0]
        table = [{name: self.features[name][i] for name in names} for i in known]
        return fit_hardness(floored.tolist(), table)

    @property
    def head(self) -> tuple[str, ...]:
        """How far the gold standard can be trusted."""
        return () if self.trust is None else (self.trust.words,)

    @property
    def subject(self) -> str:
        """The amortised posterior and the gold standard."""
        return f"{self.name}  against  {self.gold}"

    @property
    def headline(self) -> str:
        """Median, 95% quantile and largest divergence."""
        median, high = np.quantile(self.values, [0.5, 0.95])
        hardest = self.order[0]
        return (
            f"{self.values.size:,} observations: divergence at most {short(median, 2)} nats in the "
            f"median, {short(high, 2)} in 95% of them, {short(self.values[hardest], 2)} at the "
            f"hardest (number {hardest})"
        )

    def grid(self) -> Grid:
        """The hardest observations."""
        names = tuple(self.features)[:MOST_PANELS]
        lines = tuple(
            (
                f"{i}",
                with_error(self.values[i], self.std_errors[i]),
                interval(*self.interval(i)),
                *(short(float(self.features[name][i])) for name in names),
            )
            for i in self.order[:MOST_LINES]
        )
        titles = ("number", "divergence ≤ (nats)", "95% limits", *names)
        return Grid(titles, lines, ("",) * len(lines), optional=names[::-1])

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per observation, features included."""
        columns = {f"feature_{name}": column for name, column in self.features.items()}
        if self.outside is not None:
            columns["outside_p_value"] = self.outside.p_values
        pairs = zip(self.values.tolist(), self.std_errors.tolist(), strict=True)
        return [
            {"number": i, "value": value, "std_error": error}
            | {name: float(column[i]) for name, column in columns.items()}
            for i, (value, error) in enumerate(pairs)
        ]

    def rows(self) -> list[tuple[str, str]]:
        """Which data are hard, and which are outside of what was simulated."""
        found = [] if self.hardness is None else [("hard data", self.hardness.words)]
        if self.outside is not None:
            found.append(("outside", _outside_words(self.outside, self.values)))
        sizes = f"{self.gold_terms.shape[1]} of the gold standard and {self.target_terms.shape[1]}"
        return [*found, ("runs", f"For each observation, {sizes} of the target.")]

    @property
    def notes(self) -> tuple[str, ...]:
        """What to keep in mind about these numbers."""
        found = []
        infinite = int(np.isinf(self.values).sum())
        if infinite:
            found.append(
                f"At {infinite} observations an output of one side has no mass under the other: "
                "the bound is +inf."
            )
        relative = np.median(self.std_errors) / max(float(np.median(self.values)), 1e-300)
        if relative > 0.5:
            found.append(
                "Most estimates are below twice their standard error: more runs would tell "
                "the observations apart."
            )
        return (
            *found,
            "The largest of many estimates is too large on average: measure the hardest "
            "observations again with another key.",
        )

    def numbers(self) -> dict[str, Any]:
        """The numbers as a whole."""
        found = {
            "num_observations": self.values.size,
            "median": float(np.median(self.values)),
            "quantile_95": float(np.quantile(self.values, 0.95)),
            "largest": float(self.values.max()),
        }
        if self.hardness is not None:
            pairs = zip(self.hardness.names, self.hardness.coefficients.tolist(), strict=True)
            found |= {"coefficients": dict(pairs), "explained": self.hardness.explained}
        if self.outside is not None:
            found["num_outside"] = int(self.outside.flags.sum())
        return found

    def layout(self) -> PanelGrid:
        """One panel per feature."""
        num = len(self._plotted())
        return PanelGrid(1, num, (min(3.4 * num + 1.2, 12.0), 3.4), {"squeeze": False})

    def plot_on(self, panels: np.ndarray) -> None:
        """The bound against each feature; observations outside of the simulated ones in red."""
        none = np.zeros(self.values.size, bool)
        flags = none if self.outside is None else self.outside.flags
        for panel, (name, column) in zip(panels, self._plotted().items(), strict=False):
            for chosen, colour, label in ((~flags, "#1f6fb4", ""), (flags, "#c0392b", "outside")):
                if chosen.any():
                    panel.plot(
                        column[chosen], self.values[chosen], ".", ms=3, color=colour, label=label
                    )
            if np.nanmin(self.values) > 0:
                panel.set_yscale("log")
                plain_ticks(panel.yaxis)
            few_ticks(panel.xaxis)
            panel.set(xlabel=as_label(name), ylabel="bound on the divergence (nats)")
        if flags.any():
            panels[0].legend(frameon=False)

    def _plotted(self) -> Mapping[str, np.ndarray]:
        if self.hardness is None:
            return dict(list(self.features.items())[:MOST_PANELS])
        order = np.argsort(-np.abs(self.hardness.coefficients))[:MOST_PANELS]
        return {self.hardness.names[j]: self.features[self.hardness.names[j]] for j in order}


def _outside_words(outside: Outside, values: np.ndarray) -> str:
    flags, num = outside.flags, outside.p_values.size
    if not flags.any():
        return (
            f"None of the {num:,} observations lies outside of what was simulated (p ≤ "
            f"{outside.level:g} each)."
        )
    inside = "" if flags.all() else f", {short(float(np.median(values[~flags])), 2)} elsewhere"
    return (
        f"{int(flags.sum()):,} of {num:,} observations lie outside of what was simulated (p ≤ "
        f"{outside.level:g} each; {short(outside.expected, 2)} are expected by chance). The "
        f"median divergence there is {short(float(np.median(values[flags])), 2)} nats{inside}."
    )


@keywords("aide.tuning.measure_amortized")
@one_call()
def measure_amortized(
    key: Key | int,
    target: AnyPosterior,
    observations: Value,
    gold: AnyPosterior,
    *,
    features: Callable[[Any], Mapping[str, float]] | Mapping[str, Any] | None = None,
    simulated: Value | None = None,
    num_gold: int = 200,
    num_target: int = 200,
    num_meta_gold: int = 1,
    num_meta_target: int = 1,
    level: float = LEVEL,
    progress: bool | None = None,
    executor: Executor | Client | None = None,
) -> AmortizedFit:
    """AIDE of an amortised posterior on many observations, with one program for all of them.

    Args:
        key: A JAX key, or an integer seed.
        target: From one observation to a distribution or an algorithm, written with `jax.numpy`; an
            `aide.Amortized`; or an object with `sample_batch(key, observations, num)` and
            `log_prob_batch(values, observations)`, such as `aide.sbi.posterior(...)`.
        observations: Arrays, or a tree of arrays, with one observation per entry.
        gold: The same for the gold standard: the exact posterior, or a sampler such as
            `lambda y: aide.tempered_smc(prior, lambda x: log_joint(x, y), ...)`.
        features: From one observation to numbers by name; or columns by name. By default the
            coordinates of an observation (if they are few) and its distance from the mean.
        simulated: Data sets on which the amortised posterior was trained, or others like them, in
            the form of `observations`: observations unlike them are flagged.
        num_gold: Runs of the gold standard for each observation.
        num_target: Runs of the target for each observation.
        num_meta_gold: Meta-inference runs of the gold standard for each output.
        num_meta_target: Meta-inference runs of the target for each output.
        level: P-value at which an observation is flagged as unlike the simulated ones.
        progress: Show a progress bar; by default if the call takes long in a terminal.
        executor: Runs observations elsewhere; see `aide.draw`. An object with `sample_batch` is
            called here, with 256 observations at a time, because such a call uses all cores.

    Returns:
        Divergences of all observations, with errors: ranked, and explained by features.

    Example:
        >>> observations = np.linspace(-2.0, 2.0, 9)
        >>> exact = lambda y: Normal(0.5 * y, 0.5**0.5)
        >>> network = lambda y: Normal(0.5 * y, 0.5**0.5 + 0.1 * jnp.abs(y))  # too wide far out
        >>> found = aide.tuning.measure_amortized(0, network, observations, exact)
        >>> bool(found.values[4] < found.values[0])  # y = 0 and y = -2
        True
    """
    for name, size in (("num_gold", num_gold), ("num_target", num_target)):
        check_size(name, size, 2)
    key, data = as_key(key), jax.tree.map(np.asarray, observations)
    table = _table("observations", data)
    first = jax.tree.map(lambda a: a[0], data)
    columns = _columns(features, data, table)
    outside = None
    if simulated is not None:
        known = _table("simulated", jax.tree.map(np.asarray, simulated))
        outside = find_outside(table, known, level)
    sides = (
        as_side("gold", gold, first, num_meta_gold),
        as_side("target", target, first, num_meta_target),
    )
    with shared_out(executor), Progress(["observations"], [len(table)], progress) as bar:
        found = run_observed(key, data, *sides, num_gold, num_target, bar.reporter(0))
    _refuse_nan(found)
    trust = None
    if isinstance(sides[0], TracedSide):
        trust = trust_of_algorithm(sides[0].algorithm_for(first))
    terms = _terms(found, sides[0].log_z, sides[1].log_z)
    return AmortizedFit(*terms, columns, outside, sides[1].name, sides[0].name, trust)


def _terms(
    found: ObservedScores, log_z_gold: float | None, log_z_target: float | None
) -> tuple[np.ndarray, np.ndarray]:
    r"""AIDE's terms; where both $Z$ are known the calm ones, $\ell\tanh(\ell/2)$.

    See `aide.estimation.sandwich.balance`.
    """
    at_gold = found.gold_at_gold - found.target_at_gold
    at_target = found.target_at_target - found.gold_at_target
    if log_z_gold is None or log_z_target is None:
        return at_gold, at_target
    shift = float(log_z_target) - float(log_z_gold)
    at_gold, at_target = at_gold + shift, at_target - shift
    return at_gold * np.tanh(at_gold / 2), at_target * np.tanh(at_target / 2)


def _table(name: str, data: Any) -> np.ndarray:
    """Observations as rows of numbers."""
    leaves = jax.tree.leaves(data)
    sizes = {np.shape(leaf)[:1] for leaf in leaves}
    if len(sizes) != 1 or sizes == {()} or sizes == {(0,)}:
        raise ValueError(
            f"{name} must be arrays with one leading axis of the same length of 1 or more, got "
            f"leading axes {sorted(sizes)}."
        )
    table = np.concatenate([np.reshape(leaf, (len(leaf), -1)) for leaf in leaves], axis=1)
    return table.astype(float)


def _columns(features: Any, data: Any, table: np.ndarray) -> dict[str, np.ndarray]:
    if features is None:
        few = table.shape[1] <= MOST_COORDINATES
        found = {f"y[{j}]": table[:, j] for j in range(table.shape[1] if few else 0)}
        return {**found, "distance from the mean": fit_distance(table)(table)}
    if callable(features):
        ones = [features(jax.tree.map(lambda a, i=i: a[i], data)) for i in range(len(table))]
        features = {name: [one[name] for one in ones] for name in ones[0]}
    found = {name: np.asarray(column, float) for name, column in features.items()}
    wrong = [name for name, column in found.items() if column.shape != (len(table),)]
    if wrong:
        raise ValueError(
            f"features[{wrong[0]!r}] must hold one number for each of the {len(table)} "
            f"observations, got shape {found[wrong[0]].shape}."
        )
    return found


def _refuse_nan(found: ObservedScores) -> None:
    for name, values in found._asdict().items():
        wrong = np.isnan(values)
        if wrong.any():
            number = int(np.argmax(wrong.any(axis=1)))
            own, at = name.split("_at_")
            raise ValueError(
                f"log_xi of the {own} is nan at {int(wrong.sum())} of {wrong.size} outputs of the "
                f"{at}, first for observation {number}. A log density may be -inf outside its "
                "support, never nan."
            )
