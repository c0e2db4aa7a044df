"""Figures and tables of the page of the scorecard, drawn from its committed rows.

    ```{scorecard} heat
    ```

draws a figure (`heat`, `costs`, `k-hats` or `gold standards`) for light and for dark pages.

    ```{scorecard-table} silent
    ```

sets a table of `aide.scorecard.Scorecard.table`, its first lines with `:most: 20`. The options
`:posterior:` and `:algorithm:` of the table `rows` choose a row, which is set as a column. No
number of such a part is typed.
"""

import json
from pathlib import Path
from typing import Any, ClassVar

import matplotlib as mpl
from docutils import nodes
from docutils.parsers.rst import directives
from matplotlib.figure import Figure
from measured_tables import table_of
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from aide.scorecard import Scorecard, read_scorecard
from benchmarks.machine import as_line

FOLDER = "measured/results/scorecard"
"""Where the rows are, in the folder of the pages."""
THEMES = {"only-light": ("#ffffff", "#1f2328"), "only-dark": ("#14181e", "#e6e6e6")}
"""Colours of page and ink, by the class of pages that show the figure."""
FIGURES: dict[str, tuple[Any, float, float]] = {
    "heat": (Scorecard.plot_heat, 8.0, 0.21),
    "costs": (Scorecard.plot_costs, 7.0, 0.0),
    "k-hats": (Scorecard.plot_k_hats, 7.0, 0.0),
    "gold standards": (Scorecard.plot_gold_standards, 7.0, 0.17),
}
"""What draws a figure, its width in inches, and inches of height per posterior."""


class ScorecardFigure(SphinxDirective):
    """A figure of the card, once for light pages and once for dark ones."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Any]] = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Called by Sphinx."""
        name, card = self.arguments[0], _card(self)
        found: list[nodes.Node] = []
        for theme, colours in THEMES.items():
            place = Path("_build") / "scorecard" / f"{name.replace(' ', '-')}-{theme}.png"
            _draw(card, name, colours, Path(self.env.srcdir) / place)
            alt = self.options.get("alt", name)
            found.append(nodes.image("", uri=f"/{place.as_posix()}", alt=alt, classes=[theme]))
        return found


class ScorecardTable(SphinxDirective):
    """A table of the card, and what made it."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Any]] = {
        "posterior": directives.unchanged_required,
        "algorithm": directives.unchanged_required,
        "most": directives.nonnegative_int,
    }

    def run(self) -> list[nodes.Node]:
        """Called by Sphinx."""
        chosen = {
            name: self.options[name] for name in ("posterior", "algorithm") if name in self.options
        }
        card, most = _card(self), self.options.get("most")
        lines = [
            line
            for line in card.table(self.arguments[0])
            if all(line[title] == words for title, words in chosen.items())
        ][:most]
        if not lines:
            return [nodes.paragraph(text="There is no such row.")]
        titles = list(lines[0])
        cells = [titles, *([line.get(title, "–") for title in titles] for line in lines)]
        if chosen:  # one row, with a head of its own
            return [
                table_of([list(pair) for pair in zip(*cells, strict=True)]),
                _origin(card.row(**chosen)),
            ]
        path = Path(self.env.srcdir) / FOLDER / "card.json"
        return [table_of(cells), _origin(json.loads(path.read_text()))]


def _origin(head: Any) -> nodes.paragraph:
    """Where, when and with which versions something was measured."""
    words = nodes.emphasis(text=as_line(head))
    return nodes.paragraph("", "", words, classes=["origin"])


def _card(directive: SphinxDirective) -> Scorecard:
    folder = Path(directive.env.srcdir) / FOLDER
    for file in folder.rglob("*.json"):
        directive.env.note_dependency(str(file))
    return read_scorecard(folder)


def _draw(card: Scorecard, name: str, colours: tuple[str, str], path: Path) -> None:
    page, ink = colours
    draw, width, per_posterior = FIGURES[name]
    num = len({row["posterior"] for row in card.cells})
    inks = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    pages = ("axes.facecolor", "figure.facecolor", "savefig.facecolor")
    with mpl.rc_context({**dict.fromkeys(inks, ink), **dict.fromkeys(pages, page)}):
        figure = Figure(figsize=(width, max(4.2, 1.0 + per_posterior * num)), layout="constrained")
        draw(card, figure.subplots())
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("scorecard", ScorecardFigure)
    app.add_directive("scorecard-table", ScorecardTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
