"""Tables of many lines of one kind, at any width: no number and no heading is ever cut.

A table that is too wide changes in this order: headings fold at their blanks and long texts wrap;
columns marked as optional are left out (the table says so); the last columns move
to a second line below the first.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

GAP = "  "
"""Space between columns."""
INDENT = "    "
"""Space before the second line of an entry."""
LEAST_WORDS = 24
"""Characters below which a column of words is not narrowed, except to its longest cell."""
LONGEST_WORD = 30
"""Characters beyond which a word without blanks, such as the name of a file, may be broken."""
JOINTS = re.compile(r"[_./:,-]|(?=\[)")
"""Places at which a word that is too long is broken, if the second half of a line has one."""
GLUE = "\u00a0"
"""A blank at which lines do not end."""
TOGETHER = re.compile(r" (?=[±=≤≥<>≈] [-+\d])|(?<=[±≤≥=<>≈]) (?=[-+\d])")
"""Blanks within a number and its sign or error, at which lines do not end."""


@dataclass(frozen=True)
class Grid:
    """A table of cells under titles.

    Attributes:
        titles: One per column.
        lines: The cells of every line, as text.
        verdicts: One per line (`aide.reporting.numbers`), by which it is coloured; or empty texts.
        texts: Titles of columns that hold words: they stand left and may wrap, numbers do neither.
        optional: Titles of columns that a narrow terminal leaves out, the first one first.
    """

    titles: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    verdicts: tuple[str, ...]
    texts: frozenset[str] = frozenset()
    optional: tuple[str, ...] = ()

    def is_text(self, index: int) -> bool:
        """Whether a column holds words."""
        return self.titles[index] in self.texts

    def to_dict(self) -> dict[str, Any]:
        """The table as data that JSON can hold."""
        return {**asdict(self), "texts": sorted(self.texts)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "Grid":
        """The inverse of `to_dict`."""
        lines = tuple(map(tuple, data["lines"]))
        titles, verdicts = tuple(data["titles"]), tuple(data["verdicts"])
        return Grid(
            titles, lines, verdicts, frozenset(data["texts"]), tuple(data.get("optional", ()))
        )


class ColumnGroup(NamedTuple):
    """Columns that share a line: their indices and widths."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]


class Fitted(NamedTuple):
    """A table fitted to a width: headings, the lines of every entry, and omitted columns."""

    head: list[str]
    entries: list[list[str]]
    left_out: tuple[str, ...]


def fit(grid: Grid, width: int) -> Fitted:
    """The lines of a table, none longer than `width` unless a single number is longer."""
    columns = list(range(len(grid.titles)))
    left_out: list[str] = []
    for title in grid.optional:
        if _widths(grid, columns, width) is not None:
            break
        if title in grid.titles:
            columns.remove(grid.titles.index(title))
            left_out.append(title)
    parts = _parts(grid, columns, width)
    head = [line for part in parts for line in _lines(grid, part, grid.titles, part is parts[0])]
    entries = [
        [line for part in parts for line in _lines(grid, part, cells, part is parts[0])]
        for cells in grid.lines
    ]
    return Fitted(head, entries, tuple(left_out))


def wrap(text: str, width: int) -> list[str]:
    """A text in lines; numbers stay in one piece with their signs and errors."""
    joined = TOGETHER.sub(GLUE, text)
    options = {"break_long_words": False, "break_on_hyphens": False}
    lines: list[str] = []
    for line in textwrap.wrap(joined, max(width, 1), **options):
        lines += _pieces(line, max(width, LONGEST_WORD))
    return [line.replace(GLUE, " ") for line in lines] or [""]


def _pieces(line: str, longest: int) -> list[str]:
    """A line that is no longer, or else pieces of it that end where a name has parts."""
    pieces = []
    while len(line) > longest:
        ends = [found.end() for found in JOINTS.finditer(line[:longest])]
        end = max((end for end in ends if end > longest // 2), default=longest)
        pieces.append(line[:end])
        line = line[end:]
    return [*pieces, line]


def _parts(grid: Grid, columns: Sequence[int], width: int) -> list[ColumnGroup]:
    """Groups of columns, each as large as one line allows, with one column at least."""
    parts, rest = list[ColumnGroup](), list(columns)
    while rest:
        room = width - (len(INDENT) if parts else 0)
        num = len(rest)
        while num > 1 and _widths(grid, rest[:num], room) is None:
            num -= 1
        widths = _widths(grid, rest[:num], room) or tuple(_least(grid, i) for i in rest[:num])
        parts.append(ColumnGroup(tuple(rest[:num]), widths))
        rest = rest[num:]
    return parts


def _widths(grid: Grid, columns: Sequence[int], width: int) -> tuple[int, ...] | None:
    """Widths of columns that share a line; `None` if the line is too short for them."""
    widths = {index: _least(grid, index) for index in columns}
    left = width - sum(widths.values()) - len(GAP) * (len(columns) - 1)
    if left < 0:
        return None
    for wanted in (_of_cells, _of_title):  # cells get room first, then headings on one line
        for index in columns:
            more = min(max(wanted(grid, index) - widths[index], 0), left)
            widths[index] += more
            left -= more
    return tuple(widths[index] for index in columns)


def _least(grid: Grid, index: int) -> int:
    """The least width of a column: that of its numbers, or of its longest word."""
    title = _longest_word(grid.titles[index])
    cells = _of_cells(grid, index)
    if not grid.is_text(index):
        return max(cells, title)
    words = max((_longest_word(line[index]) for line in grid.lines), default=0)
    return max(min(cells, max(LEAST_WORDS, min(words, LONGEST_WORD))), title)


def _of_cells(grid: Grid, index: int) -> int:
    return max((len(line[index]) for line in grid.lines), default=0)


def _of_title(grid: Grid, index: int) -> int:
    return len(grid.titles[index])


def _longest_word(text: str) -> int:
    return max(map(len, TOGETHER.sub(GLUE, text).split(" ")))


def _lines(grid: Grid, part: ColumnGroup, cells: Sequence[str], is_first: bool) -> list[str]:
    """The cells of one entry in the columns of one part, as lines."""
    wrapped = [
        wrap(cells[index], width) if grid.is_text(index) or cells is grid.titles else [cells[index]]
        for index, width in zip(part.columns, part.widths, strict=True)
    ]
    if cells is grid.titles:  # headings end where the numbers begin
        most = max(map(len, wrapped))
        wrapped = [[""] * (most - len(lines)) + lines for lines in wrapped]
    indent = "" if is_first else INDENT
    return [
        (
            indent
            + GAP.join(
                cell.ljust(width) if grid.is_text(index) else cell.rjust(width)
                for cell, index, width in zip(line, part.columns, part.widths, strict=True)
            )
        ).rstrip()
        for line in zip_longest(*wrapped, fillvalue="")
    ]
