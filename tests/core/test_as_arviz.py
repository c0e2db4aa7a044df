"""R-hat, effective sample sizes and tail shapes are those of ArviZ, where it is installed."""

import warnings
from importlib import import_module

import numpy as np
import pytest

from aide._core.chains import mean_variance, split_rhat
from aide.estimation.interval import importance_shape

pytestmark = pytest.mark.full  # importing ArviZ takes longer than all tests together


@pytest.fixture(scope="module")
def arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its next version at every import
        return import_module("arviz")


def chains_of(kind):
    rng = np.random.default_rng(0)
    if kind == "heavy tails":
        return rng.standard_t(2, size=(4, 500))
    chains = rng.normal(size=(4, 1000))
    for step in range(1, 1000 if kind == "slow" else 0):
        chains[:, step] += 0.9 * chains[:, step - 1]
    return chains + np.array([[kind == "apart"], [0.0], [0.0], [0.0]])


@pytest.mark.parametrize("kind", ["independent", "slow", "heavy tails", "apart"])
def test_rhat_is_that_of_arviz(arviz, kind):
    chains = chains_of(kind)
    found = split_rhat(list(chains))
    assert found == pytest.approx(float(arviz.rhat(chains, method="rank")), rel=1e-9)
    assert (found > 1.05) == (kind == "apart")


@pytest.mark.parametrize("kind", ["independent", "slow", "heavy tails"])
def test_the_effective_size_is_that_of_arviz_where_chains_agree(arviz, kind):
    """Two ways to end the same sum: 2 to 5% apart."""
    chains = chains_of(kind)
    found = mean_variance(list(chains)).effective
    assert found == pytest.approx(float(arviz.ess(chains, method="mean")), rel=0.08)


def test_the_effective_size_is_smaller_where_chains_disagree(arviz):
    """The distance between chains counts at every lag: an interval must allow for it."""
    chains = chains_of("apart")
    found = mean_variance(list(chains)).effective
    assert found < 0.6 * float(arviz.ess(chains, method="mean"))


@pytest.mark.parametrize("freedom", [2, 4, 30])
def test_the_shape_of_weights_is_that_of_arviz(arviz, freedom):
    if not hasattr(arviz, "psislw"):
        pytest.skip("this ArviZ smooths weights under another name")
    rng = np.random.default_rng(freedom)
    log_weights = np.log(np.abs(rng.standard_t(freedom, size=2000)))
    expected = float(arviz.psislw(log_weights)[1])
    assert importance_shape(log_weights) == pytest.approx(expected, abs=1e-9)
    assert importance_shape(2 * log_weights) > expected + 0.1  # the control: heavier tails
