"""What `aide.check` finds: injected mistakes, the law that found each, p-values and time.

python benchmarks/power.py            # the table of docs/trust.md
python benchmarks/power.py --seeds 20 # and how often correct algorithms are flagged
"""

import argparse
import sys
import time
from pathlib import Path

import jax

import aide

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.injected import INJECTED  # noqa: E402


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=0, help="seeds for correct algorithms")
    seeds = parser.parse_args().seeds
    print("| algorithm | mistake | found by law | p | runs | CPU seconds | where |")
    print("|---|---|---|---|---|---|---|")
    for case in INJECTED:
        begun = time.process_time()
        report = aide.check(jax.random.key(0), case.wrong())
        seconds = time.process_time() - begun
        laws = ", ".join(str(law) for law in sorted({item.law for item in report.failures}))
        p_value = "< 1e-30" if report.p_value < 1e-30 else f"{report.p_value:.0e}"
        where = report.place or "; ".join(report.kernels) or "–"
        cells = [
            case.family,
            case.mistake,
            laws or "–",
            p_value,
            f"{report.num_runs:,}",
            f"{seconds:.0f}",
        ]
        print(f"| {' | '.join(cells)} | {where} |", flush=True)
    if not seeds:
        return
    print("\n| correct algorithm | flagged | passed | smallest p |\n|---|---|---|---|")
    for family, build in {case.family: case.right for case in INJECTED}.items():
        reports = [
            aide.check(jax.random.key(1000 + seed), build(), find=False) for seed in range(seeds)
        ]
        verdicts = [sum(report.verdict == v for report in reports) for v in ("FAILED", "passed")]
        smallest = min(report.p_value for report in reports)
        print(
            f"| {family} | {verdicts[0]} of {seeds} | {verdicts[1]} | {smallest:.2g} |", flush=True
        )


if __name__ == "__main__":
    main()
