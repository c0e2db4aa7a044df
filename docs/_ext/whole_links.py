"""Links of the built site are whole: every page, file and anchor that a page names exists.

Links to other sites are not followed. What a browser would load by itself (pictures, styles,
scripts, fonts) must lie in the site: reading a page sends no request to anybody else.
"""

from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:  # a test looks for broken links, in environments without Sphinx, too
    from sphinx.application import Sphinx

LOADED = {("img", "src"), ("script", "src"), ("source", "src"), ("object", "data")}
"""Attributes whose address a browser loads without being asked."""
SHOWN = 30
"""Broken links that a message lists."""


class Anchors(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for every element."""
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        is_style = tag == "link" and "stylesheet" in found.get("rel", "")
        if "href" in found:
            (self.loaded if is_style else self.links).add(found["href"])
        self.loaded |= {value for name, value in found.items() if (tag, name) in LOADED}


def read(page: Path) -> Anchors:
    """The anchors and links of a page."""
    parser = Anchors()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def broken(folder: Path) -> list[str]:
    """What is wrong with the links of a site, in words."""
    files = (page for page in folder.rglob("*.html") if "_static" not in page.parts)
    pages = {page: read(page) for page in sorted(files)}
    found: list[str] = []
    for page, parsed in pages.items():
        name = page.relative_to(folder)
        found += [
            f"{name} loads {address} from another site"
            for address in sorted(parsed.loaded)
            if urlsplit(address).scheme in ("http", "https") or address.startswith("//")
        ]
        for address in sorted(parsed.links | parsed.loaded):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            goal = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            anchor = unquote(parts.fragment)
            if not goal.exists():
                found.append(f"{name} links to {address}: there is no such file")
            elif anchor and goal in pages and anchor not in pages[goal].anchors:
                found.append(f"{name} links to {address}: there is no such anchor")
    return found


def check(app: "Sphinx", error: Exception | None) -> None:
    """Called when the site is built; a broken link ends the build."""
    if error is None and app.builder.name == "html" and (found := broken(Path(app.outdir))):
        from sphinx.errors import ExtensionError

        raise ExtensionError("\n".join([f"{len(found)} broken links:", *found[:SHOWN]]))


def setup(app: "Sphinx") -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("build-finished", check)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
