"""Draws by name as gold standards: posteriordb's eight schools, and what is wrong with them.

The score identity finds draws and densities that do not belong together; every fault is injected.
"""

import json
from pathlib import Path

import jax
import numpy as np
import numpyro
import pytest
from numpyro.infer import MCMC, NUTS
from support.numpyro_schools import DATA, EFFECTS, ERRORS, centred, noncentred

import aide

FOLDER = Path(__file__).parent / "data"
NAME = "eight_schools-eight_schools_noncentered"


@pytest.fixture(scope="module")
def entry():
    return aide.posteriordb.load(FOLDER, NAME)


@pytest.fixture(scope="module")
def post():
    return aide.numpyro.posterior(centred, **DATA)


@pytest.fixture(scope="module")
def gold(post, entry):
    return post.from_draws(entry.draws)


def test_a_folder_of_posteriordb(entry):
    assert aide.posteriordb.list_names(FOLDER) == [NAME]
    np.testing.assert_array_equal(entry.data["y"], EFFECTS)
    np.testing.assert_array_equal(entry.data["sigma"], ERRORS)
    assert entry.data["J"] == 8
    assert {name: array.shape for name, array in entry.draws.items()} == {
        "theta": (10, 1000, 8),
        "mu": (10, 1000),
        "tau": (10, 1000),
    }
    assert entry.draws["theta"][:, :, 0].mean() > entry.draws["theta"][:, :, 2].mean()
    with pytest.raises(
        ValueError, match="no reference draws of 'eight_schools-other'.*noncentered"
    ):
        aide.posteriordb.load(FOLDER, "eight_schools-other")


def test_the_layout_of_the_database_itself(tmp_path, entry):
    """Folders within folders, and names that a file gives."""
    places = {
        "posteriors": ("mine-model.json", {"data_name": "mine", "reference_posterior_name": "r"}),
        "data/data": ("mine.json", {"N": 2, "X": [[1, 2], [3, 4]]}),
        "reference_posteriors/draws/draws": (
            "r.json",
            [
                {
                    "L[1,1]": [1.0, 5.0],
                    "L[2,1]": [2.0, 6.0],
                    "L[1,2]": [3.0, 7.0],
                    "L[2,2]": [4.0, 8.0],
                }
            ],
        ),
    }
    for folder, (file, content) in places.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / file).write_text(json.dumps(content))
    found = aide.posteriordb.load(tmp_path, "mine-model")
    np.testing.assert_array_equal(found.data["X"], [[1, 2], [3, 4]])
    np.testing.assert_array_equal(found.draws["L"][0, 0], [[1.0, 3.0], [2.0, 4.0]])


def test_reference_draws_are_those_of_the_posterior(gold, entry):
    """The score identity is tested on the way; rows are in the order of the posterior."""
    assert gold.label == "10,000 draws"
    rows = np.asarray(gold.draws)
    assert rows.shape == (10, 1000, 10)
    np.testing.assert_allclose(rows[:, :, 0], np.log(entry.draws["tau"]))
    np.testing.assert_array_equal(rows[:, :, 2:], entry.draws["theta"])


@pytest.mark.parametrize("fault", ["data", "sign", "Jacobian"])
def test_what_does_not_belong_together_is_found(post, entry, fault):
    draws = {name: array[:4] for name, array in entry.draws.items()}
    if fault == "data":  # non-centred: gradients in theta have no variance, as tau may be small
        unit = (draws["theta"] - draws["mu"][..., None]) / draws["tau"][..., None]
        draws = {"tau": draws["tau"], "mu": draws["mu"], "unit": unit}
        other = aide.numpyro.posterior(noncentred, ERRORS, EFFECTS + 10.0)
        with pytest.raises(ValueError, match="not draws from noncentred.*mu.* not balanced"):
            other.from_draws(draws)
        return
    rows = post.flatten(draws)
    wrong = {
        "sign": lambda x: -post.log_joint(x),
        "Jacobian": lambda x: post.log_joint(x) - post.log_jacobian(x),
    }
    found = aide.ReferenceDraws(rows, wrong[fault], has_chains=True)
    assert not found.score_check().passed


def test_every_fault_of_draws_is_named(post, entry):
    draws = {name: array[0, :5] for name, array in entry.draws.items()}
    faults = {
        "no mu": {name: draws[name] for name in ("tau", "theta")},
        "there is eta": draws | {"eta": draws["mu"]},
        r"draws of theta must have the shape .*got \(5, 7\)": draws | {"theta": np.zeros((5, 7))},
        r"there are \(5,\) draws of tau, but \(4,\) of mu": draws | {"mu": draws["mu"][:4]},
        "5 of 5 draws of tau are outside its support .positive": draws | {"tau": -draws["tau"]},
        "draws of mu must be real numbers": draws | {"mu": np.array(["a"] * 5)},
        "the arrays hold no draws": {name: array[:0] for name, array in draws.items()},
    }
    for message, wrong in faults.items():
        with pytest.raises(ValueError if "real" not in message else TypeError, match=message):
            post.from_draws(wrong)
    on_log_scale = {**draws, "tau": np.log(draws["tau"]) - 3.0}  # the wrong space
    with pytest.raises(ValueError, match="on the scale of the model, not transformed"):
        post.from_draws(on_log_scale)


@pytest.mark.full
def test_numpyro_runs_are_reference_draws(post):
    """Deterministic sites are left out; the kernel gives the name."""

    def model(errors, effects):
        centred(errors, effects)
        numpyro.deterministic("twice", 2.0)

    other = aide.numpyro.posterior(model, **DATA)
    mcmc = MCMC(NUTS(model), num_warmup=500, num_samples=500, num_chains=2, progress_bar=False,
                chain_method="sequential")  # fmt: skip
    mcmc.run(jax.random.key(0), **DATA)
    found = other.from_mcmc(mcmc, check_score=False)
    assert found.label == "1,000 NUTS draws"
    assert np.asarray(found.draws).shape == (2, 500, 10)
    tau = mcmc.get_samples(group_by_chain=True)["tau"]
    np.testing.assert_allclose(np.asarray(found.draws)[:, :, 0], np.log(np.float64(tau)))
