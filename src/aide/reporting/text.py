"""Results as plain text."""

from aide.reporting.grid import Grid
from aide.reporting.page import Page

WIDTH = 15
"""Of the names of rows."""
GAP = "  "


def page_text(page: Page) -> str:
    """Headline, table and rows. The subject is left to richer kinds of output."""
    lines = [page.headline]
    if page.grid is not None:
        lines += [f"{GAP}{line}".rstrip() for line in _grid_lines(page.grid)]
    lines += [f"{GAP}{name:<{WIDTH}} {text}" for name, text in page.rows]
    return "\n".join(lines)


def _grid_lines(grid: Grid) -> list[str]:
    table = [grid.titles, *grid.lines]
    widths = [max(len(line[column]) for line in table) for column in range(len(grid.titles))]
    return [
        GAP.join(
            cell.ljust(width) if grid.is_text(index) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in table
    ]
