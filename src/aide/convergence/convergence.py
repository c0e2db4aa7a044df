"""`aide.measure_convergence`: AIDE of a chain against its number of steps."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.keywords import keywords
from aide._core.types import Key
from aide._core.validate import check_size
from aide.algorithms.mcmc import MarkovChain
from aide.convergence.diagnostics import Diagnostics, import_arviz, rhat_and_ess, run_chains
from aide.convergence.report import curve_headline, curve_rows, grid_of, notes_of, plot_convergence
from aide.engine.draw import draw_each
from aide.engine.draws import Draws
from aide.engine.programs.sharing import Client, shared_out
from aide.engine.programs.tracing import one_call
from aide.estimation.interval import check_level
from aide.estimation.sandwich.balance import balanced_limits, balanced_terms
from aide.estimation.sandwich.sandwich import what_is_missing
from aide.estimation.summary import Estimate
from aide.estimation.terms import mean_of
from aide.learned.refined import RefinedChain
from aide.reporting.figures import PanelGrid
from aide.reporting.grid import Grid
from aide.reporting.result import Result

LEVEL = 0.95
"""Confidence with which each limit alone holds, and each sentence: the usual convention."""


@dataclass(frozen=True, repr=False, eq=False)
class Convergence(Result):
    """The divergence of a chain after each of several numbers of steps.

    N runs do not show chains that are late or stuck more rarely than `left_out`; upper limits and
    statements based on them do not count such chains. Numbers of steps between the measured ones
    are unknown: a divergence may rise again (that of unadjusted chains does).

    Attributes:
        steps: Numbers of steps, increasing.
        estimates: One `Estimate` per number of steps; all share the gold standard's runs.
        lower: Lower 95% limits of the divergence from samples (`Estimate.sandwich`), or NaN.
        rhat: R-hat of `num_chains` ordinary chains, the largest of all coordinates.
        ess: Bulk effective sample size of these chains, the smallest of all coordinates.
        num_chains: Number of ordinary chains.
        lacks: The reason, in words, why there are no lower limits.
        pilots: Notes on stuck and late pilot chains (`ReverseFit.notes`).

    Example:
        >>> posterior = Normal(1.0, 0.5)
        >>> kernel = aide.kernels.RandomWalk(0.9)
        >>> chain = aide.mcmc(Normal(0.0, 1.0), posterior.log_prob, kernel=kernel, num_steps=8)
        >>> gold = aide.Tractable.of(posterior)
        >>> sizes = {"num_gold": 60, "num_target": 60, "num_chains": 0}
        >>> found = aide.measure_convergence(0, gold, chain, steps=[2, 8], **sizes)
        >>> [record["steps"] for record in found.records()]
        [2, 8]
    """

    steps: tuple[int, ...]
    estimates: tuple[Estimate, ...]
    lower: tuple[float, ...]
    rhat: tuple[float, ...]
    ess: tuple[float, ...]
    num_chains: int
    lacks: str = ""
    pilots: tuple[str, ...] = ()

    def upper(self, level: float = LEVEL) -> tuple[float, ...]:
        """Upper confidence limits of the bound, each with `level`, not counting `left_out`."""
        check_level(level)
        return tuple(balanced_limits(estimate.draws, level)[1] for estimate in self.estimates)

    def left_out(self, level: float = LEVEL) -> float:
        """Largest share of the runs, of either algorithm, that the upper limits do not count."""
        return max(share for estimate in self.estimates for share in estimate.unseen(level))

    def steps_within(self, nats: float, level: float = LEVEL) -> int | None:
        """The first number of steps from which on every upper confidence limit is below `nats`.

        Law: with probability `level`, no *measured* number of steps from there on has a larger
        divergence than `nats`, not counting `left_out`. A violation would need the limit of the
        largest number of steps with a larger divergence to fail: a single given limit.
        """
        limits, first = self.upper(level), len(self.steps)
        while first and limits[first - 1] <= nats:
            first -= 1
        return self.steps[first] if first < len(limits) else None

    def steps_beyond(self, nats: float) -> int | None:
        """The last number of steps up to which every lower limit is above `nats`.

        Law: with probability 95%, every measured number of steps up to there has a divergence above
        `nats`.
        """
        num = 0
        while num < len(self.steps) and self.lower[num] > nats:
            num += 1
        return self.steps[num - 1] if num else None

    def records(self) -> list[dict[str, Any]]:
        r"""One dictionary per number of steps, for tables.

        `value` estimates the same bound as `Estimate.value`, with less noise if $Z$ is known on
        both sides (`balanced_terms`); `upper` (not counting `left_out`), `lower` and
        `total_variation` (counting everything) are 95% limits.
        """
        rows = []
        for index, upper in enumerate(self.upper()):
            estimate = self.estimates[index]
            gold, target = (mean_of(terms) for terms in balanced_terms(estimate.draws))
            loose = estimate.looseness.target
            row = {
                "steps": self.steps[index],
                "value": gold.value + target.value,
                "std_error": float(np.hypot(gold.std_error, target.std_error)),
                "upper": upper,
                "lower": self.lower[index],
                "looseness": None if loose is None else loose.value,
                "total_variation": estimate.total_variation(),
                "rhat": self.rhat[index],
                "ess": self.ess[index],
            }
            rows.append(row)
        return rows

    @property
    def headline(self) -> str:
        """The sentence about the smallest divergence that was reached."""
        return curve_headline(self)

    @property
    def head(self) -> tuple[str, ...]:
        """The trust in the gold standard."""
        return (self.estimates[-1].trust.words,)

    def grid(self) -> Grid:
        """One line per number of steps."""
        return grid_of(self)

    def rows(self) -> list[tuple[str, str]]:
        """The meaning of the numbers, in words."""
        return curve_rows(self)

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats: stuck pilots, missing limits, and notes of single estimates."""
        return notes_of(self)

    def numbers(self) -> dict[str, Any]:
        """The numbers that all numbers of steps share."""
        return {"num_chains": self.num_chains, "left_out": self.left_out()}

    def layout(self) -> PanelGrid:
        """A panel for the divergence, and one below for R-hat and ESS, if known."""
        if np.isnan(self.rhat).all():
            return PanelGrid()
        return PanelGrid(2, 1, (5.6, 5.0), {"sharex": True, "height_ratios": [5, 3]})

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot bounds and looseness, R-hat and ESS against steps; or bounds alone in one panel."""
        plot_convergence(self, panels)


@keywords("aide.measure_convergence")
@one_call()
def measure_convergence(
    key: Key | int,
    gold: InferenceAlgorithm,
    chain: MarkovChain | RefinedChain,
    *,
    steps: Sequence[int],
    num_gold: int = 200,
    num_target: int = 200,
    num_meta_gold: int = 1,
    num_meta_target: int = 2,
    num_chains: int = 4,
    measure_looseness: bool = True,
    keep_values: bool | None = None,
    share: Draws | None = None,
    first_run: int = 0,
    checkpoint: Mapping[str, str | Path] | None = None,
    chunk_size: int | None = None,
    progress: bool | None = None,
    executor: Executor | Client | None = None,
    unchanged: bool = False,
) -> Convergence:
    r"""Measure a chain after several numbers of steps against the same gold standard.

    Besides AIDE's upper bound the result has a lower bound from the same outputs, and R-hat and ESS
    of all draws of ordinary chains with the same numbers of steps, by ArviZ.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard.
        chain: A chain from `aide.refine` with the largest of `steps`, or a chain with canonical
            meta-inference; its own number of steps is replaced.
        steps: Numbers of steps.
        num_gold: Runs of the gold standard; a lower bound needs 50.
        num_target: Runs of the chain, per number of steps; a lower bound needs 50.
        num_meta_gold: Meta-inference runs of the gold standard per output.
        num_meta_target: Meta-inference runs per output. Two make the lower bound far sharper than
            one, if $Z$ is known on both sides.
        num_chains: Ordinary chains for R-hat and ESS; 0 needs no ArviZ.
        measure_looseness: Draw one more meta-inference run per output, which measures how loose
            the bounds are.
        keep_values: Keep the outputs, which lower bounds need; the default here.
        share: Draws of the same gold standard with another target, whose gold runs are used again.
        first_run: Index of the first run, to spread runs over machines.
        checkpoint: A file for every number of steps, by the number as a text.
        chunk_size: Runs computed at a time; never changes the numbers beyond rounding.
        progress: Show a progress bar; by default in long runs at a terminal.
        executor: Runs blocks of runs elsewhere; see `aide.draw`.
        unchanged: State that an algorithm in plain Python is the one that made the stored runs;
            see `aide.draw`.

    Returns:
        The curve: bounds from above and below, R-hat and effective sample size at every number of
        steps.

    Example:
        >>> posterior = Normal(1.0, 0.5)
        >>> kernel = aide.kernels.RandomWalk(0.9)
        >>> chain = aide.mcmc(Normal(0.0, 1.0), posterior.log_prob, kernel=kernel, num_steps=8)
        >>> gold = aide.Tractable.of(posterior)
        >>> sizes = {"num_gold": 60, "num_target": 60, "num_chains": 0}
        >>> aide.measure_convergence(0, gold, chain, steps=[2, 8], **sizes).steps
        (2, 8)
    """
    if not steps:
        raise ValueError("steps must name at least one number of steps, got none.")
    for number in steps:
        check_size("steps", number, 0)
    if not isinstance(chain, MarkovChain | RefinedChain):
        raise TypeError(
            f"chain must be a chain, from aide.mcmc or aide.refine, got {describe(chain)}."
        )
    arviz = import_arviz(num_chains)
    numbers = tuple(sorted(set(steps)))
    if isinstance(chain, RefinedChain) and len(numbers) > 1:
        chains: list[InferenceAlgorithm] = [*chain.sharing_programs(numbers)]
    else:
        chains = [chain.with_steps(number) for number in numbers]
    ordinary = chain.chain if isinstance(chain, RefinedChain) else chain
    found = Diagnostics((np.nan,) * len(numbers), (np.nan,) * len(numbers))
    if num_chains:
        with shared_out(executor):
            drawn_chains = run_chains(key, ordinary, numbers[-1], num_chains)
        found = rhat_and_ess(arviz, drawn_chains, numbers)
    named = {str(number): shorter for number, shorter in zip(numbers, chains, strict=True)}
    drawn = draw_each(
        key,
        gold,
        named,
        num_gold=num_gold,
        num_target=num_target,
        num_meta_gold=num_meta_gold,
        num_meta_target=num_meta_target,
        measure_looseness=measure_looseness,
        keep_values=True if keep_values is None else keep_values,
        share=share,
        first_run=first_run,
        checkpoint=checkpoint,
        chunk_size=chunk_size,
        progress=progress,
        executor=executor,
        unchanged=unchanged,
    )
    estimates = [Estimate(draws) for _, draws in drawn]
    note = what_is_missing(estimates[-1].draws)
    lower = [np.nan if note else one.sandwich(LEVEL).lower for one in estimates]
    notes = chain.fit.notes if isinstance(chain, RefinedChain) else ()
    return Convergence(numbers, tuple(estimates), tuple(lower), *found, num_chains, note, notes)
