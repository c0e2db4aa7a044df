"""A new user's path, timed: scripts of the documentation, and the lines that measure them.

    python benchmarks/run.py adapters/new_user

The first example of a page is a script that people have, a mark, and what is added. Seconds include
imports and compilation; each script runs in a process of its own.
"""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.table import Row

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {
    "NumPyro, AutoNormal and NUTS": "adapters.md",
    "PyMC, ADVI and NUTS": "pymc_stan_blackjax.md",
}
MARK = "# added\n"
TIMED = """
import json, sys, time
before, after = json.load(sys.stdin)
names = {"__name__": "script"}
times = [time.perf_counter()]
for part in (before, after):
    exec(compile(part, "script", "exec"), names)
    times.append(time.perf_counter())
print(json.dumps(times))
"""


def script_of(page: str) -> tuple[str, str]:
    """The script before the mark, and what comes after it."""
    text = (DOCS / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    before, _, after = blocks[0].partition(MARK)
    return before, after


def new_user() -> Iterator[Row]:
    """One row per library."""
    for name, page in PAGES.items():
        parts = script_of(page)
        command = [sys.executable, "-W", "ignore", "-c", TIMED]
        done = subprocess.run(command, input=json.dumps(parts), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        *printed, times = done.stdout.splitlines()
        begin, middle, end = json.loads(times)
        yield {
            "script": name,
            "its lines": len(ast.parse(parts[0]).body),
            "its seconds": f"{middle - begin:.0f}",
            "lines added": len(list(filter(None, parts[1].splitlines()))),
            "seconds to the verdict": f"{end - middle:.0f}",
            "verdict": next(line for line in printed if "passed" in line),
        }


TABLES = {"new_user": new_user}
