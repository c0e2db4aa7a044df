r"""Is a kernel reversible for a density; is its reversal right; is the density invariant?

Laws (see `aide.checking.kernel.laws`): with $x \sim s$ and $w = \pi(x)/s(x)$, for all
bounded $f$ and $g$, $E_s[w\{f(x) g(Kx) - g(x) f(K^*x)\}] = 0$ and $E_s[w\{g(Kx) - g(x)\}] = 0$.
Both are judged exactly: `false_alarm` holds at every sample size, start and tail. The density
$\pi$ is needed up to a constant only.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aide._core.distribution import Distribution, check_distribution
from aide._core.keywords import keywords
from aide._core.random import as_key
from aide._core.types import Key, LogDensity
from aide._core.validate import check_count
from aide.checking.kernel.adapt import (
    StateAlgorithm,
    Transition,
    as_kernel,
    claimed_reversal,
    kernel_name,
)
from aide.checking.kernel.functions import Functions
from aide.checking.kernel.laws import InvarianceTest, LawTest, ReversalTest, reversal_terms
from aide.checking.kernel.runs import KernelTrial, StartQuality, StepRuns, TrialRuns, Weights
from aide.engine.programs.tracing import one_call
from aide.kernels.kernel import AnyKernel
from aide.reporting.figures import plot_p_values
from aide.reporting.numbers import FAILED, PASSED, UNDECIDED, Verdict
from aide.reporting.numbers import p_value as p_text
from aide.reporting.result import Result

CLAIMS = {
    "reversible": ("is reversible for this density", "is not reversible for this density"),
    "reversal": ("is undone by its reversal", "is not undone by its reversal"),
    "invariance": ("leaves this density invariant", "does not leave this density invariant"),
}
NEVER_SHOWN = (
    "Whether the kernel gets everywhere (a kernel that never moves passes), how fast it mixes, and "
    "errors where the start has no mass."
)


@dataclass(frozen=True, repr=False)
class KernelCheck(Result):
    """The outcome of `aide.check_kernel`.

    Attributes:
        p_value: Probability of so large a deviation if all laws hold, over all functions and laws.
        false_alarm: The p-value below which a kernel is rejected.
        reversal: The test of detailed balance, or of the claimed reversal; `None` if none is
            claimed.
        invariance: The test of invariance.
        start: The quality of the start.
        num_runs: Fresh runs that were tested, after the pilots that chose the functions.
        name: The name of the kernel.

    Example:
        >>> normal, kernel = Normal(0.0, 1.0), aide.kernels.RandomWalk(1.0)
        >>> found = aide.check_kernel(0, kernel, normal.log_prob, Normal(0.0, 2.0), num_runs=2000)
        >>> found.p_value > found.false_alarm
        True
    """

    p_value: float
    false_alarm: float
    reversal: LawTest | None
    invariance: LawTest
    start: StartQuality
    num_runs: int
    name: str

    @property
    def verdict(self) -> Verdict:
        """`passed`, `failed`, or `undecided` (no law is broken, but the start has a flaw)."""
        if self.p_value < self.false_alarm:
            return FAILED
        return PASSED if self.start.flaw is None else UNDECIDED

    @property
    def passed(self) -> bool:
        """Whether no law is broken, and the start has no flaw."""
        return self.verdict == PASSED

    @property
    def tests(self) -> tuple[LawTest, ...]:
        """All laws that were tested."""
        return (self.invariance,) if self.reversal is None else (self.reversal, self.invariance)

    def rows(self) -> list[tuple[str, str]]:
        """Name and text of every line below the headline, notes apart."""
        found = [(test.law, self._words(test)) for test in self.tests]
        start = self.start
        worth = f"{self.num_runs:,} runs are worth {start.effective_runs:,.0f} independent draws"
        text = f"{worth} from the density; the kernel moved in {start.moved:.0%} of its steps."
        found.append(("runs", text))
        if start.flaw is not None:
            flaw = f"{start.flaw}. Use a start closer to the density and wider than it."
            found.append(("start", f"{flaw[0].upper()}{flaw[1:]}"))
        if self.verdict == FAILED:
            found.append(("causes", self._causes()))
        return [*found, ("not shown", NEVER_SHOWN)]

    @property
    def notes(self) -> tuple[str, ...]:
        """Limits of this check."""
        found = []
        if self.start.moved == 0.0:
            found.append("The kernel never moved: then every density is invariant.")
        if self.reversal is None:
            found.append("No reversal was claimed, so none was tested.")
        return tuple(found)

    def _causes(self) -> str:
        limit = self.false_alarm / len(self.tests)
        invariant = self.invariance.p_value >= limit
        if self.reversal is not None and invariant:
            return (
                "Nothing speaks against invariance, so look at the reversal: that of a sweep runs "
                "its parts in reverse order (pass reversal=, or reversal=False if none is needed)."
            )
        return (
            "Usual causes: no accept step, a missing ratio of proposal densities or Jacobian, "
            "another temperature or density than this one."
        )

    def _words(self, test: LawTest) -> str:
        right, wrong = CLAIMS[test.law]
        if test.p_value < self.false_alarm / len(self.tests):
            seen = f"{test.z:+.1f} standard errors in {test.function}"
            return f"The kernel {wrong}: {p_text(test.p_value)}, {seen}."
        return f"Nothing speaks against the claim that the kernel {right} ({p_text(test.p_value)})."

    @property
    def headline(self) -> str:
        """The verdict, the p-value and the rate of false alarms on one line."""
        rate = f"a correct kernel fails with probability {self.false_alarm:.2g} at most"
        return f"Kernel check of {self.name}: {self.verdict} ({p_text(self.p_value)}; {rate})"

    def numbers(self) -> dict[str, Any]:
        """The numbers, by name."""
        return {
            "p_value": self.p_value,
            "false_alarm": self.false_alarm,
            "num_runs": self.num_runs,
            "effective_runs": self.start.effective_runs,
            "moved": self.start.moved,
        }

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per law."""
        return [
            {"law": test.law, "p_value": test.p_value, "z": test.z, "function": test.function}
            for test in self.tests
        ]

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot the p-value of every law."""
        level = self.false_alarm / len(self.tests)
        names = [test.law for test in self.tests]
        plot_p_values(panels[0], names, [test.p_value for test in self.tests], level)


MIN_RUNS = 1000
"""Least number of steps that a check accepts: fewer would show next to nothing."""
MOST_PILOTS = 20_000
"""Largest number of steps that choose functions; with fewer, a quarter of all steps."""


@keywords("aide.check_kernel")
@one_call()
def check_kernel(
    key: Key | int,
    kernel: AnyKernel | Transition | StateAlgorithm,
    log_density: LogDensity,
    start: Distribution,
    *,
    reversal: AnyKernel | Transition | StateAlgorithm | bool | None = None,
    num_runs: int = 100_000,
    false_alarm: float = 1e-4,
) -> KernelCheck:
    r"""Test one step of an MCMC kernel against the density that it should leave invariant.

    A rejection holds for any start: a right kernel is rejected with probability `false_alarm` at
    most, however rare the states or heavy-tailed the weights. A pass needs a start that covers the
    density, otherwise the verdict is `undecided`.

    Args:
        key: A JAX key, or an integer seed.
        kernel: An aide kernel; a function `step(key, x)` or `step(key, log_density, x)`; or an
            algorithm with `init(x)` and `step(key, state)`, such as `blackjax.nuts(...)`.
        log_density: $\log\pi$ of one state, up to a constant.
        start: Distribution of the first states: anything with `sample(key)` and `log_prob(x)`,
            similar to the density and rather wider than narrower.
        reversal: The kernel that reverses this one. By default the claim of the kernel itself
            (`reversal()`); a kernel without that method counts as reversible. `False` claims none:
            then invariance alone is tested.
        num_runs: Steps to make; up to a quarter of them choose the test functions. Small errors
            need many.
        false_alarm: Probability with which a right kernel may be rejected.

    Returns:
        The result: its `verdict`, the p-values of invariance and reversibility, and what was seen.

    Example:
        >>> normal = Normal(0.0, 1.0)
        >>> kernel = aide.kernels.RandomWalk(1.0)
        >>> aide.check_kernel(0, kernel, normal.log_prob, Normal(0.0, 2.0), num_runs=2000).verdict
        'passed'
    """
    check_distribution("start", start)
    check_count("num_runs", num_runs, MIN_RUNS)
    if not 0.0 < false_alarm < 1.0:
        raise ValueError(f"false_alarm must lie strictly between 0 and 1, got {false_alarm}.")
    if not callable(log_density):
        raise TypeError(f"log_density must be a function of one state, got {log_density!r}.")
    key = as_key(key)
    adapted = as_kernel("kernel", kernel)
    back = claimed_reversal(kernel, adapted, reversal)
    other = None if back is adapted else back
    trial = KernelTrial(adapted, other, log_density, start)

    num_pilot = min(num_runs // 4, MOST_PILOTS)
    runs = TrialRuns(trial, key, num_pilot)
    pilot = _join(list(runs.blocks(range(num_pilot))))
    fresh = runs.blocks(range(num_pilot, num_runs))
    law = None if back is None else "reversible" if other is None else "reversal"
    tests, seen = judge_runs(pilot, fresh, law, num_runs - num_pilot, _generator(key))
    p_value = min(1.0, len(tests) * min(test.p_value for test in tests))
    return KernelCheck(
        p_value=p_value,
        false_alarm=false_alarm,
        reversal=tests[0] if back is not None else None,
        invariance=tests[-1],
        start=seen,
        num_runs=num_runs - num_pilot,
        name=kernel_name(adapted),
    )


def judge_runs(
    pilot: StepRuns, fresh: Iterable[StepRuns], law: str | None, num: int, rng: np.random.Generator
) -> tuple[list[LawTest], StartQuality]:
    """Choose functions on the pilot runs, and test the laws on the `num` fresh ones.

    Args:
        pilot: Pilot runs.
        fresh: Blocks of runs that are independent of them.
        law: The claim beside invariance: `reversible`, `reversal`, or `None`.
        num: Number of fresh runs.
        rng: Chooses functions and tosses coins.
    """
    functions = Functions(pilot, _log_bound(pilot, num), rng)
    view = functions.look(pilot)
    law_tests: list[ReversalTest | InvarianceTest] = [InvarianceTest(functions, view)]
    if law is not None:
        terms = reversal_terms(functions, law == "reversible", rng)
        law_tests.insert(0, ReversalTest(law, *terms, view))
    weights = Weights()
    for runs in fresh:
        weights.add(runs)
        view = functions.look(runs)
        for law_test in law_tests:
            law_test.add(view)
    return [law_test.verdict() for law_test in law_tests], weights.start()


def _log_bound(pilot: StepRuns, num: int) -> float:
    r"""$\log c$: the largest weight, at most $n^{1/3}$ mean weights, less from a bad start.

    With weights cut at $c$, the effective number of runs is at least a tenth of all: otherwise a
    few runs would decide, without much power.
    """
    log_weight = pilot.before.log_weight
    peak = log_weight.max()
    if peak == -np.inf:
        raise ValueError(
            f"log_density is -inf at all {log_weight.size} draws of start. Use a start that covers "
            "the density."
        )
    weights = np.exp(log_weight - peak)
    bound = min(1.0, weights.mean() * num ** (1 / 3))
    enough = min(0.1 * weights.size, 0.5 * (weights > 0).sum())
    while True:
        cut = np.minimum(weights, bound)
        if cut.sum() ** 2 >= enough * (cut**2).sum() or bound < 1e-200:
            return float(peak + np.log(bound))
        bound /= 2


def _generator(key: Key) -> np.random.Generator:
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())


def _join(blocks: list[StepRuns]) -> StepRuns:
    return jax.tree.map(lambda *parts: np.concatenate(parts), *blocks)
