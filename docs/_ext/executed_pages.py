"""Make `python` fences of Markdown pages into cells that run when the site is built.

A page stays ordinary Markdown: the repository's own page shows its code with colours, and the site
shows what the code prints, too. The code of a fence that begins with "```python folded" is shown
when a reader asks for it: it draws a picture, say. Fences of any other kind (`text`, `bash`, `py`)
are shown as they are and never run.
"""

import re
from typing import Any

from sphinx.application import Sphinx

FENCE = re.compile(r"^```python( folded)?[ ]*$", re.MULTILINE)
HEAD = """---
file_format: mystnb
kernelspec:
  name: python3
language_info:
  name: python
  pygments_lexer: python3
---
"""
"""What tells MyST-NB that a page has cells, and in which language they are."""


def make_cells(app: Sphinx, page: str, source: list[str]) -> None:
    """Turn each `python` fence of a page into a cell; a page without one stays as it is."""
    text = source[0]
    if not FENCE.search(text):
        return
    if text.startswith("---"):
        raise ValueError(f"{page} has `python` fences and a head of its own; remove the head.")
    source[0] = HEAD + FENCE.sub(_as_cell, text)


def _as_cell(fence: re.Match[str]) -> str:
    """The first lines of a cell."""
    return "```{code-cell} python" + ("\n:tags: [hide-input]\n" if fence[1] else "")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", make_cells)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
