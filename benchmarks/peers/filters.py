"""The peers of `speed/filter`: building, installing and running them.

Both run the same bootstrap filter on the same input file: `filter.c`, written by hand in C, and
`particles_filter.py`, which uses the package `particles` in a virtual environment of its own, as
that package needs NumPy 1.x. Only the standard library is used here.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
C_SOURCE = HERE / "filter.c"
PARTICLES_SCRIPT = HERE / "particles_filter.py"
CONSTRAINTS = HERE / "particles-constraints.txt"


@dataclass(frozen=True)
class PeerRun:
    """What a peer reports.

    Attributes:
        seconds: Wall-clock seconds of the filtering alone.
        log_evidence: The log-evidence estimate of each run.
    """

    seconds: float
    log_evidence: list[float]


def write_input(
    path: Path, phi: float, sx: float, sy: float, s0: float, ys: Iterable[float]
) -> None:
    """Write the input file that both peers read.

    Args:
        path: Where to write it.
        phi: Autoregression coefficient.
        sx: Standard deviation of the transition.
        sy: Standard deviation of the observation.
        s0: Standard deviation of the first state.
        ys: The observations.
    """
    first = " ".join(repr(float(value)) for value in (phi, sx, sy, s0))
    path.write_text("\n".join([first, *(repr(float(y)) for y in ys)]) + "\n")


def build_c(build_dir: Path) -> Path:
    """Compile `filter.c` unless an up-to-date program is already there.

    Args:
        build_dir: Folder for the program, created if missing.

    Returns:
        The path of the program.

    Raises:
        RuntimeError: If there is no C compiler, or it fails.
    """
    program = build_dir / "filter"
    if program.exists() and program.stat().st_mtime >= C_SOURCE.stat().st_mtime:
        return program
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RuntimeError("no C compiler found: install gcc (or a `cc`) and put it on PATH")
    build_dir.mkdir(parents=True, exist_ok=True)
    flags = ["-O3", "-march=native", "-pthread"]
    _check([compiler, *flags, str(C_SOURCE), "-o", str(program), "-lm"], f"compiling {C_SOURCE}")
    return program


def ensure_particles_env(root: Path, version: str = "0.4") -> Path:
    """Create an environment with `particles` unless it is there with the pinned versions.

    Args:
        root: Folder that holds the environment (the repository root).
        version: Of `particles`; that of the constraints goes into `.venv-particles`, another one
            into a folder named after it.

    Returns:
        The environment's Python interpreter.

    Raises:
        RuntimeError: If the environment cannot be created or the packages installed.
    """
    pinned = CONSTRAINTS.read_text()
    name = (
        ".venv-particles" if f"particles=={version}\n" in pinned else f".venv-particles-{version}"
    )
    wanted = re.sub(r"(?m)^particles==.*$", f"particles=={version}", pinned)
    env = root / name
    python = env / "bin" / "python"
    stamp = env / "constraints-installed.txt"  # written last: a broken install is done again
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    hint = "it needs the package index and a Python with NumPy 1.26 wheels (3.11 or 3.12)"
    _check([sys.executable, "-m", "venv", "--clear", str(env)], f"creating {env}")
    constraints = env / "constraints.txt"
    constraints.write_text(wanted)
    install = [str(python), "-m", "pip", "install", "--quiet", "-c", str(constraints), "particles"]
    _check(install, f"installing particles into {env} ({hint})")
    stamp.write_text(wanted)
    return python


def find_particles(root: Path) -> Path | None:
    """The interpreter of `ensure_particles_env`; None, and a line that says why, without one."""
    try:
        return ensure_particles_env(root)
    except RuntimeError as error:
        print(f"The peer `particles` is left out: {error}", file=sys.stderr)
        return None


def run_c(
    program: Path, data: Path, *, particles: int, runs: int, seed: int, threads: int = 2
) -> PeerRun:
    """Run the C peer.

    Args:
        program: What `build_c` returned.
        data: A file from `write_input`.
        particles: Number of particles.
        runs: Number of independent runs.
        seed: Seed, from which that of each run is derived.
        threads: Number of threads that share the runs; it does not change the estimates.

    Returns:
        The time and the estimates.
    """
    numbers = [str(n) for n in (particles, runs, seed, threads)]
    return _report([str(program), *numbers, str(data)], "running the C peer")


def run_particles(python: Path, data: Path, *, particles: int, runs: int, seed: int) -> PeerRun:
    """Run the `particles` peer, in one process.

    Args:
        python: What `ensure_particles_env` returned.
        data: A file from `write_input`.
        particles: Number of particles.
        runs: Number of independent runs.
        seed: Seed of NumPy's global generator.

    Returns:
        The time and the estimates.
    """
    numbers = [str(n) for n in (particles, runs, seed)]
    command = [str(python), str(PARTICLES_SCRIPT), *numbers, str(data)]
    return _report(command, "running the particles peer")


def _report(command: Sequence[str], action: str) -> PeerRun:
    report = json.loads(_check(command, action))
    return PeerRun(seconds=report["seconds"], log_evidence=report["log_evidence"])


def _check(command: Sequence[str], action: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{action} failed ({done.returncode}):\n{done.stderr.strip()}")
    return done.stdout
