"""Results and their tables as HTML, for notebooks and reports. Every text is escaped.

Styles stand in the elements, so that they need no style sheet; a page with one says by variables
(`--passed` and so on) which colours suit its ground.
"""

from html import escape

from aide._core.algorithm import plain
from aide.reporting.grid import Grid
from aide.reporting.page import Page
from aide.reporting.verdict import colour_of

LEFT = "text-align:left;vertical-align:top"
RIGHT = "text-align:right;vertical-align:top;white-space:nowrap;font-variant-numeric:tabular-nums"


def page_html(page: Page) -> str:
    """Subject and headline, the table of lines, and the rows in two columns."""
    subject = f"<em>{escape(page.subject)}</em><br>" if page.subject else ""
    headline = f"<strong{_colour(page.verdict)}>{escape(page.headline)}</strong>"
    parts = ["<div>", f"<p>{subject}{headline}</p>"]
    parts += [f"<p>{escape(sentence)}</p>" for sentence in page.head]
    if page.grid is not None:
        parts.append(grid_html(page.grid))
    if page.rows:
        lines = (
            f'<tr><th style="{LEFT}">{escape(name)}</th><td style="{LEFT}">{escape(text)}</td></tr>'
            for name, text in page.rows
        )
        parts.append(f"<table>{''.join(lines)}</table>")
    return "".join([*parts, "</div>"])


def grid_html(grid: Grid) -> str:
    """The table with all columns; one that is wider than the page is scrolled in its own box."""
    sides = [LEFT if grid.is_text(index) else RIGHT for index in range(len(grid.titles))]

    def row(kind: str, cells: tuple[str, ...], colour: str = "") -> str:
        inside = "".join(
            f'<{kind} style="{side}">{escape(plain(cell))}</{kind}>'
            for cell, side in zip(cells, sides, strict=True)
        )
        return f"<tr{colour}>{inside}</tr>"

    body = [
        row("td", line, _colour(verdict))
        for line, verdict in zip(grid.lines, grid.verdicts, strict=True)
    ]
    table = f"<table>{row('th', grid.titles)}{''.join(body)}</table>"
    return f'<div style="overflow-x:auto">{table}</div>'


def _colour(verdict: str | None) -> str:
    colour = {"yellow": "darkgoldenrod"}.get(colour_of(verdict), colour_of(verdict))
    return f' style="color:var(--{verdict},{colour})"' if colour else ""
