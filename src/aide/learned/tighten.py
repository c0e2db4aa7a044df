"""Choosing reverse particles and meta-inference runs: the cheapest pair that is tight enough."""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.keywords import keywords
from aide._core.numerics import row_log_mean_exp
from aide._core.random import as_key
from aide._core.types import TARGET, Key
from aide._core.validate import check_positive, check_size
from aide.engine.programs.tracing import one_call
from aide.engine.runners.choose import MetaTrial
from aide.estimation.looseness import DominantRuns, dominant_runs
from aide.learned.refined import RefinedChain, RefinedLangevin
from aide.learned.refined_smc import RefinedSmc
from aide.reporting.numbers import with_error
from aide.reporting.result import Result

FEWEST_REVERSE = 16
"""Number of reverse particles with which the search begins: a choice."""


class TighteningTrial(NamedTuple):
    """Looseness with one number of reverse particles and of meta-inference runs.

    Attributes:
        num_reverse: Reverse particles.
        num_meta: M, meta-inference runs per output.
        looseness: Looseness in nats.
        std_error: Standard error of the looseness.
        seconds: Seconds that an estimate takes for one output of each algorithm: a run, and M
            meta-inference runs at both outputs, measured on this machine under its present load.
        lone: The one run or the few runs that dominate the looseness, if there are such runs.
    """

    num_reverse: int
    num_meta: int
    looseness: float
    std_error: float
    seconds: float
    lone: DominantRuns | None = None

    @property
    def words(self) -> str:
        """Looseness and cost in words, for the table."""
        found = with_error(self.looseness, self.std_error)
        words = f"{found} nats, {1e3 * self.seconds:.2g} ms per pair of outputs"
        if self.lone is None:
            return words
        return (
            f"{words}; {self.lone.subject[0].lower()}{self.lone.subject[1:]} it: {self.lone.words}"
        )

    def numbers(self) -> dict[str, Any]:
        """The numbers of one trial."""
        lone = 0.0 if self.lone is None else self.lone.gaps[0]
        return {**self._asdict(), "lone": lone}


