"""How often correct algorithms, kernels and studies are rejected: the stated rates, measured.

python benchmarks/run.py power/false_alarms       # 1,000 replications of every case
python benchmarks/run.py power/false_alarms --kind simulated --replications 100
"""

from collections.abc import Iterator

from support.correct import GRID, alarm_counts

from benchmarks.table import Row


def false_alarms(replications: int = 1000, kind: str = "") -> Iterator[Row]:
    """Alarms per test and case; `kind` is one of those of `support.correct`, or all of them."""
    for each in [kind] if kind else GRID:
        for name in GRID[each][0]:
            counts = alarm_counts(each, name, 2, replications)
            for law, (often, seldom, smallest) in counts.items():
                yield {
                    "correct input": f"{each}: {name}",
                    "test": law,
                    f"alarms at 5% of {replications:,}": often,
                    "at 1e-4": seldom,
                    "least p": f"{smallest:.2g}",
                }


TABLES = {"false_alarms": false_alarms}
