"""Tables of results: printed row by row, kept as JSON with all digits and as Markdown to read."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from aide.reporting.numbers import with_error
from benchmarks.machine import Head, as_line

Row = dict[str, Any]
"""Cells by column: text as it is, numbers, or None. The first row of a table has all columns."""


def show(rows: Iterable[Row]) -> list[Row]:
    """Print rows as a Markdown table while they are measured, and return them."""
    found: list[Row] = []

    def passing() -> Iterator[Row]:
        for row in rows:
            # Numbers of NumPy become Python's: JSON knows no others.
            found.append({k: v.item() if hasattr(v, "item") else v for k, v in row.items()})
            yield found[-1]

    for line in markdown(passing()):
        print(line, flush=True)
    return found


def markdown(rows: Iterable[Row]) -> Iterator[str]:
    """Lines of a table.

    Raises:
        ValueError: If a row has a column that the first one has not.
    """
    columns: list[str] = []
    for row in rows:
        if not columns:
            columns = list(row)
            yield _line(columns)
            yield "|" + "---|" * len(columns)
        if new := [column for column in row if column not in columns]:
            raise ValueError(f"columns {new} are not in the table's first row.")
        yield _line([as_text(row.get(column)) for column in columns])


def save(path: Path, name: str, head: Head, rows: list[Row]) -> None:
    """Add a table to `path`.json and `path`.md, or replace it; others there keep their heads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = path.with_suffix(".json")
    tables = json.loads(data.read_text()) if data.exists() else {}
    tables[name] = {"head": head, "rows": rows}
    data.write_text(json.dumps(tables, indent=1, ensure_ascii=False))
    lines = [f"# {path.parent.name}/{path.name}"]
    for title, table in tables.items():
        lines += ["", f"## {title}", "", as_line(table["head"]), "", *markdown(table["rows"])]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def as_text(cell: Any) -> str:
    """A cell as a table shows it: four digits of a number, a dash where there is none."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return f"{cell:,}" if type(cell) is int else str(cell)


def lines_of(
    rows: list[Row], columns: str | None = None, kept: str | None = None
) -> list[list[str]]:
    """The head of a table and its lines, as texts.

    Args:
        rows: The rows.
        columns: Names between bars, by default all; `value ± std_error` is one column.
        kept: `column = cell`: only rows with that cell.

    Raises:
        ValueError: If the table has no such column, or no row with that cell.
    """
    parts = [each.split(" ± ") for each in columns.split(" | ")] if columns else None
    named = parts or [[each] for each in rows[0]]
    which, _, wanted = (kept or "").partition(" = ")
    asked = {each for part in named for each in part} | ({which} if kept else set())
    if unknown := asked - set(rows[0]):
        raise ValueError(f"the table has no {sorted(unknown)}; it has {list(rows[0])}.")
    chosen = [row for row in rows if not kept or as_text(row.get(which)) == wanted]
    if not chosen:
        raise ValueError(f"the table has no line with {kept}.")
    return [[part[0] for part in named], *([_cell(row, part) for part in named] for row in chosen)]


def _cell(row: Row, part: list[str]) -> str:
    """A number as it is, or with its error."""
    numbers = [row.get(name) for name in part]
    if len(numbers) == 1 or numbers[0] is None or numbers[1] is None:
        return as_text(numbers[0])
    return with_error(float(numbers[0]), float(numbers[1]))