@dataclass(frozen=True, repr=False)
class Tightened(Result):
    """An algorithm with enough reverse particles and meta-inference runs, and all trials.

    Use both: `aide.estimate(key, gold, found.algorithm, num_meta_target=found.num_meta)`.
    """

    algorithm: RefinedChain | RefinedLangevin | RefinedSmc
    chosen: TighteningTrial
    trials: tuple[TighteningTrial, ...]

    @property
    def num_meta(self) -> int:
        """Meta-inference runs per output."""
        return self.chosen.num_meta

    @property
    def headline(self) -> str:
        """The choice, the looseness of the bound with it, and its cost."""
        best = self.chosen
        return (
            f"Chosen: {best.num_reverse} reverse particles and M = {best.num_meta}, with a "
            f"looseness of {best.words}"
        )

    def rows(self) -> list[tuple[str, str]]:
        """All other pairs that were tried: not tight enough, or more costly."""
        return [
            ("tried", f"{trial.num_reverse} reverse particles, M = {trial.num_meta}: {trial.words}")
            for trial in self.trials
            if trial != self.chosen
        ]

    def records(self) -> list[dict[str, Any]]:
        """One record for each pair that was tried."""
        return [trial.numbers() for trial in self.trials]

    def numbers(self) -> dict[str, Any]:
        """The numbers of the choice."""
        return self.chosen.numbers()

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot looseness against cost, a line for each number of reverse particles."""
        for num in sorted({trial.num_reverse for trial in self.trials}):
            shown = [t for t in self.trials if t.num_reverse == num and np.isfinite(t.looseness)]
            panels[0].errorbar(
                [trial.seconds for trial in shown],
                [trial.looseness for trial in shown],
                [trial.std_error for trial in shown],
                fmt="o-",
                capsize=3,
                label=f"P = {num}",
            )
        panels[0].set(xscale="log", xlabel="seconds per pair of outputs", ylabel="looseness (nats)")
        panels[0].legend()


@keywords("aide.tighten")
@one_call()
def tighten(
    key: Key | int,
    algorithm: RefinedChain | RefinedLangevin | RefinedSmc,
    max_looseness: float = 0.05,
    *,
    num_runs: int = 200,
    max_reverse: int = 10_000,
    max_meta: int = 8,
) -> Tightened:
    r"""Choose reverse particles and meta-inference runs for a looseness in nats, at least cost.

    Looseness is the average gap, at the algorithm's own outputs, between $\log\hat\xi$ with its
    real trace and of regenerated ones alone; it bounds what meta-inference adds to the target's
    side of AIDE there. It falls like $1/(PM)$ once it is below a nat, and where reverse particles
    do not help (the other particles of SMC) M still does. For each P the looseness is measured at
    M = 1, 2, 4, … while M may suffice; the next P is extrapolated from M = 1, two standard errors
    on the safe side, and at least doubled. The search ends when M = 1 suffices, or would cost more
    than a sufficient pair; of all pairs whose looseness plus its standard error is below the
    request, the one with the least measured seconds is taken.

    Args:
        key: A JAX key, or an integer seed; use another one for the estimate itself.
        algorithm: An algorithm from `aide.refine`; its own number of reverse particles is replaced.
        max_looseness: The largest looseness, in nats, that is tight enough.
        num_runs: Runs for each number of reverse particles.
        max_reverse: Largest number of reverse particles; an error if more were needed.
        max_meta: Largest number of meta-inference runs; 1 chooses reverse particles alone.

    Returns:
        The algorithm with the numbers that were chosen, and what every try measured.

    Example:
        >>> posterior = Normal(1.0, 0.5)
        >>> kernel = aide.kernels.RandomWalk(0.9)
        >>> chain = aide.mcmc(Normal(0.0, 3.0), posterior.log_prob, kernel=kernel, num_steps=4)
        >>> refined = aide.refine(0, chain, num_pilots=300, num_reverse=10)
        >>> tight = aide.tighten(1, refined, max_looseness=0.5, num_runs=50)
    """
    if not isinstance(algorithm, RefinedChain | RefinedLangevin | RefinedSmc):
        raise TypeError(
            f"algorithm must have learned meta-inference, got {type(algorithm).__name__}. Build it "
            "with aide.refine(key, algorithm); elsewhere raise num_meta_target."
        )
    check_positive("max_looseness", max_looseness)
    check_size("num_runs", num_runs, 2)
    check_size("max_reverse", max_reverse, FEWEST_REVERSE)
    check_size("max_meta", max_meta)
    key, trials, num = as_key(key), list[TighteningTrial](), FEWEST_REVERSE
    while True:
        subkey, candidate = jax.random.fold_in(key, num), algorithm.with_reverse(num)
        found = _try(subkey, candidate, num, num_runs, max_looseness, max_meta)
        trials += found
        enough = [trial for trial in trials if trial.looseness + trial.std_error <= max_looseness]
        best = min(enough, key=lambda trial: trial.seconds, default=None)
        alone = found[0]
        if best is not None and (alone in enough or alone.seconds >= best.seconds):
            return Tightened(algorithm.with_reverse(best.num_reverse), best, tuple(trials))
        if num >= max_reverse:
            if best is not None:
                return Tightened(algorithm.with_reverse(best.num_reverse), best, tuple(trials))
            raise ValueError(_too_loose(found[-1], max_looseness))
        gap, error = alone.looseness, alone.std_error
        growth = np.clip((gap + 2 * error) / max_looseness, 2.0, 8.0) if np.isfinite(gap) else 8.0
        num = min(int(2 ** np.ceil(np.log2(num * growth))), max_reverse)


def _try(
    key: Key, algorithm: Any, num: int, num_runs: int, max_looseness: float, max_meta: int
) -> list[TighteningTrial]:
    """Measure M = 1, 2, 4, … up to the first that suffices, while a larger M may suffice."""
    runs = MetaTrial(key, algorithm, TARGET, num_runs)
    fresh = runs.regenerate(1, 1)
    begun = time.perf_counter()
    fresh = np.concatenate([fresh, runs.regenerate(2, 2)], axis=1)  # timed without compilation
    each = (time.perf_counter() - begun) / num_runs
    scores = np.concatenate([runs.log_xi[:, None], fresh], axis=1)
    found, num_meta = list[TighteningTrial](), 1
    while True:
        mean, error, lone = _looseness(scores[:, : num_meta + 1])
        seconds = (1 + 2 * num_meta) * each
        found.append(TighteningTrial(num, num_meta, mean, error, seconds, lone))
        num_meta *= 2
        rest = max_meta // num_meta
        if mean + error <= max_looseness or not rest or not mean <= 4 * rest * max_looseness:
            return found
        if num_meta >= scores.shape[1]:
            more = runs.regenerate(scores.shape[1], num_meta)
            scores = np.concatenate([scores, more], axis=1)


def _too_loose(last: TighteningTrial, looseness: float) -> str:
    """The message for a search whose largest numbers were not enough."""
    found = (
        f"{last.num_reverse} reverse particles and M = {last.num_meta} leave a looseness of "
        f"{last.looseness:.3g} ± {last.std_error:.2g}, above {looseness}. "
    )
    if last.lone is not None:
        return (
            f"{found}{last.lone.subject} it: {last.lone.words}. "
            "Such a run did what no pilot showed: raise num_runs to see how often, and num_pilots "
            "of aide.refine to learn it."
        )
    return (
        f"{found}Learn a better reverse (more pilots, more components), ask for less, or raise "
        "max_reverse."
    )


def _looseness(scores: np.ndarray) -> tuple[float, float, DominantRuns | None]:
    """Mean and standard error of the gap with M meta-inference runs; dominating runs, if any.

    The first column of the scores belongs to the real trace.
    """
    gap = row_log_mean_exp(scores[:, :-1]) - row_log_mean_exp(scores[:, 1:])
    if np.isnan(scores).any():
        raise ValueError("log_xi is NaN in some runs: is the log density NaN somewhere?")
    if not np.isfinite(gap).all():
        return np.inf, np.inf, None
    return float(gap.mean()), float(gap.std(ddof=1) / len(gap) ** 0.5), dominant_runs(gap)
