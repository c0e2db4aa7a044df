"""A filter of `particles`, and the process with another interpreter in which it runs.

Questions and answers go through pipes, as lines of JSON.
"""

import atexit
import functools
import hashlib
import json
import os
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Self

import numpy as np

from aide._core.types import Value
from aide._core.validate import check_size
from aide.algorithms.existing_code import PythonAlgorithm
from aide.algorithms.particle_filter import FilterVersions

WORKER = Path(__file__).with_name("__main__.py")
"""The file that the other interpreter runs."""


class ForeignProcess:
    """Runs `__main__.py` by another interpreter until this process ends.

    Args:
        python: The interpreter, which needs `particles` and NumPy only.
        file: The user's file, which the other interpreter loads.
        function: The function in the file that makes the Feynman–Kac model.
    """

    def __init__(self, python: str, file: str, function: str):
        command = [python, str(WORKER), file, function]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        except OSError as error:
            raise ValueError(
                f"python must be an interpreter that has the package particles, got {python!r} "
                f"({error}). Make one: python3 -m venv .venv-particles && "
                ".venv-particles/bin/pip install particles 'numpy<2'."
            ) from error
        self._lock = Lock()
        atexit.register(self.end)
        self.num_steps = int(self.ask(question="num_steps"))

    def ask(self, **question: Any) -> Any:
        """The answer to one question; an error in the other process is raised here."""
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            try:
                self._process.stdin.write(json.dumps(question) + "\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
            except BrokenPipeError:
                line = ""
        if not line:
            code = self._process.wait()
            raise RuntimeError(
                f"the interpreter of particles ended with code {code}; its output is above. It "
                "needs the packages particles and numpy<2, and must be able to load the file."
            )
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"in the interpreter of particles: {answer['error']}")
        return answer["answer"]

    def end(self) -> None:
        """Close the pipe, which ends the process."""
        if self._process.poll() is None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()


@functools.cache
def process_of(python: str, file: str, function: str) -> ForeignProcess:
    """The process for one file, started at its first use."""
    return ForeignProcess(python, file, function)


Conditional = Literal["theirs", "permuted"]


@dataclass(frozen=True)
class ParticlesFilter(FilterVersions):
    r"""`particles.SMC`, one path drawn by weight; $\xi = p(x_{1:T}, y_{1:T})/\hat p(y_{1:T})$.

    `regenerate` is conditional SMC. That of the package (`conditional="theirs"`) puts the retained
    path into slot 0 of *sorted* ancestors, which is not the law of ancestors given that
    slot 0 has the retained one; `"permuted"` shuffles them first. Built by `particle_filter`.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "model.py"
        >>> _ = file.write_text('''
        ... from particles import distributions as dists, state_space_models as ssm
        ...
        ... class LocalLevel(ssm.StateSpaceModel):
        ...     def PX0(self): return dists.Normal(scale=1.0)
        ...     def PX(self, t, xp): return dists.Normal(loc=xp, scale=0.1)
        ...     def PY(self, t, xp, x): return dists.Normal(loc=x, scale=1.0)
        ...
        ... def make():
        ...     return ssm.Bootstrap(ssm=LocalLevel(), data=[2.0, 2.0, 2.0])
        ... ''')
        >>> python = ".venv-particles/bin/python"  # where the package is installed
        >>> filtered = aide.particles.particle_filter(file, python=python, num_particles=20)
        >>> filtered.label
        'particles, 20 particles'
    """

    python: str
    file: str
    function: str
    num_particles: int
    num_steps: int
    ess_fraction: float = 1.0
    conditional: Conditional = "permuted"
    log_z: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        check_size("num_particles", self.num_particles)
        check_size("num_steps", self.num_steps)
        if self.conditional not in ("permuted", "theirs"):
            raise ValueError(
                f"conditional must be 'permuted' or 'theirs', got {self.conditional!r}."
            )

    @property
    def aide_identity(self) -> str:
        """The content of the file, and the settings."""
        content = hashlib.sha256(Path(self.file).read_bytes()).hexdigest()
        settings = (self.num_particles, self.num_steps, self.ess_fraction, self.conditional)
        return f"{self.python} {content} {self.function} {settings}"

    def simulate(self, rng: np.random.Generator) -> tuple[Value, float]:
        r"""Filter; return one path, drawn by weight, and $\log\xi$."""
        answer = self._ask(rng, question="simulate")
        return np.array(answer["path"]), answer["log_xi"]

    def regenerate(self, rng: np.random.Generator, value: Value) -> float:
        """Conditional SMC around the given path."""
        path = np.asarray(value).tolist()
        return self._ask(rng, question="regenerate", path=path, conditional=self.conditional)[
            "log_xi"
        ]

    def first_steps(self, num: int) -> Self:
        """The filter after the first `num` observations."""
        return replace(self, num_steps=num)

    def _ask(self, rng: np.random.Generator, **question: Any) -> Any:
        process = process_of(self.python, self.file, self.function)
        return process.ask(
            seed=rng.integers(2**32, size=4, dtype=np.uint32).tolist(),
            num_particles=self.num_particles,
            num_steps=self.num_steps,
            ess_fraction=self.ess_fraction,
            **question,
        )


def particle_filter(
    file: str | Path,
    *,
    python: str | Path,
    num_particles: int,
    function: str = "make",
    ess_fraction: float = 1.0,
    conditional: Conditional = "permuted",
    num_workers: int = 1,
    label: str = "",
) -> PythonAlgorithm:
    """A filter of the package `particles` as an algorithm, run by another interpreter.

    Args:
        file: A Python file with a function that returns a Feynman–Kac model, such as
            `particles.state_space_models.Bootstrap(ssm=..., data=...)` or `GuidedPF`.
        python: An interpreter with `particles`, which needs NumPy 1.
        num_particles: Particles, N of `particles.SMC`.
        function: The name of the function in the file.
        ess_fraction: Resample when the effective sample size falls below this share (`ESSrmin`).
        conditional: The conditional SMC: the package's own (`"theirs"`), which `aide.check`
            rejects, or with its ancestors `"permuted"`.
        num_workers: Processes that share the runs, each with its own interpreter.
        label: A name for tables.

    Returns:
        The filter, whose runs are made by the other interpreter.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "model.py"
        >>> _ = file.write_text('''
        ... from particles import distributions as dists, state_space_models as ssm
        ...
        ... class LocalLevel(ssm.StateSpaceModel):
        ...     def PX0(self): return dists.Normal(scale=1.0)
        ...     def PX(self, t, xp): return dists.Normal(loc=xp, scale=0.1)
        ...     def PY(self, t, xp, x): return dists.Normal(loc=x, scale=1.0)
        ...
        ... def make():
        ...     return ssm.Bootstrap(ssm=LocalLevel(), data=[2.0, 2.0, 2.0])
        ... ''')
        >>> python = ".venv-particles/bin/python"  # where the package is installed
        >>> filtered = aide.particles.particle_filter(file, python=python, num_particles=20)
        >>> filtered.num_workers
        1
    """
    place = str(Path(file).resolve())
    interpreter = os.path.abspath(python)  # a resolved link would leave its virtual environment
    num_steps = process_of(interpreter, place, function).num_steps
    settings = (num_particles, num_steps, float(ess_fraction), conditional)
    filtered = ParticlesFilter(interpreter, place, function, *settings)
    name = label or f"particles, {num_particles} particles"
    return PythonAlgorithm(filtered, num_workers=num_workers, label=name)
