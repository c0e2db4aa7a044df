"""`report.html`: one page that needs nothing else, made from `result.json` alone.

Every text is escaped. Figures are images of their own (`data:` addresses), in which no script runs
whatever they hold; a content security policy forbids everything else.
"""

import base64
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from aide._core.process import write_atomically
from aide.reporting.grid import Grid
from aide.reporting.page import grid_html
from aide.studies.report.style import STYLE

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_report(story: Mapping[str, Any], path: Path) -> None:
    """Write the page of a study."""
    write_atomically(path, page_of(story).encode())


def page_of(story: Mapping[str, Any]) -> str:
    """The page as a text."""
    title = _text(story.get("subject") or story["headline"])
    parts = [
        _verdict(story),
        *(f"<p>{_text(sentence)}</p>" for sentence in story.get("head", ())),
        _table(story.get("grid")),
        _order(story.get("parts", {}), bool(story.get("grid"))),
        *_errors(story.get("parts", {})),
        _rows(story.get("rows", ()), story.get("notes", ())),
        _figures(story.get("figures", ())),
        *(_part(name, part) for name, part in story.get("parts", {}).items()),
        _gold(story["gold"]),
        _facts("Settings", story["settings"]),
        _facts("Versions", story["versions"]),
        f"<section><h2>How to cite</h2><p>{_text(story['citation'])}</p></section>",
    ]
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title>'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head><body><main>'
        f"<header><p class='kicker'>AIDE · {_text(story['finished'])}</p><h1>{title}</h1></header>"
        f"{''.join(parts)}</main></body></html>\n"
    )


def _verdict(story: Mapping[str, Any]) -> str:
    mark = escape(story.get("judged") or "plain")
    return f'<p class="verdict {mark}">{_text(story["sentence"])}</p>'


def _table(grid: Mapping[str, Any] | None) -> str:
    return grid_html(Grid.from_dict(grid)) if grid else ""


def _rows(rows: Iterable[Iterable[str]], notes: Iterable[str]) -> str:
    listed = "".join(f"<dt>{_text(name)}</dt><dd>{_text(text)}</dd>" for name, text in rows)
    noted = "".join(f"<li>{_text(note)}</li>" for note in notes)
    notes_part = f"<h2>Notes</h2><ul>{noted}</ul>" if noted else ""
    return f"<section><dl>{listed}</dl>{notes_part}</section>"


def _figures(figures: Iterable[Mapping[str, str]], title: str = "Curves") -> str:
    shown = "".join(
        f'<figure><img alt="{_text(one["title"])}" src="data:image/svg+xml;base64,'
        f'{base64.b64encode(one["svg"].encode()).decode()}">'
        f"<figcaption>{_text(one['title'])}</figcaption></figure>"
        for one in figures
    )
    heading = f"<h2>{title}</h2>" if title else ""
    return f'<section>{heading}<div class="figures">{shown}</div></section>' if shown else ""


def _part(name: str, part: Mapping[str, Any]) -> str:
    return (
        f"<details><summary>{_text(name)}</summary><p>{_text(part['headline'])}</p>"
        f"{_rows(part['rows'], part['notes'])}{_figures(part.get('figures', ()))}</details>"
    )


def _order(parts: Mapping[str, Any], is_ranked: bool) -> str:
    """In which order targets follow, beside a table that ranks them."""
    if len(parts) < 2 or not is_ranked:
        return ""
    names = ", ".join(_text(name) for name in parts)
    return f"<p>Results now follow in the order in which they were given: {names}.</p>"


def _errors(parts: Mapping[str, Any]) -> Iterable[str]:
    """Errors of what is reported, target by target: a sentence, a table, a figure."""
    for name, part in parts.items():
        errors = part.get("errors")
        if errors is None:
            continue
        yield (
            f"<section><h2>Errors of {_text(name)}</h2><p>{_text(errors['headline'])}</p>"
            f"{_table(errors['grid'])}{_figures(errors['figures'], '')}"
            f"<details><summary>How to read the errors</summary>"
            f"{_rows(errors['rows'], errors['notes'])}</details></section>"
        )


def _gold(gold: Mapping[str, Any]) -> str:
    about = gold.get("about") or "The study says nothing about it (about_gold)."
    audit = gold.get("audit")
    shown = (
        f"<pre>{_text(audit, keep_lines=True)}</pre>"
        if audit
        else "<p>It was not audited: aide.audit compares it with itself at other budgets.</p>"
    )
    facts = {"name": gold["name"], "identity": gold["identity"]}
    return (
        f"<section><h2>The gold standard</h2><p>{_text(about)}</p>{_list(facts)}"
        f"<h3>Audit</h3>{shown}</section>"
    )


def _facts(title: str, facts: Mapping[str, Any]) -> str:
    return f"<section><h2>{_text(title)}</h2>{_list(facts)}</section>"


def _list(facts: Mapping[str, Any]) -> str:
    shown = "".join(f"<dt>{_text(k)}</dt><dd>{_text(v)}</dd>" for k, v in facts.items())
    return f"<dl>{shown}</dl>"


def _text(value: Any, keep_lines: bool = False) -> str:
    """A text as HTML shows it: escaped, quotes too, and without control characters."""
    kept = "\n" if keep_lines else ""
    return escape("".join(c for c in str(value) if c.isprintable() or c in kept))
