"""References for posteriors without draws, on a small database whose posteriors are exact."""

import json
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from typer.testing import CliRunner

import aide
from aide._core.algorithm import Aside
from aide.adapters.numpyro.posterior import NumpyroPosterior
from aide.adapters.posteriordb import load_draws
from aide.cli import app
from aide.gold_standards.record import Agreement, Record
from aide.gold_standards.result import GoldStandard, Making
from aide.scorecard import long_runs, read_references, references
from aide.scorecard.long_runs import compare_with_nuts
from aide.scorecard.making import posterior_of
from aide.scorecard.moments import MeanAndSd

Z_MAX = 5.0
SUCCESSES, TRIALS = 5, 12
NAME, UNKNOWN = "coins-Rate_1_model", "coins-unheard_of"
NUM = 2000


def gold_of(shift=0.0, looseness=0.0):
    """The exact posterior, Beta on the scale of logits, or one that is shifted."""
    to_logits = dist.transforms.SigmoidTransform().inv
    beta = dist.Beta(SUCCESSES + 1.0, TRIALS - SUCCESSES + 1.0)
    exact = dist.TransformedDistribution(
        beta.expand([1]).to_event(1), [to_logits, dist.transforms.AffineTransform(shift, 1.0)]
    )
    agreement = Agreement("itself", 0.0, 0.01, 0.05, "passed")
    evidence = float(-np.log(TRIALS + 1.0)), 0.01
    record = Record("exact", 0.05, (), (looseness, 0.001), evidence, 0.0, agreements=(agreement,))
    return GoldStandard(aide.Tractable.of(exact), Aside(Making(record, None)))


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    folder = tmp_path_factory.mktemp("database")
    (folder / "posteriors").mkdir()
    (folder / "data" / "data").mkdir(parents=True)
    data = {"k": SUCCESSES, "n": TRIALS}
    (folder / "data" / "data" / "coins.json").write_text(json.dumps(data))
    for name in (NAME, UNKNOWN):
        about = {"name": name, "data_name": "coins", "model_name": name.partition("-")[2]}
        about |= {"reference_posterior_name": None}
        (folder / "posteriors" / f"{name}.json").write_text(json.dumps(about))
    return folder


def make(database, out, golds, **options):
    """Make references where gold standards come from a list."""
    left = list(golds)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as threads:
        patch.setattr(NumpyroPosterior, "gold", lambda self, key, **given: left.pop(0))
        found = references(
            database, out, num_draws=NUM, executor=threads, progress=False, **options
        )
    return found, left


@pytest.fixture(scope="module")
def made(database, tmp_path_factory):
    out = tmp_path_factory.mktemp("made")
    return out, make(database, out, [gold_of(looseness=1.0), gold_of()])[0]


