"""Where, when and with which versions rows were measured: no host names, no folders."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from aide._version import __version__
from aide.engine.programs.places import num_cores

LIBRARIES = ("jax", "jaxlib", "numpyro", "blackjax", "numpy", "scipy")
"""Libraries on which numbers of the card depend."""


def facts() -> dict[str, Any]:
    """Return date, machine and versions of this process."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": {
            "cpu": _cpu_model(),
            "cores": num_cores(),
            "cores of the machine": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
            "gpu": None,
        },
        "versions": versions(),
    }


def versions() -> dict[str, str | None]:
    """Return the versions of everything that numbers of the card depend on."""
    return {
        "Python": platform.python_version(),
        "aide": __version__,
        "commit": _commit(),
        **{name: _version(name) for name in LIBRARIES},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:  # a folder on the path without the facts of an installation
        return getattr(__import__(name), "__version__", None)


def _commit() -> str | None:
    """Return the commit of a checkout of this package, or what `AIDE_COMMIT` says it is.

    A copy of the files without their history, on another machine, knows no commit: then `None`.
    """
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(
            [*command, "--exclude=*"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return os.environ.get("AIDE_COMMIT")
    return done.stdout.strip() or None


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
