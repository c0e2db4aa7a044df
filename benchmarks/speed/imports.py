"""What `import aide` adds to `import jax`, in fresh processes."""

import statistics
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.table import Row


def imports(turns: int = 5) -> Iterator[Row]:
    """Medians over the turns, in seconds; `jax` and `aide` take turns."""
    seconds = {module: [] for module in ("jax", "jax, equinox", "jax, scipy.special", "aide")}
    for _ in range(turns):
        for module, found in seconds.items():
            found.append(time_import(module))
    medians = {module: statistics.median(found) for module, found in seconds.items()}
    for module, median in medians.items():
        yield {"import": module, "s": median, "beyond jax, s": median - medians["jax"]}


def time_import(modules: str) -> float:
    """Seconds of an import in a process of its own."""
    code = f"import time; t = time.perf_counter(); import {modules}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


TABLES = {"imports": imports}
