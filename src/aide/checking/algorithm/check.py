r"""`aide.check`: do an algorithm's two operations obey the laws?

The output density may be unknown. The algorithm is shrunk to few particles and few steps
(`aide._core.versions`), run, and tested:

| law | statement | finds |
|---|---|---|
| 1 | $E_r[\xi] = Z\,q(x)$, on a region of typical outputs | wrong or unnormalised densities |
| 2 | given $|l|$ and $x$, $P(l > 0) = 1/(1 + e^{|l|})$ | operations that do not fit together |
| 3 | $l = 0$ if the output determines the trace | operations that do not fit together |
| 4 | AIDE against itself is at least 0 | operations that do not fit together, coarsely |
| 5 | $E_{simulate}[h(x)/\xi] = 1/Z$ | wrong densities, through `simulate` |
| 6 | among moved copies, the k-th is the output with chance $\xi_k/\sum_j\xi_j$ | wrong shapes |

A correct algorithm fails with probability `false_alarm` at most, over all tests together, at every
sample size and every tail (`aide._core.exact_tests`): signs are judged given all else, means of
non-negative terms by bets against "too large", outputs among moved copies given the sets (`moved`).
Runs are independent by construction. Reference draws that a sampler picks from must be independent
too: of a Markov chain use a thinned part.
"""

import math
from collections.abc import Callable

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm, describe, log_z_of
from aide._core.keywords import keywords
from aide._core.random import as_key
from aide._core.types import Key
from aide._core.validate import check_count
from aide._core.versions import Version, determines_trace, kernels_of, prefixes_of, small_versions
from aide.checking.algorithm.laws import (
    ROUNDING,
    DensityRuns,
    Evidence,
    density_evidence,
    exchange_evidence,
    self_evidence,
    swap_evidence,
    untested,
)
from aide.checking.algorithm.moved_runs import moved_law
from aide.checking.algorithm.region import ProbeFeatures, fit_region, repeated
from aide.checking.algorithm.report import CheckReport
from aide.checking.kernel.check import check_kernel
from aide.engine.draw import draw
from aide.engine.draws import Draws
from aide.engine.outputs import check_algorithm
from aide.engine.programs.programs import compile_quickly
from aide.engine.programs.tracing import one_call
from aide.reporting.numbers import FAILED

CHUNK = 1000
"""Runs that one program computes at a time, which bounds memory."""
KERNEL_RUNS = 100_000
"""Steps of each MCMC kernel that is checked alone after a failure."""
LOCATE_RUNS = 6000
"""Largest number of runs of each prefix in the search for a wrong move."""
SAME = 1e-6
"""Largest |l| in nats that counts as rounding where law 3 holds."""
LOCATE_LEVEL = 1e-6
"""Largest probability of blaming a right move, over all prefixes that are tried."""


def locate(key: Key, algorithm: InferenceAlgorithm, num_runs: int) -> str | None:
    """Name the first move after which law 2 fails with one particle; `None` if none does.

    Prefixes of growing lengths are tried, then a bisection between the last right and the first
    wrong one.
    """
    prefixes = prefixes_of(algorithm)
    if not prefixes:
        return None
    fails: dict[int, bool] = {}

    def failing(index: int) -> bool:
        if index not in fails:
            fails[index] = _fails(key, prefixes[index][1], num_runs, LOCATE_LEVEL / num_tests)
        return fails[index]

    lengths = sorted({min(n, len(prefixes)) for n in (1, 2, 3, 4, 6, 8, 12, 16, 32, len(prefixes))})
    num_tests = len(lengths) + math.ceil(math.log2(len(prefixes) + 1))
    right = -1
    for length in lengths:
        if failing(length - 1):
            wrong = length - 1
            break
        right = length - 1
    else:
        return None
    while wrong - right > 1:
        middle = (wrong + right) // 2
        wrong, right = (middle, right) if failing(middle) else (wrong, middle)
    return prefixes[wrong][0]


def _fails(key: Key, build: Callable[[], InferenceAlgorithm], num_runs: int, level: float) -> bool:
    prefix = build()
    draws = draw(
        key, prefix, prefix, num_gold=1, num_target=num_runs, chunk_size=CHUNK, progress=False
    )
    log_ratio = log_ratios(draws.target.own)
    if determines_trace(prefix):
        return bool(np.abs(log_ratio).max() > SAME)
    if np.abs(log_ratio).max() < ROUNDING:
        return False
    evidence = swap_evidence(log_ratio, np.zeros((num_runs, 0)), "")
    return evidence.p_value is not None and evidence.p_value < level


def log_ratios(own: np.ndarray) -> np.ndarray:
    r"""$l = \log\xi_2 - \log\xi_1$ at the algorithm's own outputs."""
    return own[:, 1] - own[:, 0]


def wrong_kernels(key: Key, algorithm: InferenceAlgorithm, num_runs: int) -> tuple[str, ...]:
    """The algorithm's MCMC kernels that fail `check_kernel`, in words."""
    found, start = [], getattr(algorithm, "start", None)
    if start is None:
        return ()
    for index, (kernel, log_density) in enumerate(kernels_of(algorithm)[:3]):
        subkey = jax.random.fold_in(key, index)
        result = check_kernel(subkey, kernel, log_density, start, num_runs=num_runs)
        if result.verdict == FAILED:
            found.append(f"The kernel {result.name} is wrong by itself: see aide.check_kernel.")
    return tuple(dict.fromkeys(found))


