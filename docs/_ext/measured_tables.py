"""Tables of measurements, drawn from the files that `benchmarks/run.py` wrote.

A page names the file and the table:

    ```{measured} power/one_mode
    :table: one_mode
    :columns: approximation | truth | value ± std_error
    :rows: kind = overdamped
    :transposed:
    ```

The columns are all of them unless they are named; `value ± std_error` is one column, `value`, of
two numbers. `rows` keeps the lines with that cell. In a transposed table each column is a line.

The table stands in `docs/measured/results/power/one_mode.json`, with the machine, the date, the
versions and the options that made it, which are shown below it. No number of such a table is typed.
"""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from benchmarks.machine import as_line
from benchmarks.table import lines_of


class Measured(SphinxDirective):
    """A table of results, and what made it."""

    required_arguments = 1
    option_spec = {
        "table": directives.unchanged_required,
        "columns": directives.unchanged_required,
        "rows": directives.unchanged_required,
        "transposed": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Called by Sphinx."""
        benchmark = self.arguments[0]
        path = Path(self.env.srcdir) / "measured" / "results" / f"{benchmark}.json"
        self.env.note_dependency(str(path))
        tables = json.loads(path.read_text())
        name = self.options.get("table", next(iter(tables)))
        found = tables[name]
        columns = self.options.get("columns")
        lines = lines_of(found["rows"], columns, self.options.get("rows"))
        if "transposed" in self.options:
            lines = [list(line) for line in zip(*lines, strict=True)]
        return [table_of(lines), _origin(benchmark, name, found["head"])]


def table_of(lines: list[list[str]]) -> nodes.Node:
    """A table whose first line is its head."""
    head, *body = lines
    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in head), cols=len(head))
    group += nodes.thead("", _line(head))
    group += nodes.tbody("", *map(_line, body))
    return nodes.container("", nodes.table("", group), classes=["pst-scrollable-table-container"])


def _line(cells: list[str]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=cell)) for cell in cells))


def _origin(benchmark: str, name: str, head: dict[str, Any]) -> nodes.paragraph:
    """Where, when and with which versions a table was measured."""
    command = f"python benchmarks/run.py {benchmark} --only {name}"
    words = nodes.emphasis(text=as_line(head))
    parts = (words, nodes.Text(" "), nodes.literal(text=command))
    return nodes.paragraph("", "", *parts, classes=["origin"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("measured", Measured)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
