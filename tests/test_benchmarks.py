"""The benchmarks' runner: every benchmark loads, and tables carry machine, date and versions."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.table import lines_of

ROOT = Path(__file__).resolve().parent.parent
RUNNER = ROOT / "benchmarks" / "run.py"
FENCE = re.DOTALL | re.MULTILINE


def run(*words):
    command = [sys.executable, str(RUNNER), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.full
@pytest.mark.parametrize("which", [("coverage/convergence",), ()])
def test_a_table_has_its_head(tmp_path, which):
    """Without a name all benchmarks are loaded, and the table is looked for among theirs."""
    done = run(*which, "--only", "limits", "--replications", 2, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "coverage" / "convergence.json").read_text())["limits"]
    assert len(table["rows"]) == 9
    assert table["head"]["options"] == {"replications": 2}
    assert {"cpu", "cores", "load", "gpu"} <= set(table["head"]["machine"])
    assert {"Python", "jax", "jaxlib", "numpy", "aide", "commit"} == set(table["head"]["versions"])
    text = (tmp_path / "coverage" / "convergence.md").read_text()
    assert table["head"]["date"] in text
    assert "| N(0.1, 1) |" in text


def test_cases_without_their_data_are_skipped_in_a_sentence(tmp_path):
    words = ("--only", "cases", "--folder", tmp_path / "none", "--case", "kidiq")
    done = run("coverage/errors", *words, "--out", tmp_path)
    assert "kidiq, full rank: skipped, because" in done.stdout + done.stderr


@pytest.mark.full
def test_every_file_is_listed_and_an_unknown_one_named():
    folders = ("speed", "coverage", "power", "learned", "gold", "adapters", "studies")
    names = {f"{s}/{file.stem}" for s in folders for file in (ROOT / "benchmarks" / s).glob("*.py")}
    assert {line.split()[0] for line in run("--list").stdout.splitlines()} == names
    done = run("speed/nothing")
    assert done.returncode == 1
    assert "speed/nothing" in done.stderr
    assert "coverage/intervals" in done.stderr


@pytest.mark.full
def test_parts_are_added(tmp_path):
    """Rows with the same labels are one; their whole numbers are counts, fractions are labels."""
    machine = {"cpu": "", "cores": 1, "cores of the machine": 1, "load": 0.0, "gpu": None}
    head = {"date": "today", "machine": machine, "versions": {}, "options": {"first": 0}}
    for part, counts in (("a", (3, 1)), ("b", (4, 2))):
        rows = [
            {"pair": "near", "D": 0.5, "right": counts[0], "held": counts[0]},
            {"pair": "far", "D": 2.0, "right": counts[1], "held": None},
        ]
        file = tmp_path / part / "studies" / "some.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"sums": {"head": head, "rows": rows}}))
    merge = [sys.executable, RUNNER.with_name("merge.py"), tmp_path / "a", tmp_path / "b"]
    subprocess.run([*map(str, merge), "--out", str(tmp_path / "all")], check=True)
    found = json.loads((tmp_path / "all" / "studies" / "some.json").read_text())["sums"]
    assert found["rows"] == [
        {"pair": "near", "D": 0.5, "right": 7, "held": 7},
        {"pair": "far", "D": 2.0, "right": 3, "held": None},
    ]
    assert found["head"]["options"] == {"first": 0, "parts": 2}


ROWS = [
    {"kind": "near", "value": 0.1234, "std_error": 0.02, "N": 1000},
    {"kind": "far", "value": 2.0, "std_error": None, "N": 20},
]


def test_columns_of_a_page_have_errors_beside_their_numbers():
    assert lines_of(ROWS)[0] == ["kind", "value", "std_error", "N"]
    assert lines_of(ROWS, "N | value ± std_error") == [
        ["N", "value"],
        ["1,000", "0.123 ± 0.020"],
        ["20", "2"],
    ]
    assert lines_of(ROWS, "N", "kind = far") == [["N"], ["20"]]


def test_columns_and_lines_that_a_table_lacks_are_errors():
    with pytest.raises(ValueError, match="no \\['bias'\\]"):
        lines_of(ROWS, "kind | value ± bias")
    with pytest.raises(ValueError, match="no line with kind = wide"):
        lines_of(ROWS, kept="kind = wide")


def test_every_table_of_a_page_can_be_drawn():
    """Its file, its table, its columns and its lines exist."""
    drawn = 0
    for page in (ROOT / "docs").rglob("*.md"):
        for name, body in re.findall(r"^```\{measured\} (\S+)\n(.*?)^```", page.read_text(), FENCE):
            options = dict(re.findall(r"^:(\w+): (.*)$", body, re.MULTILINE))
            tables = json.loads((ROOT / "docs/measured/results" / f"{name}.json").read_text())
            rows = tables[options.get("table", next(iter(tables)))]["rows"]
            lines_of(rows, options.get("columns"), options.get("rows"))
            drawn += 1
    assert drawn > 10
