"""The card on a small database whose reference draws are exact: rows, reasons, going on."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from aide.adapters.numpyro.posterior import posterior as numpyro_posterior
from aide.cli import app
from aide.engine.programs.map_runs import map_runs
from aide.scorecard import ALGORITHMS, algorithms, read_scorecard, scorecard
from aide.scorecard.models import MODELS
from aide.scorecard.pairs import key_of, load_case
from aide.scorecard.run import parts_of, shares_of
from aide.scorecard.task import PosteriorTask, run_task

NAME = "kidiq-kidscore_mom_work"
NUM_CHAINS, NUM_DRAWS = 2, 500


def exact_draws(rng, outcome, design):
    """Exact draws of a regression with flat priors: SSE / sigma² is chi² with n - k - 1 degrees."""
    num, size = design.shape
    inverse = np.linalg.inv(design.T @ design)
    centre = inverse @ design.T @ outcome
    squares = np.sum((outcome - design @ centre) ** 2)
    shape = (NUM_CHAINS, NUM_DRAWS)
    sigma = np.sqrt(squares / rng.chisquare(num - size - 1, shape))
    unit = rng.normal(size=(*shape, size)) @ np.linalg.cholesky(inverse).T
    return centre + sigma[..., None] * unit, sigma


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("database"), np.random.default_rng(0)
    work = rng.integers(1, 5, 40)
    data = {"N": 40, "kid_score": rng.normal(2.0 + 0.3 * work, 0.8).tolist()}
    data["mom_work"] = work.tolist()
    design = np.column_stack([np.ones(40), *(work == level for level in (2, 3, 4))])
    beta, sigma = exact_draws(rng, np.array(data["kid_score"]), design)
    chains = [
        {**{f"beta[{i + 1}]": beta[c, :, i].tolist() for i in range(4)}, "sigma": sigma[c].tolist()}
        for c in range(NUM_CHAINS)
    ]
    (folder / "kidiq.data.json").write_text(json.dumps(data))
    (folder / f"{NAME}.draws.json").write_text(json.dumps(chains))
    (folder / "kidiq.data.json").write_text(json.dumps(data))
    (folder / "kidiq-unheard_of.draws.json").write_text(json.dumps(chains))
    return folder


SMALL: dict[str, Any] = {"num_runs": 200, "progress": False}


def failing(post, key):
    raise RuntimeError("this algorithm always fails")


@pytest.fixture(autouse=True, scope="module")
def in_this_process():
    """Executors run rows in this process, where algorithms can be replaced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aide.scorecard.run.guard", run_task)
        yield


@pytest.fixture(scope="module")
def card(database):
    out, chosen = database / "card", ("Laplace", "Pathfinder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ALGORITHMS, "Pathfinder", failing)
        with ThreadPoolExecutor(1) as threads:
            return out, scorecard(database, out, algorithms=chosen, executor=threads, **SMALL)


def row(card, posterior, algorithm):
    [found] = [
        one for one in card.cells if (one["posterior"], one["algorithm"]) == (posterior, algorithm)
    ]
    return found


def test_a_row_has_numbers(card):
    found = row(card[1], NAME, "Laplace")
    assert found["dimension"] == 5
    assert 0 < found["value"] < 1.0  # the posterior of sigma is skewed: not 0
    assert found["verdict"] in ("passed", "failed", "undecided")
    assert found["reference_ess"] > 500
    assert found["num_gradients"] > 10
    assert found["versions"]["jax"]
    assert found["because"].startswith("the largest error of a mean is ")
    assert found["worst_mean_low"] <= found["worst_mean"] <= found["worst_mean_high"]
    assert found["worst_interval_of"] in ("beta[0]", "beta[1]", "beta[2]", "beta[3]", "sigma")
    assert found["rhat"] is None  # there is no chain
    assert 0 < found["seconds_fit_compile"] < found["seconds_fit"]
    np.testing.assert_array_equal(
        [int(number) for number in found["key"].split()],
        jax.random.key_data(key_of(0, NAME, "Laplace")),
    )


def test_what_fails_is_a_row_with_its_reason(card):
    assert row(card[1], NAME, "Pathfinder")["reason"].endswith("this algorithm always fails")
    for algorithm in ("Laplace", "Pathfinder"):
        reason = row(card[1], "kidiq-unheard_of", algorithm)["reason"]
        assert reason == "There is no NumPyro model of the Stan program unheard_of."
    assert len(card[1].failed) == 3


def test_finished_rows_are_not_run_again(card, database):
    out, first = card
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ALGORITHMS, "Laplace", failing)
        with ThreadPoolExecutor(1) as threads:
            again = scorecard(database, out, algorithms=("Laplace",), executor=threads, **SMALL)
    assert again.cells == first.cells


