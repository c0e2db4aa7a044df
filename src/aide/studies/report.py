"""`report.html`: one self-contained page, made from `result.json` alone.

Every text is escaped. Figures are images (`data:` addresses), in which scripts never run;
a content security policy forbids everything else.
"""

import base64
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from aide._core.process import write_atomically
from aide.reporting.grid import Grid
from aide.reporting.page import grid_html

STYLE = """
:root{color-scheme:light dark;--ground:#fdfdfb;--ink:#1c1f24;--soft:#5c6370;--line:#dcdcd6;
--passed:#1d7a46;--failed:#b3392f;--undecided:#8a6d00;--card:#f4f4ef}
@media(prefers-color-scheme:dark){:root{--ground:#15181d;--ink:#e8e8e3;--soft:#a2a9b4;
--line:#343a44;--passed:#62c98e;--failed:#f08d82;--undecided:#e0c050;--card:#1d2127}
figure img{filter:invert(.9) hue-rotate(180deg)}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.5rem;line-height:1.25;margin:.2rem 0 1rem;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1rem 0 .3rem}
.kicker{margin:0;color:var(--soft);font-size:.85rem}
.verdict{font-size:1.15rem;padding:.8rem 1rem;border-left:.35rem solid var(--soft);
background:var(--card);overflow-wrap:anywhere}
.verdict.passed{border-color:var(--passed)}.verdict.failed{border-color:var(--failed)}
.verdict.undecided{border-color:var(--undecided)}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{padding:.35rem .6rem;border-bottom:1px solid var(--line);}
thead th,tr:first-child th{white-space:normal!important}
td:first-child{white-space:normal;overflow-wrap:anywhere;min-width:7rem}
dl{display:grid;grid-template-columns:minmax(6rem,max-content) 1fr;gap:.15rem 1rem;margin:.5rem 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:1rem}
figure{margin:0;padding:.5rem;background:var(--card);border-radius:.4rem}
figure img{width:100%;height:auto}
figcaption{color:var(--soft);font-size:.85rem;overflow-wrap:anywhere}
details{margin:.6rem 0;border:1px solid var(--line);border-radius:.4rem;padding:.4rem .8rem}
summary{cursor:pointer;font-weight:600;overflow-wrap:anywhere}
pre{overflow-x:auto;background:var(--card);padding:.6rem;font-size:.85rem}
@media(max-width:34rem){dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}
@media print{body{background:#fff;color:#000;font-size:11pt}figure,details{break-inside:avoid}
figure img{filter:none}}
"""


POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""The content security policy of the page."""


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
    """The order in which targets follow, if a table ranks them in another one."""
    if len(parts) < 2 or not is_ranked:
        return ""
    names = ", ".join(_text(name) for name in parts)
    return f"<p>Results now follow in the order in which they were given: {names}.</p>"


def _errors(parts: Mapping[str, Any]) -> Iterable[str]:
    """Errors of every target: a sentence, a table, a figure."""
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
    """A text for HTML: escaped, quotes too, and without control characters."""
    kept = "\n" if keep_lines else ""
    return escape("".join(c for c in str(value) if c.isprintable() or c in kept))
