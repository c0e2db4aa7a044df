"""A folder of results continues what it began, and nothing else."""

import json

import pytest
from support.tiny_experiment import tiny
from typer.testing import CliRunner

from aide.cli import app
from aide.experiments import command
from aide.experiments.runner import Folder, Options

HMM = {
    "initial": [0.5, 0.5],
    "transition": [[0.9, 0.1], [0.2, 0.8]],
    "emission": [[0.7, 0.3], [0.4, 0.6]],
    "observations": [0, 1, 1],
}
CONTENTS = {
    "hmm": (json.dumps(HMM), json.dumps({**HMM, "observations": [0, 1, 0]})),
    "dpmm": ("1.0\n2.0\n4.0\n", "1.0\n2.0\n5.0\n"),
    "galaxy": ("1.0\n2.0\n4.0\n", "1.0\n2.0\n5.0\n"),
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setitem(command.EXPERIMENTS, "tiny", lambda options: tiny(options, 0.0))
    monkeypatch.setattr(command, "TAKES_DATA", (*command.TAKES_DATA, "tiny"))

    def run(name, *arguments):
        words = ["reproduce", name, "--out", str(tmp_path), *map(str, arguments)]
        return CliRunner().invoke(app, words)

    return run


def assert_refused(result, *messages):
    assert result.exit_code == 2, result.output
    for message in messages:
        assert message in result.stderr
    assert "Choose another --out, or delete it." in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("name", CONTENTS)
def test_changed_data_are_refused_by_name(tmp_path, run, name):
    """The folder is as if the first call had been killed before its first result."""
    path = tmp_path / "data.txt"
    before, after = CONTENTS[name]
    path.write_text(before)
    options = Options("smoke", 0, tmp_path, data=path)
    experiment = command.EXPERIMENTS[name](options)
    Folder(tmp_path / name, 0, experiment.settings, experiment.data)
    path.write_text(after)
    result = run(name, "--scale", "smoke", "--data", path)
    assert_refused(result, "results of other data", f"the content of {path} has changed since")


def test_the_same_data_elsewhere_continue(tmp_path, run):
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("1.0\n2.0\n")
    two.write_text("value\n1\n2\n\n")
    assert run("tiny", "--data", one).exit_code == 0
    results = (tmp_path / "tiny" / "results.csv").read_bytes()
    assert run("tiny", "--data", two).exit_code == 0
    assert (tmp_path / "tiny" / "results.csv").read_bytes() == results
    one.write_text("1.0\n3.0\n")
    assert_refused(run("tiny", "--data", one), f"they are of {two}, and {one} holds other numbers")
    assert_refused(run("tiny"), "and no data holds other numbers")


def test_other_settings_do_not_mix(tmp_path, run):
    assert run("tiny").exit_code == 0
    assert_refused(run("tiny", "--seed", 1), "holds results of other settings (seed 0")
    assert_refused(run("tiny", "--num-runs", 7), "holds results of other settings")
    info = tmp_path / "tiny" / "info.json"
    content = json.loads(info.read_text())
    content["versions"]["aide-inference"] = "0.0.1"
    info.write_text(json.dumps(content))
    assert_refused(run("tiny"), "holds results of aide 0.0.1, and this is")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("info.json", None, "results.csv has no info.json beside it"),
        ("info.json", b"{", "info.json is not JSON"),
        ("info.json", b"\xff", "info.json is not JSON"),
        ("info.json", b'{"seed": 0}', "info.json lacks facts that this version needs"),
        ("info.json", b"[]", "info.json lacks facts that this version needs"),
        ("results.csv", b"a,b\n1,2\n", "results.csv is not what aide reproduce wrote"),
        ("results.csv", b"\xff", "results.csv is not what aide reproduce wrote"),
    ],
)
def test_a_foreign_file_is_named(tmp_path, run, name, content, message):
    assert run("tiny").exit_code == 0
    path = tmp_path / "tiny" / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert_refused(run("tiny"), message)