def test_rows_with_a_reason_are_run_again_on_request(card, database, tmp_path):
    out = tmp_path / "card"
    shutil.copytree(card[0], out)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as threads:
        patch.setitem(ALGORITHMS, "Pathfinder", lambda post, key: 1 / 0)
        chosen: dict[str, Any] = {"only": NAME, "algorithms": ("Laplace", "Pathfinder")}
        again = scorecard(database, out, retry=True, executor=threads, **chosen, **SMALL)
    assert row(again, NAME, "Pathfinder")["reason"] == "ZeroDivisionError: division by zero"
    assert row(again, NAME, "Laplace") == row(card[1], NAME, "Laplace")


def test_cores_are_shared_evenly():
    assert shares_of(range(16), 16) == [(core,) for core in range(16)]
    assert shares_of(range(5), 2) == [(0, 1), (2, 3, 4)]
    assert shares_of([3], 2) == [(3,), (3,)]
    assert shares_of([], 2) == [(), ()]


def test_few_posteriors_fill_all_workers(tmp_path):
    rows = tuple("abcdefgh")
    tasks = [PosteriorTask("", str(tmp_path), name, rows, 0, 100, 1.0, 1.0, 1.0) for name in "xyz"]
    two = parts_of(tasks, 2)
    assert [one.name for one in two] == list("xyzxyzxyz")
    assert two[0].algorithms == tuple("fgh")  # the longest rows come first
    assert sorted("".join(one.algorithms) for one in two if one.name == "y") == ["ab", "cde", "fgh"]
    assert len(parts_of(tasks, 16)) == 24
    assert parts_of(tasks, 1) == tasks


def test_a_process_that_dies_costs_its_posterior_only(database, tmp_path):
    class Dying(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            if args[0].name == NAME:
                return super().submit(fn, *args, **kwargs)
            future = Future()
            future.set_exception(BrokenProcessPool("the process ended"))
            return future

    with Dying(1) as threads:
        found = scorecard(
            database, tmp_path / "card", algorithms=("Laplace",), executor=threads, **SMALL
        )
    assert "value" in row(found, NAME, "Laplace")
    assert (
        "The worker of this posterior ended" in row(found, "kidiq-unheard_of", "Laplace")["reason"]
    )


def test_same_seed_same_row(card, database, tmp_path):
    out = tmp_path / "card"
    with ThreadPoolExecutor(1) as threads:
        again = scorecard(
            database, out, only=NAME, algorithms=("Laplace",), executor=threads, **SMALL
        )
    first = row(card[1], NAME, "Laplace")["value"]
    np.testing.assert_allclose(row(again, NAME, "Laplace")["value"], first, rtol=1e-9)


def test_the_card_is_shown(card):
    found = read_scorecard(card[0])
    assert "Rows measured: 1. Rows without a number: 3." in found.headline
    assert max(map(len, found._page().text(80).splitlines())) <= 80
    assert found.markdown().count("\n") == 2 + len(found.cells)
    assert {one["posterior"] for one in found.records()} == {NAME, "kidiq-unheard_of"}
    assert found.plot() is not None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"only": "nothing*"}, "no posterior with reference draws"),
        ({"algorithms": ("Laplas",)}, "algorithms must be among Laplace"),
        ({"seed": 1}, "holds a card with other settings"),
        ({"num_runs": 10}, "num_runs"),
        ({"max_row_seconds": 0.0}, "max_row_seconds"),
    ],
)
def test_mistakes(card, database, options, words):
    with pytest.raises(ValueError, match=words):
        scorecard(database, card[0], **{**SMALL, **options})


def test_wrong_draws_are_refused(database, tmp_path):
    """Control: reference draws of other data do not get a row."""
    chains = json.loads((database / f"{NAME}.draws.json").read_text())
    for chain in chains:
        chain["sigma"] = (np.array(chain["sigma"]) * 1.5).tolist()
    (tmp_path / f"{NAME}.draws.json").write_text(json.dumps(chains))
    (tmp_path / "kidiq.data.json").write_bytes((database / "kidiq.data.json").read_bytes())
    with pytest.raises(ValueError, match="reference draws do not fit"):
        load_case(tmp_path, NAME)


