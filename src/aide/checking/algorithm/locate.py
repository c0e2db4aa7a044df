"""Where is the mistake? Law 2 after every move, with one particle."""

import math
from collections.abc import Callable

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.types import Key
from aide._core.versions import determines_trace, kernels_of, prefixes_of
from aide.checking.algorithm.swap import ROUNDING, swap_evidence
from aide.checking.kernel.check import check_kernel
from aide.draws.draw import draw
from aide.reporting.verdict import FAILED

LOCATE_LEVEL = 1e-6
"""Chance, at most, of blaming a move that is right, over all prefixes tried together."""


def locate(key: Key, algorithm: InferenceAlgorithm, num_runs: int) -> str | None:
    """Name the first move after which law 2 fails with one particle; `None` if none does.

    Prefixes are tried at growing lengths, then between the last right and the first wrong one.
    """
    prefixes = prefixes_of(algorithm)
    if not prefixes:
        return None
    fails: dict[int, bool] = {}

    def failing(index: int) -> bool:
        if index not in fails:
            fails[index] = _fails(key, prefixes[index][1], num_runs, LOCATE_LEVEL / most)
        return fails[index]

    lengths = sorted({min(n, len(prefixes)) for n in (1, 2, 3, 4, 6, 8, 12, 16, 32, len(prefixes))})
    most = len(lengths) + math.ceil(math.log2(len(prefixes) + 1))
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
        key, prefix, prefix, num_gold=1, num_target=num_runs, chunk_size=1000, progress=False
    )
    log_ratio = log_ratios(draws.target.own)
    if determines_trace(prefix):
        return bool(np.abs(log_ratio).max() > 1e-6)
    if np.abs(log_ratio).max() < ROUNDING:
        return False
    evidence = swap_evidence(log_ratio, np.zeros((num_runs, 0)), "")
    return evidence.p_value is not None and evidence.p_value < level


def log_ratios(own: np.ndarray) -> np.ndarray:
    r"""$l = \log\xi_2 - \log\xi_1$ at the algorithm's own outputs."""
    return own[:, 1] - own[:, 0]


def wrong_kernels(key: Key, algorithm: InferenceAlgorithm, num_runs: int) -> tuple[str, ...]:
    """The algorithm's MCMC kernels that fail `check_kernel`, in words."""
    found, start = [], getattr(algorithm, "initial", None)
    if start is None:
        return ()
    for index, (kernel, log_density) in enumerate(kernels_of(algorithm)[:3]):
        subkey = jax.random.fold_in(key, index)
        result = check_kernel(subkey, kernel, log_density, start, num_runs=num_runs)
        if result.verdict == FAILED:
            found.append(f"The kernel {result.name} is wrong by itself: see aide.check_kernel.")
    return tuple(dict.fromkeys(found))
