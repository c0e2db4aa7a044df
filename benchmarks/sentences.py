"""How often is a printed sentence false?

    python benchmarks/sentences.py                      # 1,000 replications: some ten minutes
    python benchmarks/sentences.py --replications 100
    python benchmarks/sentences.py --only chains        # the sentences of aide.convergence

Pairs of laws whose divergence, total variation and trimmed means are finite sums: rare parts from
1e-5 to 4%, atoms, heavy tails, near-zero and infinite divergence. Prints Markdown tables: for each
claim the share of replications in which it was false, and in brackets that of the claim without the
outputs it leaves out (or, for contradictions, of five standard errors).
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.chains import LATE, RISING, walk  # noqa: E402
from support.finite_laws import PAIRS, Pair  # noqa: E402
from support.sentence_rates import count_false, count_false_lengths  # noqa: E402

SIZES = ((100, 100), (100, 1000), (500, 500))
FINE = (20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80)
COARSE = (5, 10, 20, 40, 80, 160, 320)


def estimates(count: int, all_sizes: tuple[tuple[int, int], ...], text: str) -> None:
    """Print the rates of everything about a single estimate."""
    print("| pair | D | N | interval | reading | sandwich | contradiction | below 0 |")
    print("|---|---|---|---|---|---|---|---|")
    for sizes in all_sizes:
        for name, pair in ((name, pair) for name, pair in PAIRS.items() if text in name):
            false = count_false(pair, sizes, count)
            rate = {claim: f"{number / count:.1%}" for claim, number in false.items()}
            print(
                f"| {name} | {pair.divergence:.3g} | {sizes[0]} + {sizes[1]} | "
                f"{rate['interval']} ({rate['old interval']}) | "
                f"{rate['reading']} ({rate['old reading']}) | {rate['sandwich']} | "
                f"{rate['contradiction']} ({rate['old contradiction']}) | {rate['below 0']} |",
                flush=True,
            )


def chains(count: int) -> None:
    """Print the rates of "at the lengths measured from k on this chain is within …"."""
    print("\n| chain | N | nats | false | false if nothing is left out |")
    print("|---|---|---|---|---|")
    both = walk(sorted({*FINE, *COARSE}))
    cases: dict[str, dict[int, Pair]] = {
        "random walk, fine grid": {number: both[number] for number in FINE},
        "random walk, coarse grid": {number: both[number] for number in COARSE},
        **LATE,
        "unadjusted chain that drifts away": RISING,
    }
    for name, pairs in cases.items():
        for num_runs, nats in ((200, 0.1), (200, 0.05), (1000, 0.05)):
            false, old = np.array(count_false_lengths(pairs, nats, num_runs, count)) / count
            print(f"| {name} | {num_runs} | {nats:g} | {false:.1%} | {old:.1%} |", flush=True)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=1000)
    parser.add_argument("--only", choices=("estimates", "chains"), help="one of the two tables")
    parser.add_argument("--runs", type=int, nargs=2, help="runs of gold and target, one pair only")
    parser.add_argument("--pairs", default="", help="only pairs whose name contains this")
    options = parser.parse_args()
    if options.only != "chains":
        sizes = (tuple(options.runs),) if options.runs else SIZES
        estimates(options.replications, sizes, options.pairs)
    if options.only != "estimates":
        chains(options.replications)


if __name__ == "__main__":
    main()
