"""Results as rich tables. Texts are `rich.text.Text`: nothing is ever read as markup."""

from typing import Any

from aide.reporting.page import Page, colour_of

LONGEST_NAME = 30
"""Characters of a name that always have room."""


def page_rich(page: Page) -> Any:
    """Subject and headline, the table of lines, and the rows in two columns."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[Any] = [Text(page.subject, "italic")] if page.subject else []
    parts.append(Text(page.headline, f"bold {colour_of(page.verdict)}".strip()))
    if page.grid is not None:
        table = Table(box=box.SIMPLE_HEAD, padding=0)  # the box itself leaves a blank between
        for index, title in enumerate(page.grid.titles):
            side = "left" if page.grid.is_text(index) else "right"
            cells = [line[index] for line in page.grid.lines]
            # Names are never cut, within reason: without them the numbers mean nothing.
            least = min(max(map(len, cells), default=0), LONGEST_NAME) if index == 0 else None
            table.add_column(Text(title), justify=side, no_wrap=True, min_width=least)
        for line, verdict in zip(page.grid.lines, page.grid.verdicts, strict=True):
            table.add_row(*map(Text, line), style=colour_of(verdict) or None)
        parts.append(table)
    if page.rows:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column()
        for name, text in page.rows:
            table.add_row(Text(name), Text(text, "yellow" if name == "note" else ""))
        parts.append(table)
    return Group(*parts)