def test_a_reference_is_exact(made):
    [row] = made[1].made
    [theta] = row["variables"]
    a, b = SUCCESSES + 1.0, TRIALS - SUCCESSES + 1.0
    mean, sd = a / (a + b), (a * b / (a + b + 1)) ** 0.5 / (a + b)
    assert abs(theta["mean"] - mean) < Z_MAX * theta["mean_error"]
    assert abs(theta["sd"] - sd) < Z_MAX * theta["sd_error"]
    assert theta["mean_error"] < 1.3 * sd / NUM**0.5
    assert load_draws(made[0], NAME)["theta"].shape == (10, NUM // 10)


def test_a_wrong_gold_standard_would_be_seen(database, tmp_path):
    """Control: a gold standard that is shifted by half a standard deviation."""
    [row] = make(database, tmp_path, [gold_of(0.3)], only=NAME)[0].made
    [theta] = row["variables"]
    assert abs(theta["mean"] - 6 / 14) > 2 * Z_MAX * theta["mean_error"]


def test_a_flagged_gold_standard_is_made_again(made):
    [row] = made[1].made
    assert row["num_attempts"] == 2
    assert row["shown"] == ["agrees with itself (0.000 ± 0.010 nats)"]
    place = made[0] / "reference_posteriors" / "draws" / "info" / f"{NAME}.info.json"
    facts = json.loads(place.read_text())
    assert (facts["num_attempts"], facts["seed"]) == (2, 0)
    assert facts["machine"]["cores"] >= 1
    assert not facts["checks_made"]["ndraws_is_10k"]
    assert abs(facts["diagnostics"]["mean_lag1_ac"][0]) < Z_MAX / NUM**0.5


def test_what_cannot_be_done_has_its_reason(database, made, tmp_path):
    [row] = made[1].failed
    assert row["reason"] == "There is no NumPyro model of the Stan program unheard_of."
    [row] = make(database, tmp_path, [gold_of(looseness=1.0)] * 3, only=NAME)[0].failed
    assert row["reason"].startswith("Its gold standard is flagged: its looseness is 1.0")
    assert not (tmp_path / "reference_posteriors").exists()


def test_finished_rows_are_not_made_again(database, made):
    found, left = make(database, made[0], [gold_of()])
    assert len(left) == 1
    assert found.cells == made[1].cells


def test_a_process_that_dies_costs_its_posterior_only(database, tmp_path):
    class Dying(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            future = Future()
            future.set_exception(BrokenProcessPool("the process ended"))
            return future

    with Dying(1) as threads:
        found = references(database, tmp_path, executor=threads, progress=False)
    assert [row["name"] for row in found.failed] == [NAME, UNKNOWN]
    assert found.failed[0]["reason"].startswith("The process that ran this posterior ended")


def test_the_result_is_shown(made):
    found = read_references(made[0])
    assert found.headline == (
        "References made: 1. Posteriors without one: 1. Compared with NUTS: 0."
    )
    assert max(map(len, found._page().text(80).splitlines())) <= 80
    assert f"{UNKNOWN}: There is no NumPyro model" in found.notes[0]
    assert [one["posterior"] for one in found.records()] == [NAME, UNKNOWN]
    assert found.plot() is not None


def test_mistakes(database, tmp_path):
    with pytest.raises(ValueError, match="no posterior without reference draws that fits x"):
        references(database, tmp_path, only="x")
    words = ["references", str(tmp_path), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "Pass the folder posterior_database" in " ".join(done.output.split())


@pytest.mark.full
@pytest.mark.parametrize(("shift", "agrees"), [(0.0, True), (0.3, False)])
def test_nuts_finds_a_wrong_reference_and_no_other(database, monkeypatch, shift, agrees):
    monkeypatch.setattr(long_runs, "NUM_DRAWS", 1000)
    monkeypatch.setattr(long_runs, "NUM_WARMUP", 300)
    keys = jax.random.split(jax.random.key(1), NUM)
    logits = np.asarray(jax.vmap(lambda key: gold_of(shift).simulate(key).value)(keys))
    theta = 1 / (1 + np.exp(-logits[:, 0].astype(float)))
    post = posterior_of(database, NAME)
    found = compare_with_nuts(jax.random.key(2), post, {"theta": theta.reshape(10, -1)})
    assert found["agrees"] == agrees
    assert found["is_different"] != agrees
    assert found["worst"] == "theta"


def test_moments_have_their_errors():
    """Over many sets of draws, means and sds scatter by the errors that they state."""
    rng = np.random.default_rng(0)
    found = [MeanAndSd.of(rng.gamma(2.0, 1.0, (4, 250))) for _ in range(300)]
    means, sds = ([getattr(one, name) for one in found] for name in ("mean", "sd"))
    assert abs(np.std(means) / np.mean([one.mean_error for one in found]) - 1) < 0.2
    assert abs(np.std(sds) / np.mean([one.sd_error for one in found]) - 1) < 0.25
    truth = MeanAndSd(2.0, 0.0, 2**0.5, 0.0)
    assert np.mean([one.largest_z(truth) < 2 for one in found]) > 0.85
