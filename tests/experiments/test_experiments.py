"""Every experiment runs to its figure at the smallest scale; `test_figures` sees what it shows."""

import csv
import json
from functools import partial

import pytest
from typer.testing import CliRunner

from aide.cli import app
from aide.experiments import bimodal, dpmm, hmm, linreg
from aide.learned.refine import refine

NUM_ROWS = {"linreg": 6, "bimodal": 2, "hmm": 4, "dpmm": 2}
"""Of linreg: prior, posterior, SMC, MH, MH with learned meta-inference, variational."""
NAMES = ["bimodal", "linreg", "hmm", "dpmm"]
MODEL = {
    "initial": [0.5, 0.5],
    "transition": [[0.9, 0.1], [0.2, 0.8]],
    "emission": [[0.7, 0.3], [0.4, 0.6]],
    "observations": [0, 1, 1],
    "states": [0, 0, 1],
}


@pytest.fixture
def smallest(monkeypatch):
    sizes = {"steps": (1,), "iterations": (1,), "learned_runs": 20, "metas": (1,)}
    monkeypatch.setitem(linreg.SCALES, "smoke", {**linreg.SCALES["smoke"], **sizes})
    quickly = partial(refine, num_pilots=60, num_components=1)
    monkeypatch.setattr(linreg, "refine", quickly)
    monkeypatch.setattr(linreg, "NUM_REVERSE", 2)
    few = {"sweeps": (1,), "gold": 2}
    monkeypatch.setitem(dpmm.SCALES, "smoke", {**dpmm.SCALES["smoke"], **few})
    monkeypatch.setattr(bimodal, "SHOWN", {1: 1.0})
    monkeypatch.setattr(hmm, "GOLD_PARTICLES", 3)


@pytest.mark.usefixtures("smallest")
@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_writes_its_table_and_figure(tmp_path, name):
    size = ["--num-runs", "20", "--particles", "2", "--meta", "1"]
    words = ["reproduce", name, "--scale", "smoke", "--out", str(tmp_path), *size]
    if name == "hmm":
        (tmp_path / "model.json").write_text(json.dumps(MODEL))
        words += ["--data", str(tmp_path / "model.json")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    folder = tmp_path / name
    rows = list(csv.DictReader((folder / "results.csv").read_text().splitlines()))
    assert all(float(row["std_error"]) >= 0.0 for row in rows)
    assert {row["experiment"] for row in rows} == {name}
    assert len(rows) == NUM_ROWS[name]
    assert (folder / "figure.svg").read_text().lstrip().startswith("<?xml")
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((folder / "info.json").read_text())["seed"] == 0
