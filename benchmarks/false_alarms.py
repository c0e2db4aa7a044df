"""How often correct algorithms, kernels and studies are rejected: the stated rates, measured.

python benchmarks/false_alarms.py                 # 1,000 replications of every case, a table
python benchmarks/false_alarms.py --kind simulated --replications 100
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.correct import GRID, alarm_counts  # noqa: E402


def main() -> None:
    """Print alarms per test and case as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=1000)
    parser.add_argument("--kind", choices=list(GRID), default=None)
    options = parser.parse_args()
    print(
        f"| correct input | test | alarms at 5% of {options.replications:,} | at 1e-4 | least p |"
    )
    print("|---|---|---|---|---|")
    for kind in [options.kind] if options.kind else GRID:
        for name in GRID[kind][0]:
            counts = alarm_counts(kind, name, 2, options.replications)
            for law, (often, seldom, smallest) in counts.items():
                cells = (f"{kind}: {name}", law, str(often), str(seldom), f"{smallest:.2g}")
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
