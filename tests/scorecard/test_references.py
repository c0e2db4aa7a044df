"""References in the format of posteriordb: they are read again, and are as exact as the gold."""

import json
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import aide
from aide._core.algorithm import Aside
from aide.gold_standards.record import Agreement, Record
from aide.gold_standards.result import GoldStandard, Making
from aide.scorecard import write_reference

NUM = 4000
Z_MAX = 5.0
NAME = "thermometers-normal"


def model(y=None):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(mean, 1.0).to_event(1), obs=y)


def gold_of(posterior, shift=0.0, **facts):
    """The exact posterior N(y/2, 1/2), or one that is shifted, as a gold standard with a record."""
    exact = dist.Normal(jnp.array([1.0, -0.5]) + shift, 0.5**0.5).to_event(1)
    agreement = Agreement("itself", 0.0, 0.01, 0.05, "passed")
    known: dict[str, Any] = {
        "looseness": (0.0, 0.001),
        "log_evidence": (-3.0, 0.01),
        "scatter": 0.0,
    } | facts
    record = Record("exact", 0.05, (("kernel", "none"),), agreements=(agreement,), **known)
    return GoldStandard(aide.Tractable.of(exact), Aside(Making(record, None)))


@pytest.fixture(scope="module")
def posterior():
    return aide.numpyro.posterior(model, y=np.array([2.0, -1.0]))


@pytest.fixture(scope="module")
def written(posterior, tmp_path_factory):
    folder = tmp_path_factory.mktemp("database")
    facts = write_reference(0, posterior, gold_of(posterior), folder, NAME, num_draws=NUM)
    (folder / "data" / "data").mkdir(parents=True)
    (folder / "data" / "data" / "thermometers.json").write_text('{"y": [2.0, -1.0]}')
    return folder, facts


def z_of(draws):
    found = np.asarray(draws["mean"]).reshape(-1, 2)
    return np.max(np.abs(found.mean(axis=0) - [1.0, -0.5]) / (0.5**0.5 / len(found) ** 0.5))


def test_draws_are_read_again_and_exact(written):
    entry = aide.posteriordb.load(written[0], NAME)
    assert entry.draws["mean"].shape == (10, NUM // 10, 2)
    assert z_of(entry.draws) < Z_MAX


def test_a_wrong_gold_standard_would_be_seen(posterior, tmp_path):
    """Control: draws that are shifted by a quarter of a standard deviation."""
    write_reference(0, posterior, gold_of(posterior, 0.18), tmp_path, NAME, num_draws=NUM)
    (tmp_path / "data" / "data").mkdir(parents=True)
    (tmp_path / "data" / "data" / "thermometers.json").write_text('{"y": [2.0, -1.0]}')
    assert z_of(aide.posteriordb.load(tmp_path, NAME).draws) > 2 * Z_MAX


def test_summaries_have_their_errors(written):
    place = written[0] / "reference_posteriors" / "summary_statistics"
    for kind, truth in (("mean_value", (1.0, -0.5)), ("mean_squared_value", (1.5, 0.75))):
        found = json.loads((place / kind / kind / f"{NAME}.json").read_text())
        assert found["names"] == ["mean[1]", "mean[2]"]
        z = (np.array(found[kind]) - truth) / found["mcse_mean"]
        assert np.max(np.abs(z)) < Z_MAX


def test_facts_say_what_was_shown(written):
    place = written[0] / "reference_posteriors" / "draws" / "info" / f"{NAME}.info.json"
    facts = json.loads(place.read_text())
    assert facts["inference"]["method"] == "aide.gold_standard"
    assert facts["diagnostics"]["ndraws"] == NUM
    assert facts["checks_made"]["r_hat_below_1_01"]
    assert facts["comments"]["shown"] == ["agrees with itself (0.000 ± 0.010 nats)"]
    # E log N(y; x, 1) N(x; 0, 1): log evidence plus the mean log density of N(y/2, 1/2).
    log_evidence = -np.log(4 * np.pi) - (4.0 + 1.0) / 4
    exact = log_evidence - np.log(2 * np.pi * 0.5) - 1.0
    found = facts["diagnostics"]
    z = (found["mean_log_density"] - exact) / found["mcse_mean_log_density"]
    assert abs(z) < Z_MAX


def test_a_flagged_gold_standard_is_refused(posterior, tmp_path):
    flagged = gold_of(posterior, looseness=(1.0, 0.1))
    with pytest.raises(ValueError, match=r"flagged.*looseness is 1\.0"):
        write_reference(0, posterior, flagged, tmp_path, NAME, num_draws=NUM)
    assert not (tmp_path / "reference_posteriors").exists()
