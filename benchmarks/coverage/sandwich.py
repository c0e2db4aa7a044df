"""How often does the sandwich hold the truth, and how wide is it?

    python benchmarks/run.py coverage/sandwich    # about 20 minutes on one core
    python benchmarks/run.py coverage/sandwich --only sandwich --replications 4 --runs 200

Every pair has a known divergence: Gaussians in closed form, the bimodal posterior by quadrature, a
hidden Markov model by enumerating the filter's traces. "Noisy" Gaussians hide a trace, so that the
classifier has to do the work; "log Z unknown" takes balancing away from it as well. A 95% sandwich
may miss the truth in 5% of the replications. Tractable pairs have 10 times as many replications.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from support.made import divergence, make_draws, noisy_pair, with_log_z
from support.pairs import bimodal_modes, bimodal_sir, hidden_markov, slices

import aide
from benchmarks.table import Row

DIMENSIONS = (1, 10, 50)
DIVERGENCES = (0.01, 0.1, 1.0, 5.0, 20.0)
UNKNOWN = (None, None)


@dataclass(frozen=True)
class Case:
    """A pair with its true divergence and replications of its draws."""

    name: str
    truth: float
    replications: Callable[[int], Iterator[aide.engine.Draws]]
    cheap: bool = False


def gaussian_case(kind: str, dimension: int, wanted: float, num: int) -> Case:
    """One Gaussian pair: tractable, noisy, or noisy with unknown constants."""
    slope, meta = (0.0, 2) if kind == "tractable" else (0.3, 4)
    gold, target = noisy_pair(wanted, dimension, slope)
    log_z: Any = UNKNOWN if kind == "noisy, log Z unknown" else (0.0, 0.0)

    def replications(count: int) -> Iterator[aide.engine.Draws]:
        for seed in range(count):
            rng = np.random.default_rng(seed)
            yield make_draws(rng, gold, target, (num, num), (meta, meta), log_z)

    return Case(
        f"{kind} Gaussians, {dimension}-D", divergence(gold, target), replications, slope == 0
    )


def drawn_case(
    name: str, pair: tuple[Any, Any, float], num: int, meta: int, cheap: bool = False
) -> Case:
    """A pair of algorithms of the library; replications are slices of one long run."""
    gold, target, truth = pair
    return Case(name, truth, lambda count: slices(gold, target, num, count, meta), cheap)


def all_cases(num: int) -> list[Case]:
    """Pairs of the library, then Gaussians, `num` runs on each side."""
    cases = [
        drawn_case("bimodal, one mode missed", bimodal_modes(), num, 2, True),
        drawn_case("bimodal, SIR from an offset proposal", bimodal_sir(5), num, 4),
        drawn_case("hidden Markov model, filter with P = 1", hidden_markov(1), num, 2, True),
        drawn_case("hidden Markov model, filter with P = 2", hidden_markov(2), num, 4),
    ]
    cases += [
        gaussian_case(kind, dimension, wanted, num)
        for kind in ("tractable", "noisy", "noisy, log Z unknown")
        for dimension in DIMENSIONS
        for wanted in DIVERGENCES
    ]
    return cases


def coverage(replications: int = 100, runs: int = 500) -> Iterator[Row]:
    """How often each sandwich held the truth, N = `runs` on each side."""
    for case in all_cases(runs):
        start = time.perf_counter()
        num = 10 * replications if case.cheap else replications
        found = np.array(
            [aide.estimation.Estimate(d).sandwich().limits for d in case.replications(num)]
        )
        seconds = (time.perf_counter() - start) / len(found)
        low, high = found[:, 0] > case.truth, found[:, 1] < case.truth
        middle = np.median(found, axis=0)
        yield {
            "pair": case.name,
            "D": f"{case.truth:.3g}",
            "inside": f"{100 * np.mean(~low & ~high):.1f}%",
            "D below": f"{100 * low.mean():.1f}%",
            "D above": f"{100 * high.mean():.1f}%",
            "median sandwich": f"{middle[0]:.3g} to {middle[1]:.3g}",
            "s each": f"{seconds:.2f}",
        }


def widths(large_runs: int = 20_000) -> Iterator[Row]:
    """The sandwich of one large run for each pair, in 10 dimensions."""
    for slope, meta, log_z in (
        (0.0, 2, (0.0, 0.0)),
        (0.3, 4, (0.0, 0.0)),
        (0.3, 20, (0.0, 0.0)),
        (0.3, 20, UNKNOWN),
    ):
        for wanted in (0.01, 0.1, 1.0, 5.0):
            pair = noisy_pair(wanted, 10, slope)
            sizes = (large_runs, large_runs)
            draws = make_draws(np.random.default_rng(1), *pair, sizes, (meta, meta))
            draws = with_log_z(draws, log_z)
            start = time.perf_counter()
            low, high = aide.estimation.Estimate(draws).sandwich().limits
            kind = "tractable" if slope == 0 else "noisy" if log_z[0] == 0 else "log Z unknown"
            yield {
                "pair": kind,
                "D": f"{wanted:g}",
                "M": meta,
                "sandwich": f"{low:.4f} to {high:.4f}",
                "width / D": f"{(high - low) / wanted:.3f}",
                "s": f"{time.perf_counter() - start:.1f}",
            }


TABLES = {"sandwich": coverage, "widths": widths}
