"""Make `python` fences of Markdown pages into cells that run when the site is built.

A page stays ordinary Markdown: the repository's own page shows its code with colours, and the site
shows what the code prints, too. Fences of any other kind (`text`, `bash`, `py`) are shown as they
are and never run.
"""

import re
from typing import Any

from sphinx.application import Sphinx

FENCE = re.compile(r"^```python[ ]*$", re.MULTILINE)
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
    source[0] = HEAD + FENCE.sub("```{code-cell} python", text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", make_cells)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
