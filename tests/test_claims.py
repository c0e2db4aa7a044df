"""Every test and benchmark that a page names exists, and every printed claim names one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLAIMS = ROOT / "docs" / "reference" / "claims.md"
PAGES = [path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts]
TESTS = list((ROOT / "tests").rglob("*.py"))
FILES = {path.name for path in TESTS}
FUNCTIONS = set(re.findall(r"def (test_\w+)", "".join(path.read_text() for path in TESTS)))
NAMED = re.compile(r"(?:tests|benchmarks)/[\w/]+(?:\.py)?|\btest_\w+(?:\.py)?")
WITHOUT = ("–", "exact", "as there", "the same", "false alarms")
"""How the cell of a claim begins that needs no test: not statistical, or one that stands above."""


def is_there(name):
    """Whether a file, a folder, a benchmark or a test of that name exists."""
    if "/" in name:
        return (ROOT / name).exists() or (ROOT / f"{name}.py").exists()
    return name in FILES if name.endswith(".py") else name in FUNCTIONS


def missing(text):
    """The tests and benchmarks that a text names, and that are neither there nor a reader's own."""
    made = ("benchmarks/results", "benchmarks/build")  # by whoever runs them
    own = re.findall(r"def (test_\w+)", text)
    names = [name for name in NAMED.findall(text) if name not in own]
    return [name for name in names if not (name.startswith(made) or is_there(name))]


def unbacked(text):
    """Lines of tables with a column `shown by` that name neither a test nor a reason."""
    found, shown = [], False
    for line in text.splitlines():
        if not line.startswith("|"):
            shown = False
        elif line.rstrip(" |").endswith("shown by"):
            shown = True
        elif shown and not line.startswith("|--"):
            cell = re.split(r"(?<!\\)\|", line.strip())[-2].strip()
            if not (NAMED.search(cell) or cell.startswith(WITHOUT) or "](" in cell):
                found.append(line)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_exists(page):
    assert missing(page.read_text()) == []


def test_every_claim_names_what_shows_it():
    text = CLAIMS.read_text()
    assert text.count("shown by |") >= 9
    assert unbacked(text) == []


def test_what_does_not_exist_is_found():
    assert missing("`tests/no/such_file.py`, `test_names.py`, `test_no_such`") == [
        "tests/no/such_file.py",
        "test_no_such",
    ]
    table = "| sentence | shown by |\n|---|---|\n| `all is well` | our word |\n"
    assert unbacked(table) == ["| `all is well` | our word |"]
