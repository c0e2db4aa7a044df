"""How often do 95% intervals for the divergence hold it?

    python benchmarks/intervals.py                       # 1,000 replications: a few minutes
    python benchmarks/intervals.py --replications 10000
    python benchmarks/intervals.py --compare             # bootstraps and smoothed tails as well

Tractable pairs with known divergence and terms of skewness below 3, N from 100 up, equal and
unequal on the two sides; then N = 30 and skewness 6, where `aide` warns. Prints a Markdown table:
coverage of Student's interval with Welch's degrees of freedom, and of `Estimate.interval`, which
corrects for skewness.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from aide.estimation.interval import confidence_limit, skewness

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from interval_methods import METHODS  # noqa: E402
from support.skewed import PAIRS, Pair, gammas, welch  # noqa: E402

SIZES = ((100, 100), (100, 1000), (1000, 100), (500, 500))
BEYOND = {"N = 30": (gammas(1.0, 2.0), (30, 30)), "skewness 6": (gammas(0.11, 5.0), (100, 100))}


def measure(pair: Pair, sizes: tuple[int, int], count: int) -> tuple[float, ...]:
    """Skewness of both kinds of terms, and coverage of both intervals."""
    rng = np.random.default_rng(5)
    inside = np.zeros(2)
    skews = np.abs([skewness(part.ravel()) for part in pair.sample(rng, 1, 200_000, 200_000)])
    for _ in range(count):
        gold, target = (part[0] for part in pair.sample(rng, 1, *sizes))
        for index, limit in enumerate((welch, lambda g, t, level: confidence_limit((g, t), level))):
            low, high = limit(gold, target, 0.025), limit(gold, target, 0.975)
            inside[index] += low <= pair.divergence <= high
    return (*skews, *(100 * inside / count))


def compare(count: int, sizes: tuple[int, int] = (100, 100)) -> None:
    """Print coverage of every method at the smallest number of runs."""
    ours = lambda g, t, rng: tuple(confidence_limit((g, t), level) for level in (0.025, 0.975))
    student = lambda g, t, rng: tuple(welch(g, t, level) for level in (0.025, 0.975))
    methods = {"ours": ours, "Welch": student, **METHODS}
    print(f"| pair | {' | '.join(methods)} |\n|{'---|' * (len(methods) + 1)}")
    for name, pair in PAIRS.items():
        rng, inside = np.random.default_rng(6), dict.fromkeys(methods, 0)
        for _ in range(count):
            gold, target = (part[0] for part in pair.sample(rng, 1, *sizes))
            for method, interval in methods.items():
                low, high = interval(gold, target, rng)
                inside[method] += low <= pair.divergence <= high
        cells = " | ".join(f"{100 * number / count:.1f}%" for number in inside.values())
        print(f"| {name} | {cells} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=1000)
    parser.add_argument("--compare", action="store_true", help="more methods, N = 100 + 100")
    options = parser.parse_args()
    count = options.replications
    if options.compare:
        compare(count)
        return
    print("| pair | skewness | N | Welch | ours |\n|---|---|---|---|---|")
    rows = [(name, pair, sizes) for sizes in SIZES for name, pair in PAIRS.items()]
    rows += [(f"beyond: {name}", *which) for name, which in BEYOND.items()]
    for name, pair, sizes in rows:
        first, second, student, ours = measure(pair, sizes, count)
        print(
            f"| {name} | {first:.1f}, {second:.1f} | {sizes[0]} + {sizes[1]} | {student:.1f}% | "
            f"{ours:.1f}% |",
            flush=True,
        )


if __name__ == "__main__":
    main()
