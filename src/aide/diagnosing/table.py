"""Steps as a table and as curves, for whoever has looked at them."""

from collections.abc import Callable, Sequence

import numpy as np

from aide.diagnosing.steps import StepDiagnosis
from aide.diagnosing.words import LEAST_ACCEPTANCE, is_stuck
from aide.reporting.figures import PanelGrid
from aide.reporting.grid import Grid
from aide.reporting.numbers import cell
from aide.reporting.verdict import UNDECIDED

MOST_LINES = 12
"""Steps shown in the table, evenly chosen; `records()` of a result has all of them."""
COLUMNS = (
    ("temperature", "temperature", ".3g"),
    ("acceptance", "accepted", ".1%"),
    ("relative_ess", "ESS", ".1%"),
    ("num_ancestors", "ancestors", ".1f"),
    ("jump", "jump", ".3f"),
)
"""Field of a step, title, format."""


def steps_grid(steps: Sequence[StepDiagnosis]) -> Grid:
    """Some steps, evenly chosen, the first and the last among them; stuck ones are coloured."""
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
    """Every column against `by`, a field of the steps: `temperature` or `step`.

    Where a column is known at steps that have no temperature, it is drawn against steps.
    """
    for panel, (name, title, _) in zip(panels, _drawn_columns(steps, by), strict=False):
        known = [step for step in steps if getattr(step, name) is not None]
        across = by if all(getattr(step, by) is not None for step in known) else "step"
        panel.plot(_field(known, across), _field(known, name), ".-", color="#1f6fb4")
        if name == "acceptance":
            panel.axhline(LEAST_ACCEPTANCE, color="#b3392f", ls="--", lw=1)
        panel.set(xlabel=across, ylabel=title)
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
