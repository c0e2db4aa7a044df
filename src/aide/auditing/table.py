"""Rich tables of two columns."""

from typing import Any

from aide._core.text import plain


def two_columns(title: str, rows: list[tuple[str, str]], colour: str = "") -> Any:
    """Names left, texts right; notes in yellow. Nothing is ever read as markup."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(plain(title), colour), title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for name, text in rows:
        table.add_row(Text(plain(name)), Text(plain(text), "yellow" if name == "note" else ""))
    return table