@pytest.mark.parametrize("name", ["SMC, 10 particles", "AIS, 30 temperatures"])
def test_samplers_can_be_built_where_scales_differ(database, name):
    """A metric from an inverse is symmetric only after its rounding is taken away."""
    case = load_case(database, NAME)
    with jax.enable_x64(True):
        ready = ALGORITHMS[name](case.posterior, key_of(0, "build"))
    assert (ready.num_gradients or 0) > 0


def test_samplers_start_where_there_is_no_laplace_approximation(database, monkeypatch):
    """A log joint that grows without limit has no mode, but a sampler can begin somewhere."""
    case = load_case(database, NAME)
    post = case.posterior
    monkeypatch.setattr(type(post), "log_joint", lambda self, x: 0.5 * x @ x)
    with jax.enable_x64(True):
        start, mode = algorithms._start(post, key_of(0, "start"))
        with pytest.raises(algorithms.NoLaplace, match="not curved downwards"):
            ALGORITHMS["Laplace"](post, key_of(0, "start"))
    np.testing.assert_array_equal(mode.covariance, np.eye(5))
    draws = jax.vmap(lambda key: start.simulate(key).value)(jax.random.split(key_of(0), 2000))
    np.testing.assert_allclose(np.std(draws, axis=0), algorithms.WIDENED, rtol=0.1)
    assert mode.num_gradients > 0


def test_keys_belong_to_names():
    one, same, other = (key_of(0, *names) for names in (("a", "b"), ("a", "b"), ("a", "c")))
    assert one == same
    assert one != other


def test_every_program_has_a_model_once():
    assert len(MODELS) == 72
    assert all(callable(model.model) and callable(model.arguments) for model in MODELS.values())


@pytest.mark.full
def test_all_algorithms_and_the_command(database, tmp_path):
    words = ["scorecard", str(database), "--only", NAME, "--out", str(tmp_path / "card")]
    done = CliRunner().invoke(app, [*words, "--num-runs", "200"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = read_scorecard(tmp_path / "card")
    assert not found.failed
    assert row(found, NAME, "gold standard")["verdict"] != "failed"
    assert row(found, NAME, "mean field")["value"] > row(found, NAME, "full rank")["value"]
    assert (tmp_path / "card" / "card.md").exists()


CALL = """
import sys
from aide.scorecard import scorecard
folder, out, only = sys.argv[1:]
scorecard(folder, out, only=only, algorithms=("Laplace", "mean field"), num_runs=200)
"""


@pytest.mark.full
def test_a_killed_call_goes_on(database, tmp_path):
    """Law: SIGKILL between two rows keeps the first, ends all processes; the call goes on."""
    out = tmp_path / "card"
    command = [sys.executable, "-c", CALL, str(database), str(out), NAME]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    call = subprocess.Popen(command, env=environment)
    first, second = (out / NAME / f"{n}.json" for n in ("Laplace", "mean-field"))
    while not first.exists():
        assert call.poll() is None
        time.sleep(0.05)
    call.send_signal(signal.SIGKILL)
    call.wait()
    before = first.stat().st_mtime_ns, first.read_bytes()
    time.sleep(10.0)
    assert not second.exists()  # the process of the posterior ended with its parent
    subprocess.run(command, env=environment, check=True, timeout=300)
    assert (first.stat().st_mtime_ns, first.read_bytes()) == before
    assert "value" in json.loads(second.read_text())


def test_log_joints_of_many_draws_are_those_of_one():
    """JAX 0.11.2 loses the normalising constants of this density from 4,096 runs at a time on."""
    model, rng = MODELS["lotka_volterra"], np.random.default_rng(0)
    data = {
        "N": 20,
        "ts": np.arange(1.0, 21.0),
        "y_init": np.array([30.0, 4.0]),
        "y": rng.lognormal(3.0, 0.5, (20, 2)),
    }
    post = numpyro_posterior(model.model, *model.arguments(data))
    centre = np.array([-0.6, -3.6, -0.2, -3.7, 3.5, 1.8, -1.5, -1.5])
    draws = centre + 0.1 * rng.normal(size=(40_960, 8))
    found = map_runs(_log_joint, post, jax.random.key(0), (draws,), what="a log joint")
    with jax.enable_x64(True):
        few = jax.jit(jax.vmap(post.log_joint))(draws[-16:])
    np.testing.assert_allclose(found[-16:], few, rtol=1e-9)


def _log_joint(post, key, x):
    return post.log_joint(x)
