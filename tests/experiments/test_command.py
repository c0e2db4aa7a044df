"""`aide reproduce`: files, continuing, and one clear line with exit code 2 for bad input."""

import csv
import errno
import json

import pytest
from typer.testing import CliRunner

from aide._core import process as _files
from aide.cli import app

RUN = CliRunner()


def run(*arguments):
    return RUN.invoke(app, ["reproduce", *map(str, arguments)])


def assert_one_line(result):
    assert len(result.stderr.strip().splitlines()) == 1
    assert len(result.stderr) < 500


def small(out):
    return ("bimodal", "--scale", "smoke", "--num-runs", 5, "--particles", "1,2", "--out", out)


@pytest.mark.full
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
        ({"observations": [0, 1e300]}, "whole numbers"),
        ({"states": [0, 1, 2]}, "states must be 3 whole numbers from 0 to 1"),
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
    assert_one_line(result)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"value\n1.0\nabc\n", "line 3: 'abc' is not a number"),
        (b"1.0\n\xff\xfe", "is not text: byte 4 is 0xff. Save it as UTF-8."),
        (b"1.0\n", "at least two different finite numbers"),
        (b"2.0\n2.0\n", "at least two different finite numbers"),
        (b"1\ninf\n", "at least two different finite numbers"),
        (b"1\n" + b"x" * 10_000, "is not a number"),
    ],
)
@pytest.mark.parametrize("experiment", ["dpmm", "galaxy"])
def test_bad_column(tmp_path, experiment, content, message):
    path = tmp_path / "data.txt"
    path.write_bytes(content)
    result = run(experiment, "--data", path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
    assert str(path) in result.stderr
    assert_one_line(result)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x93NUMPY\x01\x00", "is not text: byte 0 is 0x93"),
        (b"[1, 2]", "lacks 'initial'; it needs an object of"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_an_hmm_that_is_no_object(tmp_path, content, message):
    path = tmp_path / "model.json"
    path.write_bytes(content)
    result = run("hmm", "--data", path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
    assert_one_line(result)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "unknown experiment"),
        (("bimodal", "--scale", "huge"), "--scale must be one of"),
        (("bimodal", "--particles", "1,x"), "--particles takes numbers"),
        (("bimodal", "--meta", "0"), "--meta takes numbers from 1 to 1,000,000"),
        (("bimodal", "--num-runs", "1"), "--num-runs must be at least 2"),
        (("bimodal", "--particles", "9" * 5000), "--particles takes numbers such as 1,3,10"),
        (("bimodal", "--particles", 10**12), "--particles takes numbers from 1 to 1,000,000"),
        (("bimodal", "--meta", 2**40), "--meta takes numbers from 1 to 1,000,000"),
        (("bimodal", "--num-runs", 2**40), "at most 10,000,000"),
        (("bimodal", "--seed", 2**32), "--seed must be from 0 to 4294967295"),
        (("bimodal", "--seed", 10**30), "--seed must be from 0 to 4294967295"),
        (("bimodal", "--seed", -1), "--seed must be from 0 to 4294967295"),
        (("bimodal", "--scale", "x" * 9000), "--scale must be one of"),
        (("linreg", "--data", "x.csv"), "--data applies to"),
        (("hmm", "--data", "missing.json"), "cannot read"),
    ],
)
def test_bad_options(tmp_path, arguments, message):
    result = run(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
    assert_one_line(result)


@pytest.mark.parametrize("command", [("reproduce", "bimodal"), ("demo",)])
def test_an_out_that_cannot_be_written_is_named(tmp_path, monkeypatch, command):
    (tmp_path / "file").write_text("")
    blocked = tmp_path / "file" / "folder"
    result = RUN.invoke(app, [*command, "--out", str(blocked)])
    assert result.exit_code == 2
    assert f"cannot write to {blocked}: Not a directory. Choose another --out" in result.stderr
    assert_one_line(result)

    def refuse(*arguments):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(_files, "_write_new", refuse)  # a test may run as root, who may do all
    result = RUN.invoke(app, [*command, "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert f"cannot write to {tmp_path}: Permission denied. Choose another" in result.stderr
    assert_one_line(result)


def test_a_huge_seed_of_the_demo(tmp_path):
    result = RUN.invoke(app, ["demo", "--out", str(tmp_path), "--seed", str(10**30)])
    assert result.exit_code == 2
    assert "--seed must be from 0 to 4294967295" in result.stderr
    assert_one_line(result)
