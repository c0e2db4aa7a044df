"""Results as HTML, for notebooks. Every text is escaped."""

from html import escape

from aide.reporting.grid import Grid
from aide.reporting.page import Page, colour_of

LEFT, RIGHT = "text-align:left", "text-align:right"


def page_html(page: Page) -> str:
    """Subject and headline, the table of lines, and the rows in two columns."""
    subject = f"<em>{escape(page.subject)}</em><br>" if page.subject else ""
    headline = f"<strong{_colour(page.verdict)}>{escape(page.headline)}</strong>"
    parts = ["<div>", f"<p>{subject}{headline}</p>"]
    if page.grid is not None:
        parts.append(_grid_html(page.grid))
    if page.rows:
        lines = (
            f'<tr><th style="{LEFT}">{escape(name)}</th><td style="{LEFT}">{escape(text)}</td></tr>'
            for name, text in page.rows
        )
        parts.append(f"<table>{''.join(lines)}</table>")
    return "".join([*parts, "</div>"])


def _grid_html(grid: Grid) -> str:
    sides = [LEFT if grid.is_text(index) else RIGHT for index in range(len(grid.titles))]

    def row(kind: str, cells: tuple[str, ...], colour: str = "") -> str:
        inside = "".join(
            f'<{kind} style="{side}">{escape(cell)}</{kind}>'
            for cell, side in zip(cells, sides, strict=True)
        )
        return f"<tr{colour}>{inside}</tr>"

    body = [
        row("td", line, _colour(verdict))
        for line, verdict in zip(grid.lines, grid.verdicts, strict=True)
    ]
    return f"<table>{row('th', grid.titles)}{''.join(body)}</table>"


def _colour(verdict: str | None) -> str:
    colour = {"yellow": "darkgoldenrod"}.get(colour_of(verdict), colour_of(verdict))
    return f' style="color:{colour}"' if colour else ""
