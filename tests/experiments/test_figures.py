"""`aide reproduce all --scale smoke`: every experiment runs and shows what the paper shows."""

import csv
import math

import pytest
from typer.testing import CliRunner

from aide.cli import app
from aide.engine.programs.programs import compile_quickly
from aide.experiments.linreg import true_mh_divergence
from aide.problems import LinearRegression

pytestmark = pytest.mark.full
COLUMNS = (
    "experiment,algorithm,proposal,num_particles,num_steps,num_sweeps,gold,num_meta_gold,"
    "num_meta_target,num_gold,num_target,value,std_error,gold_to_target,target_to_gold,meta"
).split(",")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("smoke")
    arguments = ["reproduce", "all", "--scale", "smoke", "--out", str(out)]
    with compile_quickly():
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    tables = {}
    for folder in out.iterdir():
        assert (folder / "figure.svg").stat().st_size > 0
        with (folder / "results.csv").open() as file:
            tables[folder.name] = list(csv.DictReader(file))
    return tables


def pick(rows, **cells):
    (row,) = [r for r in rows if all(r[k] == str(v) for k, v in cells.items())]
    return row


def mean(row, name="value", error="std_error"):
    return float(row[name]), float(row[error])


def test_all_experiments_write_their_tables(results):
    assert set(results) == {"linreg", "bimodal", "hmm", "dpmm", "galaxy"}
    for rows in results.values():
        assert set(COLUMNS) <= set(rows[0])


def test_linreg(results):
    rows = results["linreg"]
    value, error = mean(pick(rows, algorithm="prior"))
    assert abs(value - 8.1728) < 4 * error
    assert float(pick(rows, algorithm="posterior")["value"]) == 0.0
    smc = [pick(rows, algorithm="smc", num_particles=p, num_meta_target=10) for p in (1, 3, 10)]
    values = [mean(row) for row in smc]
    for (before, e1), (after, e2) in zip(values, values[1:], strict=False):
        assert after < before - 5 * math.hypot(e1, e2)


def test_learned_meta_inference_follows_the_truth(results):
    truth = true_mh_divergence(LinearRegression(), [1, 4])
    for steps, divergence in zip((1, 4), truth, strict=True):
        cells = {"algorithm": "mh", "num_steps": steps}
        value, error = mean(pick(results["linreg"], meta="learned", **cells))
        assert abs(value - divergence) < 0.05 + 4 * error
        loose, _ = mean(pick(results["linreg"], meta="canonical", num_meta_target=1, **cells))
        assert loose > divergence + 2.0


def test_bimodal_misses_a_mode(results):
    rows = results["bimodal"]
    offset = pick(rows, proposal="offset", num_particles=1000)
    broad = pick(rows, proposal="broad", num_particles=1000)
    value, error = mean(offset)
    assert value - 4 * error > 2.0
    evidence = [mean(row, "log_evidence", "log_evidence_std_error") for row in (broad, offset)]
    gap = evidence[0][0] - evidence[1][0]
    assert abs(gap + math.log(0.3)) < 4 * math.hypot(evidence[0][1], evidence[1][1]) + 0.1
    near_zero, error = mean(broad)
    assert abs(near_zero) < 0.1 + 4 * error


def test_one_particle_makes_meta_inference_needless(results):
    rows = [row for row in results["hmm"] if row["num_particles"] == "1"]
    for proposal in ("prior", "optimal"):
        for gold in ("exact", "approximate"):
            same = [r for r in rows if r["proposal"] == proposal and r["gold"] == gold]
            assert len(same) == 2
            assert float(same[0]["value"]) == pytest.approx(float(same[1]["value"]), rel=1e-12)


def test_cluster_count_is_blind_to_likelihood_weighting(results):
    row = pick(results["dpmm"], proposal="prior", num_sweeps=0, num_particles=1)
    value, error = mean(row)
    assert value - 4 * error > 20.0
    probe, error = mean(row, "probe", "probe_std_error")
    assert abs(probe) < 4 * error
    assert abs(probe) < 3.0
