"""Rich tables of two columns."""

from typing import Any


def two_columns(title: str, rows: list[tuple[str, str]], colour: str = "") -> Any:
    """Names left, texts right; notes in yellow."""
    from rich.markup import escape
    from rich.table import Table

    title = escape(title)
    table = Table(
        title=f"[{colour}]{title}[/]" if colour else title, title_justify="left", show_header=False
    )
    table.add_column(no_wrap=True)
    table.add_column()
    for name, text in rows:
        text = escape(text)
        table.add_row(name, f"[yellow]{text}[/]" if name == "note" else text)
    return table
