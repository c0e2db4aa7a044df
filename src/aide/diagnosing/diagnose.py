"""`aide.diagnose`: extra runs of an algorithm, observed step by step; the result in words."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.keywords import keywords
from aide._core.random import as_key
from aide._core.types import Key
from aide._core.validate import check_count
from aide._core.versions import ObservedSteps, observed_steps
from aide.diagnosing.steps import (
    StepDiagnosis,
    draw_steps,
    scatter_of,
    scatter_words,
    step_words,
    steps_grid,
    steps_layout,
    summarise_steps,
)
from aide.engine.programs.map_runs import Asked, map_runs
from aide.engine.programs.tracing import one_call
from aide.reporting.figures import PanelGrid
from aide.reporting.grid import Grid
from aide.reporting.numbers import UNDECIDED, Verdict, with_error
from aide.reporting.result import Result

NUM_RUNS = 20
"""Default number of observed runs, unless they have too few particles."""
NUM_PARTICLES_SEEN = 200
"""Least number of particles of all observed runs together: few particles make more runs."""


@dataclass(frozen=True, repr=False, eq=False)
class Diagnosis(Result):
    """Diagnostics of the steps of an algorithm from a few runs; made by `aide.diagnose`.

    Attributes:
        name: The algorithm.
        num_particles: Number of its particles, or `None`.
        num_runs: Number of observed runs.
        steps: One `StepDiagnosis` per step.
        log_evidence: Log evidence of every run; `None` for a chain.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> kernel = aide.kernels.RandomWalk(0.7)
        >>> sizes = {"num_particles": 20, "num_temperatures": 4}
        >>> smc = aide.tempered_smc(prior, log_joint, kernel=kernel, **sizes)
        >>> found = aide.diagnose(0, smc)
        >>> found.num_particles, len(found.steps)
        (20, 4)
    """

    name: str
    num_particles: int | None
    num_runs: int
    steps: tuple[StepDiagnosis, ...]
    log_evidence: np.ndarray | None

    @property
    def scatter(self) -> float | None:
        """Standard deviation of the log evidence between runs, in nats."""
        return None if self.log_evidence is None else scatter_of(self.log_evidence)

    @property
    def headline(self) -> str:
        """The number of problems on one line."""
        num = len(self.notes)
        found = "no problem was" if not num else f"{num} problem{'s were' if num > 1 else ' was'}"
        return f"{self.name}: {found} seen in {self.num_runs} runs observed step by step"

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems, in words."""
        return (*self.step_notes, *scatter_words(self.log_evidence))

    @property
    def step_notes(self) -> tuple[str, ...]:
        """The problems of single steps."""
        return step_words(self.steps, self.num_runs)

    @property
    def verdict(self) -> Verdict | None:
        """`undecided` if there is a note; never `passed` or `failed`: counts prove nothing."""
        return UNDECIDED if self.notes else None

    def grid(self) -> Grid:
        """Some steps, evenly chosen from the first to the last."""
        return steps_grid(self.steps)

    def rows(self) -> list[tuple[str, str]]:
        """The evidence, and explanations of the table."""
        found = []
        if self.log_evidence is not None:
            mean, scatter = float(np.mean(self.log_evidence)), self.scatter or 0.0
            text = with_error(mean, scatter / np.sqrt(self.num_runs))
            spread = f"the standard deviation between runs is {scatter:.2g}"
            found.append(("log evidence", f"{text}; {spread}"))
        if any(step.jump is not None for step in self.steps):
            text = "Mean squared jump: 0 if nothing moves, 1 if a step forgets where it started."
            found.append(("jump", text))
        if self.num_particles == 1 and self.log_evidence is not None:
            found.append(("ESS", "Effective sample size of the runs, since there is one particle."))
        return found

    def records(self) -> list[dict[str, Any]]:
        """All steps."""
        return [step._asdict() for step in self.steps]

    def numbers(self) -> dict[str, Any]:
        """The evidence and its scatter, the numbers of runs and of particles."""
        mean = None if self.log_evidence is None else float(np.mean(self.log_evidence))
        return {
            "log_evidence": mean,
            "scatter": self.scatter,
            "num_runs": self.num_runs,
            "num_particles": self.num_particles,
        }

    def layout(self) -> PanelGrid:
        """One panel per column, side by side."""
        return steps_layout(self.steps, "temperature")

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot every column against temperature, or steps."""
        draw_steps(panels, self.steps, "temperature")


@keywords("aide.diagnose")
@one_call()
def diagnose(
    key: Key | int, algorithm: InferenceAlgorithm, *, num_runs: int | None = None
) -> Diagnosis:
    r"""Diagnose every step: acceptance, effective sample size, ancestors, jumps; and the evidence.

    For `sir`, `tempered_smc`, `ais`, `mcmc`, particle filters, `aide.smc.Smc` and their refined
    versions. All numbers come from a few extra runs of `simulate`: they describe the algorithm and
    prove nothing about its outputs.

    Args:
        key: A JAX key, or an integer seed.
        algorithm: The algorithm.
        num_runs: Extra runs; by default 20, or more for 200 particles in all.

    Returns:
        What every step did: acceptance, effective sample size, ancestors, jumps; with notes.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> kernel = aide.kernels.RandomWalk(0.7)
        >>> sizes = {"num_particles": 20, "num_temperatures": 4}
        >>> smc = aide.tempered_smc(prior, log_joint, kernel=kernel, **sizes)
        >>> len(aide.diagnose(0, smc).steps)
        4
    """
    stated = getattr(algorithm, "num_particles", None)
    num_particles = stated if isinstance(stated, int) else None
    if num_runs is None:
        num_runs = max(NUM_RUNS, -(-NUM_PARTICLES_SEEN // (num_particles or 1)))
    check_count("num_runs", num_runs, 2)
    asked = observation_of(algorithm, num_runs)
    found = map_runs(_observe, algorithm, as_key(key), asked.rows, what=asked.what)
    last = found[-1].log_evidence
    log_evidence = None if last is None else last[:, -1]
    if log_evidence is not None and np.isnan(log_evidence).any():
        raise ValueError(
            f"the log evidence of {describe(algorithm)} is NaN in {np.isnan(log_evidence).sum()} "
            f"of {num_runs} runs: a log density returned NaN. It must be a number, or -inf where "
            "there is no mass."
        )
    steps = summarise_steps(found)
    return Diagnosis(describe(algorithm), num_particles, num_runs, steps, log_evidence)


def observation_of(algorithm: InferenceAlgorithm, num_runs: int) -> Asked:
    """What `diagnose` asks of the engine."""
    what = f"a run of {describe(algorithm)} that is observed step by step"
    return Asked(_observe, algorithm, (np.arange(num_runs, dtype=np.uint32),), what)


def _observe(algorithm: InferenceAlgorithm, stream: Key, run: int) -> tuple[ObservedSteps, ...]:
    """One run as an operation of the engine."""
    return observed_steps(algorithm, jax.random.fold_in(stream, run))
