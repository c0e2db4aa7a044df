r"""A particle filter of `particles`, measured through its conditional SMC."""

import hashlib
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from aide._core.types import Value
from aide._core.validate import check_size
from aide.adapters.particles.process import process_of
from aide.algorithms.existing_code import PythonAlgorithm
from aide.algorithms.particle_filter import FilterVersions

Conditional = Literal["theirs", "permuted"]


@dataclass(frozen=True)
class ParticlesFilter(FilterVersions):
    r"""`particles.SMC`, one path drawn by weight; $\xi = p(x_{1:T}, y_{1:T})/\hat p(y_{1:T})$.

    `regenerate` is conditional SMC. That of the package (`conditional="theirs"`) puts the retained
    path into slot 0 of ancestors that are *sorted*, which is not the law of ancestors given that
    slot 0 has the retained one; `"permuted"` shuffles them first. Built by `particle_filter`.
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
        """The file's content, and the settings."""
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
        """The filter after so many observations."""
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
    """A filter of the package `particles` as an algorithm, run by an interpreter of its own.

    Args:
        file: A Python file with a function that returns a Feynman–Kac model, such as
            `particles.state_space_models.Bootstrap(ssm=..., data=...)` or `GuidedPF`.
        python: An interpreter with `particles`, which needs NumPy 1.
        num_particles: Particles, N of `particles.SMC`.
        function: The name of that function.
        ess_fraction: Resample when the effective sample size falls below this share (`ESSrmin`).
        conditional: The conditional SMC: the package's own (`"theirs"`), which `aide.check`
            rejects, or with its ancestors `"permuted"`.
        num_workers: Processes that share the runs; each has an interpreter of its own.
        label: A name for tables.
    """
    place = str(Path(file).resolve())
    interpreter = os.path.abspath(python)  # resolved, a virtual environment would be left
    num_steps = process_of(interpreter, place, function).num_steps
    settings = (num_particles, num_steps, float(ess_fraction), conditional)
    filtered = ParticlesFilter(interpreter, place, function, *settings)
    name = label or f"particles, {num_particles} particles"
    return PythonAlgorithm(filtered, num_workers=num_workers, label=name)
