"""How often do 95% intervals for the divergence hold it?

    python benchmarks/run.py coverage/intervals              # 1,000 replications: minutes
    python benchmarks/run.py coverage/intervals --only ours --replications 10000

Tractable pairs with known divergence and terms of skewness below 3, N from 100 up, equal and
unequal on the two sides; then N = 30 and skewness 6, where `aide` warns. The table `ours` has the
coverage of Student's interval with Welch's degrees of freedom, and of `Estimate.interval`, which
corrects for skewness; `methods` has bootstraps and smoothed tails as well, at N = 100 + 100.
"""

from collections.abc import Iterator

import numpy as np
from support.made import PAIRS, Pair, gammas, welch

from aide.estimation.interval import confidence_limit, skewness
from benchmarks.peers.intervals import METHODS
from benchmarks.table import Row

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


def compare_methods(replications: int = 1000) -> Iterator[Row]:
    """Coverage of every method at the smallest number of runs."""
    ours = lambda g, t, rng: tuple(confidence_limit((g, t), level) for level in (0.025, 0.975))
    student = lambda g, t, rng: tuple(welch(g, t, level) for level in (0.025, 0.975))
    methods = {"ours": ours, "Welch": student, **METHODS}
    for name, pair in PAIRS.items():
        rng, inside = np.random.default_rng(6), dict.fromkeys(methods, 0)
        for _ in range(replications):
            gold, target = (part[0] for part in pair.sample(rng, 1, *SIZES[0]))
            for method, interval in methods.items():
                low, high = interval(gold, target, rng)
                inside[method] += low <= pair.divergence <= high
        share = {method: f"{100 * num / replications:.1f}%" for method, num in inside.items()}
        yield {"pair": name, **share}


def cover(replications: int = 1000) -> Iterator[Row]:
    """Coverage by pair and numbers of runs."""
    rows = [(name, pair, sizes) for sizes in SIZES for name, pair in PAIRS.items()]
    rows += [(f"beyond: {name}", *which) for name, which in BEYOND.items()]
    for name, pair, sizes in rows:
        first, second, student, ours = measure(pair, sizes, replications)
        yield {
            "pair": name,
            "skewness": f"{first:.1f}, {second:.1f}",
            "N": f"{sizes[0]} + {sizes[1]}",
            "Welch": f"{student:.1f}%",
            "ours": f"{ours:.1f}%",
        }


TABLES = {"ours": cover, "methods": compare_methods}
