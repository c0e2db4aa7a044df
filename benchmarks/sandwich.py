"""How often does the sandwich hold the truth, and how wide is it?

    python benchmarks/sandwich.py            # coverage, then widths: about 20 minutes on one core
    python benchmarks/sandwich.py --smoke    # a few replications of everything

Every pair has a known divergence: Gaussians in closed form, the bimodal posterior by quadrature, a
hidden Markov model by enumerating the filter's traces. "Noisy" Gaussians hide a trace, so that the
classifier has to do the work; "log Z unknown" takes balancing away from it as well. A 95% sandwich
may miss the truth in 5% of the replications. Prints Markdown tables.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import aide

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.known_pairs import bimodal_modes, bimodal_sir, hidden_markov, slices  # noqa: E402
from support.made import with_log_z  # noqa: E402
from support.synthetic import divergence, make_draws, noisy_pair  # noqa: E402

DIMENSIONS = (1, 10, 50)
DIVERGENCES = (0.01, 0.1, 1.0, 5.0, 20.0)
UNKNOWN = (None, None)


@dataclass(frozen=True)
class Case:
    """A pair with its true divergence and replications of its draws."""

    name: str
    truth: float
    replications: Callable[[int], Iterator[aide.draws.Draws]]
    cheap: bool = False


def gaussian_case(kind: str, dimension: int, wanted: float, num: int) -> Case:
    """One Gaussian pair: tractable, noisy, or noisy with unknown constants."""
    slope, meta = (0.0, 2) if kind == "tractable" else (0.3, 4)
    gold, target = noisy_pair(wanted, dimension, slope)
    log_z: Any = UNKNOWN if kind == "noisy, log Z unknown" else (0.0, 0.0)

    def replications(count: int) -> Iterator[aide.draws.Draws]:
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


def coverage(cases: list[Case], count: int) -> None:
    """Print how often each sandwich held the truth."""
    print("| pair | D | inside | D below | D above | median sandwich | s each |")
    print("|---|---|---|---|---|---|---|")
    for case in cases:
        start = time.perf_counter()
        num = 10 * count if case.cheap else count
        found = np.array(
            [aide.estimation.Estimate(d).sandwich().limits for d in case.replications(num)]
        )
        seconds = (time.perf_counter() - start) / len(found)
        low, high = found[:, 0] > case.truth, found[:, 1] < case.truth
        middle = np.median(found, axis=0)
        print(
            f"| {case.name} | {case.truth:.3g} | {100 * np.mean(~low & ~high):.1f}% | "
            f"{100 * low.mean():.1f}% | {100 * high.mean():.1f}% | "
            f"{middle[0]:.3g} to {middle[1]:.3g} | {seconds:.2f} |",
            flush=True,
        )


def widths(num: int) -> None:
    """Print the sandwich of one large run for each pair, in 10 dimensions."""
    print(f"\n| pair, 10-D, N = {num:,} + {num:,} | D | M | sandwich | width / D | s |")
    print("|---|---|---|---|---|---|")
    for slope, meta, log_z in (
        (0.0, 2, (0.0, 0.0)),
        (0.3, 4, (0.0, 0.0)),
        (0.3, 20, (0.0, 0.0)),
        (0.3, 20, UNKNOWN),
    ):
        for wanted in (0.01, 0.1, 1.0, 5.0):
            pair = noisy_pair(wanted, 10, slope)
            draws = make_draws(np.random.default_rng(1), *pair, (num, num), (meta, meta))
            draws = with_log_z(draws, log_z)
            start = time.perf_counter()
            low, high = aide.estimation.Estimate(draws).sandwich().limits
            kind = "tractable" if slope == 0 else "noisy" if log_z[0] == 0 else "log Z unknown"
            print(
                f"| {kind} | {wanted:g} | {meta} | {low:.4f} to {high:.4f} | "
                f"{(high - low) / wanted:.3f} | {time.perf_counter() - start:.1f} |",
                flush=True,
            )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few replications")
    parser.add_argument(
        "--replications", type=int, default=100, help="10 times as many for tractable pairs"
    )
    parser.add_argument("--only", choices=("coverage", "widths"), help="one of the two tables")
    parser.add_argument("--runs", type=int, default=500, help="runs per side and replication")
    options = parser.parse_args()
    count, num = (4, 200) if options.smoke else (options.replications, options.runs)
    kinds = ("tractable", "noisy", "noisy, log Z unknown")
    cases = [
        drawn_case("bimodal, one mode missed", bimodal_modes(), num, 2, True),
        drawn_case("bimodal, SIR from an offset proposal", bimodal_sir(5), num, 4),
        drawn_case("hidden Markov model, filter with P = 1", hidden_markov(1), num, 2, True),
        drawn_case("hidden Markov model, filter with P = 2", hidden_markov(2), num, 4),
    ]
    cases += [
        gaussian_case(kind, dimension, wanted, num)
        for kind in kinds
        for dimension in DIMENSIONS
        for wanted in DIVERGENCES
    ]
    if options.only == "widths":
        widths(500 if options.smoke else 20_000)
        return
    print(f"N = {num} + {num}, {count} replications ({10 * count} for tractable pairs), 95%\n")
    coverage(cases, count)
    if options.only is None:
        widths(500 if options.smoke else 20_000)


if __name__ == "__main__":
    main()
