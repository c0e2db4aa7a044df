"""Where and when a table was measured, and with which versions."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from aide import __version__

ROOT = Path(__file__).resolve().parent.parent
Head = dict[str, Any]


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe() -> Head:
    """The head of a table: machine, date and versions, as they are now."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": {
            "cpu": _cpu_model(),
            "cores": num_cores(),
            "cores of the machine": os.cpu_count(),
            "load": os.getloadavg()[0],
            "gpu": _gpu(),
        },
        "versions": {
            "Python": platform.python_version(),
            **{name: version(name) for name in ("jax", "jaxlib", "numpy")},
            "aide": __version__,
            "commit": _commit(),
        },
    }


def as_line(head: Head) -> str:
    """The head in one line."""
    machine, versions = head["machine"], head["versions"]
    cores = f"{machine['cores']} of {machine['cores of the machine']} cores"
    parts = [machine["cpu"], f"{cores}, load {machine['load']:.1f}", machine["gpu"] or "no GPU"]
    parts += [head["date"], ", ".join(f"{name} {which}" for name, which in versions.items())]
    parts += [f"{name} = {value}" for name, value in head.get("options", {}).items()]
    return "; ".join(parts)


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _gpu() -> str | None:
    import jax  # not above: a list of benchmarks needs none

    device = jax.devices()[0]
    return None if device.platform == "cpu" else device.device_kind


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"  # no git, or not a checkout
    return done.stdout.strip()
