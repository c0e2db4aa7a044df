"""The benchmarks' runner: every benchmark loads, and tables carry machine, date and versions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RUNNER = ROOT / "benchmarks" / "run.py"


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


def test_every_file_is_listed_and_an_unknown_one_named():
    folders = ("speed", "coverage", "power", "learned", "gold", "adapters", "studies")
    names = {f"{s}/{file.stem}" for s in folders for file in (ROOT / "benchmarks" / s).glob("*.py")}
    assert {line.split()[0] for line in run("--list").stdout.splitlines()} == names
    done = run("speed/nothing")
    assert done.returncode == 1
    assert "speed/nothing" in done.stderr
    assert "coverage/intervals" in done.stderr
