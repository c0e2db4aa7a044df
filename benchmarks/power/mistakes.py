"""What `aide.check` finds: injected mistakes, the law that found each, p-values and time.

python benchmarks/run.py power/mistakes                  # what each mistake does
python benchmarks/run.py power/mistakes --only correct   # how often correct ones are flagged
"""

import time
from collections.abc import Iterator

import jax
from support.injected import INJECTED

import aide
from benchmarks.table import Row


def mistakes(family: str = "") -> Iterator[Row]:
    """One row per injected mistake, of families whose names contain `family`."""
    for case in (case for case in INJECTED if family in case.family):
        begun = time.process_time()
        report = aide.check(jax.random.key(0), case.wrong())
        seconds = time.process_time() - begun
        laws = ", ".join(str(law) for law in sorted({item.law for item in report.failures}))
        yield {
            "algorithm": case.family,
            "mistake": case.mistake,
            "found by law": laws or "–",
            "p": "< 1e-30" if report.p_value < 1e-30 else f"{report.p_value:.0e}",
            "runs": report.num_runs,
            "CPU seconds": f"{seconds:.0f}",
            "where": report.place or "; ".join(report.kernels) or "–",
        }


def correct(seeds: int = 20) -> Iterator[Row]:
    """How often the correct version of each family is flagged."""
    for family, build in {case.family: case.right for case in INJECTED}.items():
        reports = [
            aide.check(jax.random.key(1000 + seed), build(), find=False) for seed in range(seeds)
        ]
        flagged, passed = (
            sum(report.verdict == v for report in reports) for v in ("failed", "passed")
        )
        smallest = min(report.p_value for report in reports)
        row = {"correct algorithm": family, "flagged": f"{flagged} of {seeds}", "passed": passed}
        yield {**row, "smallest p": f"{smallest:.2g}"}


TABLES = {"mistakes": mistakes, "correct": correct}
