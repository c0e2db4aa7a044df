"""The content of a report as data: `result.json`, from which the page can be made again.

Figures are SVG texts in these data.
"""

from io import StringIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from aide._core.algorithm import describe
from aide.engine.runners.choose import identity_of
from aide.estimation.errors.tolerance import ErrorTolerance, Tolerance, tolerance_words
from aide.estimation.plot import (
    pictures_of,
    plot_directions,
    plot_meta_curve,
    plot_sandwich,
    plot_terms,
)
from aide.estimation.summary import Estimate
from aide.reporting.numbers import FAILED, PASSED, UNDECIDED, Verdict, in_nats
from aide.reporting.result import Result
from aide.studies.folder import now, versions
from aide.studies.options import StudyOptions
from aide.studies.study import Study

TITLES: dict[Any, str] = {
    plot_meta_curve: "the bound against M",
    plot_directions: "directions",
    plot_terms: "log ratios of the two densities",
}
"""Titles of an estimate's figures, by the function that plots them."""


def own_figures(result: Result) -> list[dict[str, str]]:
    """Title and SVG of the figure of a result that is no single estimate."""
    if isinstance(result, Estimate):
        return []
    return [{"title": _title(result), "svg": svg_of(result.plot())}]


def figures_of(estimate: Estimate, tolerance: Tolerance | None) -> list[dict[str, str]]:
    """Titles and SVG of all curves of one estimate."""
    found = [
        {"title": TITLES[draw], "svg": _panel(draw, estimate)} for draw in pictures_of(estimate)
    ]
    if tolerance is not None and not isinstance(tolerance, ErrorTolerance):
        figure = Figure(figsize=(5.2, 1.5), layout="constrained")
        plot_sandwich(figure.subplots(), estimate, tolerance)
        found.append({"title": "sandwich and tolerance", "svg": svg_of(figure)})
    return found


def _title(result: Result) -> str:
    return {"Comparison": "all targets", "Tuned": "the bound against settings and cost"}.get(
        type(result).__name__, "overview"
    )


def _panel(draw: Any, estimate: Estimate) -> str:
    figure = Figure(figsize=(5.2, 3.2), layout="constrained")
    draw(figure.subplots(), estimate)
    return svg_of(figure)


def svg_of(figure: Figure) -> str:
    """A figure on a transparent ground; letters are outlines, so that no font is needed."""
    text = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "aide"}):
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return text.getvalue()


CITATION = (
    "M. F. Cusumano-Towner and V. K. Mansinghka. AIDE: An algorithm for measuring the accuracy of "
    "probabilistic inference algorithms. Advances in Neural Information Processing Systems 30, "
    "2017."
)


def story_of(study: Study, options: StudyOptions, result: Result) -> dict[str, Any]:
    """The result with all other data of the report."""
    grid = result.grid()
    estimates = _estimates(result)
    return {
        **result.to_dict(),
        "sentence": sentence_of(result, options.tolerance),
        "judged": judged_of(result, options.tolerance),
        "grid": None if grid is None else grid.to_dict(),
        "parts": {
            name: {
                "rows": one.rows(),
                "notes": one.notes,
                "headline": one.headline,
                "errors": _errors(one),
                "figures": figures_of(one, options.tolerance),
            }
            for name, one in estimates.items()
        },
        "figures": own_figures(result),
        "gold": {
            "name": describe(study.gold),
            "class": type(study.gold).__name__,
            "identity": identity_of(study.gold).digest[:16],
            "about": study.about_gold,
            "audit": None if study.audit is None else str(study.audit),
        },
        "settings": {
            "study": study.path.name,
            "seed": options.seed,
            **{name: value for name, value in options.described().items() if value is not None},
        },
        "versions": versions(),
        "finished": now(),
        "citation": CITATION,
    }


def _errors(estimate: Estimate) -> dict[str, Any] | None:
    """Errors of the variables: a sentence, a table, a figure; `None` without outputs."""
    if any(side.values is None for side in estimate.draws.sides):
        return None
    errors = estimate.errors()
    grid = errors.grid()
    return {
        "headline": f"{errors.headline}.",
        "grid": grid.to_dict(),
        "rows": errors.rows(),
        "notes": errors.notes,
        "figures": [{"title": "errors, with limits for all", "svg": svg_of(errors.plot())}],
    }


def sentence_of(result: Result, tolerance: Tolerance | None) -> str:
    """The verdict in a sentence."""
    if not isinstance(result, Estimate):
        return _sentence_of_all(result, tolerance)
    target, gold = result.draws.target.name, result.draws.gold.name
    if tolerance is None:
        low, high = result.interval()
        limits = f"({low:.3g} to {high:.3g}, 95%)"
        return f"{target} is at most {in_nats(result.value, 3)} from {gold} {limits}."
    found = result.judge(tolerance)
    words = {
        PASSED: f"is within {tolerance_words(tolerance)} of {gold}",
        FAILED: f"is {_beyond(tolerance, 'from')} {gold}",
    }
    unknown = f"may or may not be within {tolerance_words(tolerance)} of {gold}"
    said = words.get(found.outcome, unknown)
    return f"{target} {said}: {found.limits}."


def _sentence_of_all(result: Result, tolerance: Tolerance | None) -> str:
    """The verdicts on all targets, those that passed first; or the headline."""
    outcomes: dict[str, Verdict] = getattr(result, "outcomes", {})
    if tolerance is None or not outcomes:
        return result.headline
    words = {
        PASSED: f"within {tolerance_words(tolerance)}",
        FAILED: _beyond(tolerance, "away"),
        UNDECIDED: UNDECIDED,
    }
    parts = []
    for outcome, said in words.items():
        names = [name for name, found in outcomes.items() if found == outcome]
        if names:
            parts.append(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {said}")
    return f"{'; '.join(parts)} (95% each)."


def _beyond(tolerance: Tolerance, direction: str) -> str:
    if isinstance(tolerance, ErrorTolerance):
        return f"not within {tolerance}" + (" of" if direction == "from" else "")
    return f"more than {tolerance_words(tolerance)} {direction}"


def judged_of(result: Result, tolerance: Tolerance | None) -> str:
    """The verdict on all targets together; empty without a tolerance."""
    if tolerance is None:
        return ""
    return result.judge(tolerance).outcome if isinstance(result, Estimate) else result.verdict or ""


def _estimates(result: Result) -> dict[str, Estimate]:
    """The estimates of a result, by name."""
    if isinstance(result, Estimate):
        return {result.draws.target.name: result}
    if hasattr(result, "estimates"):
        return dict(result.estimates)
    tried = getattr(result, "tried", {})
    return {one.planned.name: one.estimate for _, one in sorted(tried.items())}
