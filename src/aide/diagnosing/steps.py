"""The steps of an algorithm: a line for each, problems in words, a table and curves."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from aide._core.versions import ObservedSteps
from aide.reporting.figures import PanelGrid, few_ticks
from aide.reporting.grid import Grid
from aide.reporting.numbers import UNDECIDED, cell

LEAST_ACCEPTANCE = 0.15
"""Share of accepted proposals below which a kernel counts as hardly moving: a convention."""
MOST_SCATTER = 1.0
"""Standard deviation of the log evidence between runs, in nats, above which a note says so."""
LONGEST_GAP = 3
"""Largest distance of two steps with few acceptances that one note puts together."""
MOST_LINES = 12
"""Number of steps in the table, evenly chosen; `records()` of a result has all of them."""


class StepDiagnosis(NamedTuple):
    r"""One step, over all runs; `None` for columns that the algorithm does not have.

    Attributes:
        step: The number of the step; the start of an algorithm with weights is step 0.
        temperature: Temperature at which the kernel moved.
        acceptance: Share of proposals that were accepted; for several kernels in a row, the
            smallest share.
        relative_ess: Effective share of the particles after the step, the mean over runs; with one
            particle, of the runs: $(\sum \hat p)^2/(n \sum \hat p^2)$.
        num_ancestors: Number of first particles that have descendants, the mean over runs.
        one_ancestor: Share of the runs in which all particles descend from one.
        jump: $E(y_j - x_j)^2 / 2\,\mathrm{var}(y_j)$, the mean over coordinates $j$: 1 if the state
            after a step is independent of the state before, 0 if nothing moves.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> kernel = aide.kernels.RandomWalk(0.7)
        >>> sizes = {"num_particles": 20, "num_temperatures": 4}
        >>> smc = aide.tempered_smc(prior, log_joint, kernel=kernel, **sizes)
        >>> step = aide.diagnose(0, smc).steps[1]
        >>> step.step, 0.0 < step.acceptance <= 1.0
        (1, True)
    """

    step: int
    temperature: float | None
    acceptance: float | None
    relative_ess: float | None
    num_ancestors: float | None
    one_ancestor: float | None
    jump: float | None


def summarise_steps(segments: Sequence[ObservedSteps]) -> tuple[StepDiagnosis, ...]:
    """One line per step; arrays of `segments` have a leading axis of runs, then one of steps."""
    lines = list[StepDiagnosis]()
    has_start = segments[0].log_evidence is not None
    for segment in segments:
        jumps = _jumps(segment)
        ess = segment.relative_ess
        if ess is None and segment.log_evidence is not None:
            ess = _ess_of_runs(np.asarray(segment.log_evidence))[None]
        columns = (segment.temperature, segment.acceptance, ess, segment.num_ancestors)
        means = [None if column is None else np.mean(column, axis=0) for column in columns]
        means[1] = None if means[1] is None else means[1].min(axis=1)
        alone = segment.num_ancestors
        means.append(None if alone is None else np.mean(np.asarray(alone) == 1, axis=0))
        means.append(jumps)
        num = max((len(mean) for mean in means if mean is not None), default=0)
        for place in range(num):
            cells = [None if mean is None else float(mean[place]) for mean in means]
            number = len(lines) + (0 if has_start else 1)
            lines.append(StepDiagnosis(number, *cells))
    return tuple(lines)


def _jumps(segment: ObservedSteps) -> Float[np.ndarray, " T"] | None:
    """Relative squared jumps, 0 where no coordinate varies; `None` if they are unknown."""
    moments = (segment.squared_jump, segment.mean, segment.mean_square)
    if any(part is None for part in moments):
        return None
    jump, mean, square = (np.mean(np.asarray(part), axis=0) for part in moments)
    variance = square - mean**2
    varies = variance > 1e-12 * np.maximum(square, 1e-300)
    ratios = np.divide(jump, 2 * variance, out=np.zeros_like(jump), where=varies)
    return ratios.sum(axis=1) / np.maximum(varies.sum(axis=1), 1)


def _ess_of_runs(log_evidence: Float[np.ndarray, "n T"]) -> Float[np.ndarray, " T"]:
    peak = log_evidence.max(axis=0)
    weights = np.exp(log_evidence - np.where(np.isfinite(peak), peak, 0.0))
    total = np.sum(weights, axis=0) ** 2
    squares = len(weights) * np.sum(weights**2, axis=0)
    return np.divide(total, squares, out=np.zeros_like(total), where=squares > 0)


def step_words(steps: Sequence[StepDiagnosis], num_runs: int) -> tuple[str, ...]:
    """Sentences about steps: kernels that hardly accept, populations of one ancestor."""
    return (*_rejections(steps), *_one_ancestor(steps, num_runs))


def scatter_of(log_evidence: np.ndarray) -> float:
    """Standard deviation of the log evidence between runs; infinite if it is -inf in some."""
    finite = np.isfinite(log_evidence).all()
    return float(np.std(log_evidence, ddof=1)) if finite else np.inf


def is_stuck(step: StepDiagnosis) -> bool:
    """Whether the step's kernel accepts too little."""
    return step.acceptance is not None and step.acceptance < LEAST_ACCEPTANCE


