r"""Is a kernel reversible for a density; is its reversal right; is the density invariant?

Laws (see `kernel_laws`, `kernel_invariance`): with $x \sim s$ and $w = \pi(x)/s(x)$, for all
bounded $f$ and $g$, $E_s[w\{f(x) g(Kx) - g(x) f(K^*x)\}] = 0$ and $E_s[w\{g(Kx) - g(x)\}] = 0$.
Both are judged exactly: `false_alarm` holds at every sample size, start and tail. The density
$\pi$ is needed up to a constant only.
"""

from collections.abc import Iterable

import jax
import numpy as np

from aide._core.distribution import Distribution, check_distribution
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
from aide.checking.kernel.result import KernelCheck
from aide.checking.kernel.runs import KernelTrial, StartQuality, StepRuns, TrialRuns, Weights
from aide.engine.programs.tracing import one_call
from aide.kernels.kernel import AnyKernel

MIN_RUNS = 1000
"""Least number of steps that a check accepts: fewer would show next to nothing."""
MOST_PILOTS = 20_000
"""Largest number of steps that choose functions; with fewer, a quarter of all steps."""


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
