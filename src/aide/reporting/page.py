"""The page of a result: as plain text, in a terminal, and as HTML.

HTML is for notebooks and reports; every text is escaped. Styles are attributes of the elements, so
that no style sheet is needed; a page with a style sheet sets the colours by variables (`--passed`,
`--failed`, `--undecided`).
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, NamedTuple

from aide._core.algorithm import plain
from aide.reporting.grid import GAP, Fitted, Grid, fit, wrap
from aide.reporting.numbers import colour_of

WIDTH = 15
"""Characters of the column with the names of rows."""
NOTE = "note"
"""Name of rows with notes, which are coloured."""


class Line(NamedTuple):
    """One line and its style in the words of rich: a colour, `bold` or `dim`."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Page:
    """Texts of a result, cleaned for printing, since users' names are among them.

    Attributes:
        subject: The subject of the result, above the headline; may be empty.
        headline: One line.
        head: Sentences between headline and grid.
        grid: Lines of one kind, if there are any.
        rows: Name and text of every line below.
        verdict: The verdict, which sets the colour of the headline, or `None`.
    """

    subject: str
    headline: str
    grid: Grid | None
    rows: tuple[tuple[str, str], ...]
    verdict: str | None
    head: tuple[str, ...] = ()

    @staticmethod
    def of(
        subject: str,
        headline: str,
        grid: Grid | None,
        rows: list[tuple[str, str]],
        verdict: str | None,
        head: tuple[str, ...] = (),
    ) -> "Page":
        """A page whose every text is on one line, without control characters."""
        if grid is not None:
            lines = tuple(tuple(plain(cell) for cell in line) for line in grid.lines)
            titles = tuple(map(plain, grid.titles))
            texts, optional = frozenset(map(plain, grid.texts)), tuple(map(plain, grid.optional))
            grid = replace(grid, titles=titles, lines=lines, texts=texts, optional=optional)
        shown = tuple((plain(name), plain(text)) for name, text in rows)
        return Page(plain(subject), plain(headline), grid, shown, verdict, tuple(map(plain, head)))

    def lines(self, width: int) -> Iterator[Line]:
        """Headline, table and rows, none wider than `width`, without the subject."""
        for text in wrap(self.headline, width):
            yield Line(text, f"bold {colour_of(self.verdict)}".strip())
        for sentence in self.head:
            yield from (Line(text) for text in wrap(sentence, width))
        left_out: tuple[str, ...] = ()
        if self.grid is not None:
            fitted = fit(self.grid, width - len(GAP))
            left_out = fitted.left_out
            yield from _grid_lines(fitted, self.grid.verdicts, width - len(GAP))
        indent = " " * (len(GAP) + WIDTH + 1)
        for name, text in self.rows:
            if set(name.split(", ")) <= set(left_out):  # explains omitted columns
                continue
            first, *others = wrap(text, width - len(indent))
            style = "yellow" if name == NOTE else ""
            label = f"{GAP}{name:<{WIDTH}} "
            if len(label) > len(indent):
                yield Line(label.rstrip(), style)
                label = indent
            yield Line(f"{label}{first}".rstrip(), style)
            yield from (Line(f"{indent}{other}", style) for other in others)

    def text(self, width: int | None = None) -> str:
        """Plain text of the width of the terminal by default, or of 80 columns without one."""
        room = shutil.get_terminal_size().columns if width is None else width
        return "\n".join(line.text for line in self.lines(room))

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """The page in colour, below the subject: no text is read as markup."""
        from rich.text import Text

        width = options.max_width
        if self.subject:
            yield from (Text(line, "italic") for line in wrap(self.subject, width))
        for line in self.lines(width):
            yield Text(line.text, line.style, no_wrap=True, overflow="ignore")


def _grid_lines(fitted: Fitted, verdicts: Sequence[str], width: int) -> Iterator[Line]:
    yield Line("")
    yield from (Line(f"{GAP}{line}".rstrip(), "bold") for line in fitted.head)
    used = max(len(line) for lines in (fitted.head, *fitted.entries) for line in lines)
    yield Line(f"{GAP}{'─' * min(used, width)}", "dim")
    for lines, verdict in zip(fitted.entries, verdicts, strict=True):
        yield from (Line(f"{GAP}{line}".rstrip(), colour_of(verdict)) for line in lines)
    if fitted.left_out:
        names = ", ".join(fitted.left_out)
        text = f"A wider terminal, to_csv() and records() also show: {names}."
        yield from (Line(f"{GAP}{line}", "dim") for line in wrap(text, width))
    yield Line("")


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
    """The table with all columns; a wide table scrolls in its own box."""
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
