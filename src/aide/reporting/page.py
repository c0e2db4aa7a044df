"""A result taken apart into what is shown, for every kind of output."""

from dataclasses import dataclass

from aide._core.text import plain
from aide.reporting.grid import Grid

COLOURS = {
    "passed": "green",
    "within": "green",
    "failed": "red",
    "rejected": "red",
    "too far": "red",
}
"""How verdicts are shown; every other one is yellow."""


@dataclass(frozen=True)
class Page:
    """Texts of a result, made fit to print: users' names and words are among them.

    Attributes:
        subject: What the result is about, above the headline; may be empty.
        headline: One line.
        grid: Lines of one kind, if there are any.
        rows: Name and text of every line below.
        verdict: By which the headline is coloured, or `None`.
    """

    subject: str
    headline: str
    grid: Grid | None
    rows: tuple[tuple[str, str], ...]
    verdict: str | None

    @staticmethod
    def of(
        subject: str,
        headline: str,
        grid: Grid | None,
        rows: list[tuple[str, str]],
        verdict: str | None,
    ) -> "Page":
        """A page whose every text is on one line, without control characters."""
        if grid is not None:
            lines = tuple(tuple(plain(cell) for cell in line) for line in grid.lines)
            grid = Grid(grid.titles, lines, grid.verdicts, grid.texts)
        shown = tuple((plain(name), plain(text)) for name, text in rows)
        return Page(plain(subject), plain(headline), grid, shown, verdict)


def colour_of(verdict: str | None) -> str:
    """A colour by its name; empty without a verdict."""
    return COLOURS.get(verdict.lower(), "yellow") if verdict else ""
