"""Pages of the reference: one page for each folder of public names, and one for each name.

The names are those of `__all__`: nothing is listed by hand. Docstrings are Markdown with Google
sections, and Sphinx wants reStructuredText: `as_rst` translates them.
"""

import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import aide

if TYPE_CHECKING:  # a test reads the names, in environments without Sphinx, too
    from sphinx.application import Sphinx
    from sphinx.config import Config

OPTIONAL = (
    "numpyro",
    "pymc",
    "stan",
    "blackjax",
    "cuthbert",
    "arviz",
    "posteriordb",
    "particles",
    "sbi",
)
"""Adapters of other libraries, in the order of the reference."""
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```[ ]*$", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^( *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)
DISPLAYED = re.compile(r"^( *)\$\$(.+?)\$\$([.,;]?)[ ]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<![`\\:])`((?:[^`\n]|\n(?!\s*\n))+)`(?![`_])")
FORMULA = re.compile(r"(?<![\\$])\$((?:[^$\n]|\n(?!\s*\n))+)\$(?!\$)")
LINK = re.compile(r"\[([^\]\n]+)\]\((https?://[^)\s]+)\)")
LIST_ITEM = re.compile(r"^(\s*)([-*] |\d+\. )")


def as_rst(lines: list[str]) -> list[str]:
    """A Markdown docstring in reStructuredText; sections (`Args:`) stay for Napoleon."""
    text = "\n".join(lines)
    kept: list[str] = []

    def keep(replacement: str) -> str:
        kept.append(replacement)
        return f"\x00{len(kept) - 1}\x00"

    def block(match: re.Match[str]) -> str:
        indent, language, body = match[1], match[2] or "text", match[3]
        rows = [f"{indent}   {row[len(indent) :]}".rstrip() for row in body.splitlines()]
        return "\n" + keep(f"{indent}.. code-block:: {language}\n\n" + "\n".join(rows)) + "\n"

    def session(match: re.Match[str]) -> str:
        indent, rows = match[1], match[0].splitlines()
        body = "\n".join(f"{indent}   {row[len(indent) :]}".rstrip() for row in rows)
        return "\n" + keep(f"{indent}.. code-block:: pycon\n\n{body}") + "\n"

    def display(match: re.Match[str]) -> str:
        rows = [f"{match[1]}   {row.strip()}" for row in match[2].strip().splitlines()]
        return "\n" + keep(f"{match[1]}.. math::\n\n" + "\n".join(rows) + match[3]) + "\n"

    def inline(match: re.Match[str], role: str, quotes: str) -> str:
        """Marked words need a space or punctuation on either side: a backslash-space does."""
        before, after = match.string[: match.start()], match.string[match.end() :]
        left, right = ("\\ " if end.isalnum() else "" for end in (before[-1:], after[:1]))
        return keep(f"{left}{role}{quotes}{' '.join(match[1].split())}{quotes}{right}")

    text = SESSION.sub(session, FENCE.sub(block, text))
    text = DISPLAYED.sub(display, text)
    text = CODE.sub(lambda match: inline(match, "", "``"), text)
    text = FORMULA.sub(lambda match: inline(match, ":math:", "`"), text)
    text = LINK.sub(lambda match: keep(f"`{match[1]} <{match[2]}>`__"), text)
    text = text.replace("|", r"\|")
    text = "\n".join(_with_room_for_lists(text.splitlines()))
    while "\x00" in text:
        text = re.sub("\x00(\\d+)\x00", lambda match: kept[int(match[1])], text)
    return text.splitlines()


def _with_room_for_lists(lines: list[str]) -> list[str]:
    """Lists stand between empty lines in reStructuredText; Markdown does not ask for that."""
    found: list[str] = []
    inside: int | None = None
    for line in lines:
        item = LIST_ITEM.match(line)
        indent = len(line) - len(line.lstrip())
        if item and inside is None and found and found[-1].strip():
            found.append("")
        if item:
            inside = indent
        elif inside is not None and line.strip() and indent <= inside:
            if found and found[-1].strip():
                found.append("")
            inside = None
        found.append(line)
    return found


def namespaces() -> list[tuple[str, ModuleType]]:
    """`aide` itself, its public folders, and adapters, each with `__all__`."""
    folders = [name for name in aide.__all__ if isinstance(getattr(aide, name), ModuleType)]
    modules = [("aide", aide), *((f"aide.{name}", getattr(aide, name)) for name in folders)]
    adapters = [f"aide.adapters.{name}" for name in OPTIONAL]
    others = [(name.replace(".adapters", ""), name) for name in ["aide.plots", *adapters]]
    return [*modules, *((title, importlib.import_module(name)) for title, name in others)]


def public(module: ModuleType) -> list[str]:
    """Public names of a module that are no modules."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        ]
    return [name for name in names if not isinstance(getattr(module, name), ModuleType)]


def write_pages(app: "Sphinx", config: "Config") -> None:
    """Write one page for each namespace; autosummary makes one for each name."""
    folder = Path(app.srcdir) / "reference" / "api"
    folder.mkdir(parents=True, exist_ok=True)
    titles = []
    for title, module in namespaces():
        names = public(module)
        if not names:
            continue
        titles.append(title)
        rows = "\n".join(f"   {module.__name__}.{name}" for name in names)
        about = "\n".join(as_rst((module.__doc__ or "").splitlines())[:1])
        text = (
            f"{title}\n{'=' * len(title)}\n\n{about}\n\n.. autosummary::\n   :toctree: names\n"
            f"   :nosignatures:\n\n{rows}\n"
        )
        _write(folder / f"{title}.rst", text)
    listed = "\n".join(f"   {title}" for title in titles)
    _write(
        folder / "index.rst",
        "Public names\n============\n\nThe names that most people need are in ``aide``; its "
        "folders hold the rest. A name that is not listed here may change without notice.\n\n"
        "Every example runs after these lines:\n\n.. code-block:: python\n\n"
        "   import aide\n   import jax\n   import jax.numpy as jnp\n   import numpy as np\n"
        "   from aide.problems import Normal\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{listed}\n",
    )
    # By name: the pages did not exist when Sphinx looked for pages.
    config.autosummary_generate = [f"reference/api/{title}.rst" for title in titles]


def _write(path: Path, text: str) -> None:
    """A file whose text did not change keeps its time, so that Sphinx does not read it again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def translate(
    app: "Sphinx", what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Called by autodoc for each docstring, before Napoleon reads its sections."""
    lines[:] = as_rst(lines)


def setup(app: "Sphinx") -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("config-inited", write_pages)
    app.connect("autodoc-process-docstring", translate, priority=400)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
