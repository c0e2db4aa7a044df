"""How often is a printed sentence false?

    python benchmarks/run.py coverage/sentences                  # some ten minutes
    python benchmarks/run.py coverage/sentences --replications 100
    python benchmarks/run.py coverage/sentences --only chains    # the sentences of aide.convergence
    python benchmarks/run.py coverage/sentences --only estimates --sizes 100 100 --pairs atom

Pairs of laws whose divergence, total variation and trimmed means are finite sums: rare parts from
1e-5 to 4%, atoms, heavy tails, near-zero and infinite divergence. For each claim
the share of replications in which it was false, and in brackets that of the claim without the
outputs it leaves out (or, for contradictions, of five standard errors).
"""

from collections.abc import Iterator

from support.chains import LATE, RISING, walk
from support.finite_laws import PAIRS, Pair, count_false, count_false_lengths

from benchmarks.table import Row

SIZES = (100, 100, 100, 1000, 500, 500)
"""Runs of gold standard and target, in pairs."""
FINE = (20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80)
COARSE = (5, 10, 20, 40, 80, 160, 320)


def estimates(
    replications: int = 1000, sizes: tuple[int, ...] = SIZES, pairs: str = ""
) -> Iterator[Row]:
    """Rates of everything about a single estimate, for pairs whose names contain `pairs`."""
    for both in zip(sizes[::2], sizes[1::2], strict=True):
        for name, pair in ((name, pair) for name, pair in PAIRS.items() if pairs in name):
            false = count_false(pair, both, replications)
            rate = {claim: f"{number / replications:.1%}" for claim, number in false.items()}
            yield {
                "pair": name,
                "D": f"{pair.divergence:.3g}",
                "N": f"{both[0]} + {both[1]}",
                "interval": f"{rate['interval']} ({rate['old interval']})",
                "reading": f"{rate['reading']} ({rate['old reading']})",
                "sandwich": rate["sandwich"],
                "contradiction": f"{rate['contradiction']} ({rate['old contradiction']})",
                "below 0": rate["below 0"],
            }


def chains(replications: int = 1000) -> Iterator[Row]:
    """Rates of "at the lengths measured from k on this chain is within …"."""
    both = walk(sorted({*FINE, *COARSE}))
    cases: dict[str, dict[int, Pair]] = {
        "random walk, fine grid": {number: both[number] for number in FINE},
        "random walk, coarse grid": {number: both[number] for number in COARSE},
        **LATE,
        "unadjusted chain that drifts away": RISING,
    }
    for name, pairs in cases.items():
        for num_runs, nats in ((200, 0.1), (200, 0.05), (1000, 0.05)):
            counts = count_false_lengths(pairs, nats, num_runs, replications)
            false, old = (f"{count / replications:.1%}" for count in counts)
            row = {"chain": name, "N": num_runs, "nats": f"{nats:g}", "false": false}
            yield {**row, "false if nothing is left out": old}


TABLES = {"estimates": estimates, "chains": chains}