@keywords("aide.check")
@one_call()
def check(
    key: Key | int,
    algorithm: InferenceAlgorithm,
    *,
    num_runs: int = 18_000,
    false_alarm: float = 1e-4,
    shrink: bool = True,
    find: bool = True,
    progress: bool | None = None,
) -> CheckReport:
    """Test the laws on an algorithm.

    Args:
        key: A JAX key, or an integer seed.
        algorithm: Anything with `simulate(key)` and `regenerate(key, value)`.
        num_runs: Runs of `simulate`, shared by all versions of the algorithm that are tested.
        false_alarm: Probability with which a correct algorithm may fail.
        shrink: Also test versions with 1, 2 and 3 particles and few steps, which show errors best.
            An algorithm of your own takes part if it is a dataclass with `num_particles`, or has a
            method `shrunk()` returning a dict of named small versions.
        find: On failure, search for the first wrong move of an SMC algorithm.
        progress: Show progress bars; by default in long runs at a terminal.

    Returns:
        The report: its `verdict`, the laws that were tested, and where the first mistake was seen.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> sampler = aide.sir(prior, log_joint, num_particles=3)
        >>> aide.check(0, sampler, num_runs=2000).verdict
        'passed'
    """
    key = as_key(key)
    check_algorithm("algorithm", algorithm)
    check_count("num_runs", num_runs, 600)
    if not 0 < false_alarm < 1:
        raise ValueError(f"false_alarm must lie strictly between 0 and 1, got {false_alarm}.")
    versions = small_versions(algorithm) if shrink else {"as given": Version(algorithm)}
    shares = np.array([version.share for version in versions.values()])
    numbers = (num_runs * shares / shares.sum()).astype(int)
    evidence: list[Evidence] = []
    with compile_quickly():
        for index, (name, version) in enumerate(versions.items()):
            subkey = jax.random.fold_in(key, index)
            evidence += _examine(subkey, name, version, int(numbers[index]), progress)
        single = tuple(name for name, version in versions.items() if version.has_one_particle)
        report = CheckReport(describe(algorithm), tuple(evidence), false_alarm, num_runs, single)
        if find and any(item.law in (2, 3) for item in report.failures):
            subkey = jax.random.fold_in(key, len(versions))
            kernels = wrong_kernels(subkey, algorithm, KERNEL_RUNS)
            place = locate(subkey, algorithm, min(int(numbers.max()), LOCATE_RUNS))
            report = report.with_place(place, kernels)
    return report


def _examine(
    key: Key, name: str, version: Version, num_runs: int, progress: bool | None
) -> list[Evidence]:
    """All tests of one version: pilots fit the region and the features, fresh runs are tested."""
    algorithm = version.algorithm
    key_pilot, key_main, key_moved = jax.random.split(key, 3)
    num_pilot = num_runs // 5
    pilot = _draw(key_pilot, algorithm, algorithm, 1, num_pilot, progress)
    features = ProbeFeatures(pilot.target.values)
    if version.has_density:
        region = fit_region(pilot.target.values)
    else:
        region = "the density of this version is unknown"
    num, log_z = num_runs - num_pilot, log_z_of(algorithm)
    if isinstance(region, str):
        draws = _draw(key_main, algorithm, algorithm, 1, num, progress)
        densities = untested(region, log_z, name, num)
    else:
        draws = _draw(key_main, region, algorithm, num, num, progress)
        real = region.layout.real_numbers(draws.target.values)
        runs = DensityRuns(
            log_weight=draws.gold.cross[:, 0] - draws.gold.own[:, 0],
            log_inverse=draws.target.cross[:, 0] - draws.target.own[:, 0],
            is_atom=repeated(real),
            at_region=features(draws.gold.values),
            at_outputs=features(draws.target.values),
        )
        densities = density_evidence(runs, log_z, name)
    if version.has_density:
        own, values = draws.target.own[:, 0], draws.target.values
        moved = moved_law(key_moved, algorithm, pilot.target.values, values, own, CHUNK, name)
        densities = [*densities, moved]
    log_ratio = log_ratios(draws.target.own)
    if determines_trace(algorithm):
        return [_same_evidence(log_ratio, name), *densities]
    swap = swap_evidence(log_ratio, features(draws.target.values), name)
    if np.abs(log_ratio).max() <= ROUNDING:
        return [swap, *densities]
    return [swap, exchange_evidence(log_ratio, name), self_evidence(log_ratio, name), *densities]


def _same_evidence(log_ratio: np.ndarray, name: str) -> Evidence:
    """Law 3."""
    largest = float(np.abs(log_ratio).max())
    words = f"the output determines the trace: both scores differ by at most {largest:.2g}"
    return Evidence(3, name, float(largest <= SAME), words, log_ratio.size)


def _draw(
    key: Key,
    gold: InferenceAlgorithm,
    target: InferenceAlgorithm,
    num_gold: int,
    num_target: int,
    progress: bool | None,
) -> Draws:
    return draw(
        key,
        gold,
        target,
        num_gold=num_gold,
        num_target=num_target,
        keep_values=True,
        chunk_size=CHUNK,
        progress=progress,
    )
