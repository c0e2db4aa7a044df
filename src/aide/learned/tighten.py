"""How many reverse particles are needed? Doubling until the bound is tight enough."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.random import as_key
from aide._core.roles import TARGET
from aide._core.validate import check_positive, check_size
from aide.learned.refined_chain import RefinedChain
from aide.learned.refined_langevin import RefinedLangevin
from aide.learned.refined_smc import RefinedSmc
from aide.reporting.numbers import with_error
from aide.reporting.result import Result
from aide.running.pairs import run_pairs

FEWEST = 16
"""Reverse particles to begin with."""


class TighteningTrial(NamedTuple):
    """Looseness with some number of reverse particles, and its standard error."""

    num_reverse: int
    looseness: float
    std_error: float


@dataclass(frozen=True, repr=False)
class Tightened(Result):
    """An algorithm with enough reverse particles, and what was tried on the way."""

    algorithm: RefinedChain | RefinedLangevin | RefinedSmc
    trials: tuple[TighteningTrial, ...]

    @property
    def headline(self) -> str:
        """How many reverse particles do, and how loose the bound then is."""
        last = self.trials[-1]
        found = with_error(last.looseness, last.std_error)
        return f"{last.num_reverse} reverse particles: looseness {found} nats"

    def rows(self) -> list[tuple[str, str]]:
        """What was not enough."""
        return [
            ("tried", f"{trial.num_reverse}: {with_error(trial.looseness, trial.std_error)}")
            for trial in self.trials[:-1]
        ]

    def records(self) -> list[dict[str, Any]]:
        """One for each try."""
        return [trial._asdict() for trial in self.trials]

    def numbers(self) -> dict[str, Any]:
        """Those of the last try."""
        return self.trials[-1]._asdict()

    def draw(self, panels: np.ndarray) -> None:
        """Looseness against reverse particles."""
        shown = [trial for trial in self.trials if np.isfinite(trial.looseness)]
        panels[0].errorbar(
            [trial.num_reverse for trial in shown],
            [trial.looseness for trial in shown],
            [trial.std_error for trial in shown],
            fmt="o-",
            capsize=3,
        )
        panels[0].set(xscale="log", xlabel="reverse particles", ylabel="looseness (nats)")


def tighten(
    key: Any,
    algorithm: RefinedChain | RefinedLangevin | RefinedSmc,
    looseness: float = 0.05,
    *,
    num_runs: int = 200,
    most_reverse: int = 10_000,
) -> Tightened:
    r"""Choose the number of reverse particles for a requested looseness, in nats.

    Looseness is the average gap, at the algorithm's own outputs, between $\log\xi$ of its real
    trace and of a regenerated one; it bounds what meta-inference adds to the target's side of AIDE.
    It falls like $1/P$ once it is below a nat, so the next try is extrapolated from the last one,
    two standard errors on the safe side, and at least doubled. The search ends at the first number
    whose looseness plus its standard error is below the request.

    Args:
        key: A JAX key; use another one for the estimate itself.
        algorithm: From `aide.refine`; its own number of reverse particles does not matter.
        looseness: The request.
        num_runs: Runs per try.
        most_reverse: Raise an error rather than use more.
    """
    if not isinstance(algorithm, RefinedChain | RefinedLangevin | RefinedSmc):
        raise TypeError(
            f"algorithm must have learned meta-inference, got {type(algorithm).__name__}. Build it "
            "with aide.refine(key, algorithm); elsewhere raise num_meta_target."
        )
    check_positive("looseness", looseness)
    check_size("num_runs", num_runs, 2)
    check_size("most_reverse", most_reverse, FEWEST)
    key, trials, num = as_key(key), list[TighteningTrial](), FEWEST
    while True:
        candidate = algorithm.with_reverse(num)
        trials.append(_try(jax.random.fold_in(key, num), candidate, num, num_runs))
        _, gap, error = trials[-1]
        if gap + error <= looseness:
            return Tightened(candidate, tuple(trials))
        if num >= most_reverse:
            raise ValueError(
                f"{num} reverse particles leave a looseness of {gap:.3g} ± {error:.2g}, above "
                f"{looseness}. Learn a better reverse (more pilots, more components), ask for "
                "less, or raise most_reverse."
            )
        growth = np.clip((gap + 2 * error) / looseness, 2.0, 8.0) if np.isfinite(gap) else 8.0
        num = min(int(2 ** np.ceil(np.log2(num * growth))), most_reverse)


def _try(key: Any, algorithm: Any, num: int, num_runs: int) -> TighteningTrial:
    own, fresh = run_pairs(key, algorithm, TARGET, num_runs)
    gap = own - fresh
    if np.isnan(gap).any():
        raise ValueError("log_xi is NaN in some runs: is the log density NaN somewhere?")
    if not np.isfinite(gap).all():
        return TighteningTrial(num, np.inf, np.inf)
    return TighteningTrial(num, float(gap.mean()), float(gap.std(ddof=1) / num_runs**0.5))
