"""`aide reproduce`: files, continuing, and one clear line with exit code 2 for bad input."""

import csv
import json

import pytest
from typer.testing import CliRunner

from aide.cli import app

RUN = CliRunner()


def run(*arguments):
    return RUN.invoke(app, ["reproduce", *map(str, arguments)])


def small(out):
    return ("bimodal", "--scale", "smoke", "--num-runs", 5, "--particles", "1,2", "--out", out)


def test_writes_everything_and_continues(tmp_path):
    assert run(*small(tmp_path)).exit_code == 0
    folder = tmp_path / "bimodal"
    assert {"results.csv", "figure.svg", "figure.png", "info.json"} <= {
        f.name for f in folder.iterdir()
    }
    before = (folder / "results.csv").read_text()
    rows = list(csv.DictReader(before.splitlines()))
    assert [(row["proposal"], row["num_particles"]) for row in rows] == [
        ("broad", "1"),
        ("broad", "2"),
        ("offset", "1"),
        ("offset", "2"),
    ]
    lines = before.splitlines(keepends=True)
    (folder / "results.csv").write_text("".join(lines[:3]))
    assert run(*small(tmp_path)).exit_code == 0
    assert (folder / "results.csv").read_text() == before
    info = json.loads((folder / "info.json").read_text())
    assert info["seed"] == 0
    assert info["settings"]["particles"] == [1, 2]


@pytest.mark.full
def test_other_settings_do_not_mix(tmp_path):
    assert run(*small(tmp_path)).exit_code == 0
    result = run(*small(tmp_path), "--seed", 1)
    assert result.exit_code == 2
    assert "holds results of other settings" in result.stderr


HMM = {
    "initial": [0.5, 0.5],
    "transition": [[0.9, 0.1], [0.2, 0.8]],
    "emission": [[0.7, 0.3], [0.4, 0.6]],
    "observations": [0, 1, 1],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transition": [[0.9, 0.2], [0.2, 0.8]]}, "row 0"),
        ({"observations": [0, 2, 1]}, "observation 1"),
        ({"observations": [0, "x"]}, "not a number"),
        ({"emission": [[1.0]]}, "shapes must be"),
        ({"initial": None}, "lacks 'initial'"),
    ],
)
def test_bad_hmm(tmp_path, change, message):
    content = {k: v for k, v in {**HMM, **change}.items() if v is not None}
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content))
    result = run("hmm", "--data", path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_bad_column(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("value\n1.0\nabc\n")
    result = run("dpmm", "--data", path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "line 3: 'abc' is not a number" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "unknown experiment"),
        (("bimodal", "--scale", "huge"), "--scale must be one of"),
        (("bimodal", "--particles", "1,x"), "--particles takes numbers"),
        (("bimodal", "--meta", "0"), "at least 1"),
        (("bimodal", "--num-runs", "1"), "--num-runs must be at least 2"),
        (("linreg", "--data", "x.csv"), "--data applies to"),
        (("hmm", "--data", "missing.json"), "cannot read"),
    ],
)
def test_bad_options(tmp_path, arguments, message):
    result = run(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr


def test_unwritable_out(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = run("bimodal", "--scale", "smoke", "--out", blocked / "folder")
    assert result.exit_code == 2
    assert "cannot write to" in result.stderr