def _rejections(steps: Sequence[StepDiagnosis]) -> list[str]:
    """One sentence per stretch of steps; a step or two above the limit do not end it."""
    stretches = list[list[StepDiagnosis]]()
    for step in filter(is_stuck, steps):
        if not stretches or step.step - stretches[-1][-1].step > LONGEST_GAP:
            stretches.append([])
        stretches[-1].append(step)
    return [
        f"The kernel accepts {np.mean([step.acceptance or 0.0 for step in part]):.1%} of its "
        f"proposals {_where(part)}: take smaller steps there (a kernel per step: "
        "aide.kernels.stack_kernels)."
        for part in stretches
    ]


def _one_ancestor(steps: Sequence[StepDiagnosis], num_runs: int) -> list[str]:
    """The step from which on, up to the end, more than half of the runs have one ancestor."""
    late = list[StepDiagnosis]()
    for step in reversed(steps):
        if step.one_ancestor is None or step.one_ancestor <= 0.5:
            break
        late.insert(0, step)
    if not late:
        return []
    runs = round((late[-1].one_ancestor or 0.0) * num_runs)
    return [
        f"From step {late[0].step} on all particles descend from one ancestor (at the end in "
        f"{runs} of {num_runs} runs): use more particles, weights that vary less, or resample "
        "less often."
    ]


def scatter_words(log_evidence: np.ndarray | None) -> list[str]:
    """A sentence about the evidence, if its scatter is large or it is 0."""
    if log_evidence is None:
        return []
    dead = int(np.sum(log_evidence == -np.inf))
    if dead:
        return [
            f"In {dead} of {log_evidence.size} runs all weights are zero: no particle reaches the "
            "posterior. Use more particles, or a start with heavier tails."
        ]
    scatter = scatter_of(log_evidence)
    if scatter <= MOST_SCATTER:
        return []
    return [
        f"Log evidence varies by {scatter:.1f} nats between runs (standard deviation): use more "
        "particles, or smaller changes from step to step (more temperatures, better proposals)."
    ]


def _where(part: Sequence[StepDiagnosis]) -> str:
    first, last = part[0], part[-1]
    steps = f"step {first.step}" if first is last else f"steps {first.step} to {last.step}"
    if first.temperature is None or last.temperature is None:
        return f"in {steps}"
    if first is last:
        return f"at temperature {first.temperature:.2g} ({steps})"
    return f"at temperatures {first.temperature:.2g} to {last.temperature:.2g} ({steps})"


COLUMNS = (
    ("temperature", "temperature", ".3g"),
    ("acceptance", "accepted", ".1%"),
    ("relative_ess", "ESS", ".1%"),
    ("num_ancestors", "ancestors", ".1f"),
    ("jump", "jump", ".3f"),
)
"""Field of a step, title of the column, format."""


def steps_grid(steps: Sequence[StepDiagnosis]) -> Grid:
    """Some steps, evenly chosen from the first to the last; steps that hardly move are coloured."""
    num = len(steps)
    places = np.unique(np.linspace(0, num - 1, min(num, MOST_LINES)).round().astype(int))
    shown = [steps[place] for place in places] if num else []
    columns = _known_columns(shown)
    lines = tuple(
        (str(step.step), *(cell(getattr(step, name), form) for name, _, form in columns))
        for step in shown
    )
    verdicts = tuple(UNDECIDED if is_stuck(step) else "" for step in shown)
    return Grid(("step", *(title for _, title, _ in columns)), lines, verdicts)


def steps_layout(steps: Sequence[StepDiagnosis], by: str) -> PanelGrid:
    """One panel per column that `draw_steps` draws, side by side."""
    num = max(len(_drawn_columns(steps, by)), 1)
    return PanelGrid(1, num, (2.8 * num, 2.8))


def draw_steps(panels: np.ndarray, steps: Sequence[StepDiagnosis], by: str) -> None:
    """Plot every column against `by`, a field of the steps: `temperature` or `step`.

    A column that is known at steps without a temperature is drawn against steps.
    """
    for panel, (name, title, _) in zip(panels, _drawn_columns(steps, by), strict=False):
        known = [step for step in steps if getattr(step, name) is not None]
        across = by if all(getattr(step, by) is not None for step in known) else "step"
        panel.plot(_field(known, across), _field(known, name), ".-", color="#1f6fb4")
        if name == "acceptance":
            panel.axhline(LEAST_ACCEPTANCE, color="#b3392f", ls="--", lw=1)
        panel.set(xlabel=across, ylabel=title)
        few_ticks(panel.xaxis, whole=across == "step")
        panel.set_ylim(bottom=0.0)


def _field(steps: Sequence[StepDiagnosis], name: str) -> list[float]:
    return [getattr(step, name) for step in steps]


def _known_columns(steps: Sequence[StepDiagnosis]) -> list[tuple[str, str, str]]:
    known: Callable[[str], bool] = lambda name: any(
        getattr(step, name) is not None for step in steps
    )
    return [column for column in COLUMNS if known(column[0])]


def _drawn_columns(steps: Sequence[StepDiagnosis], by: str) -> list[tuple[str, str, str]]:
    return [column for column in _known_columns(steps) if column[0] != by]
