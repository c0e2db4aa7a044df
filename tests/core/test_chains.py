"""Effective sample sizes, R-hat, and the order in which runs take stored draws."""

import numpy as np
import pytest
from support.chains import ar1

from aide._core.chains import Chains, autocovariances, mean_variance, split_rhat


def test_autocovariances_are_the_definition() -> None:
    """Against plain sums, chains of different lengths."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=7), rng.normal(size=5)]
    mean = np.concatenate(parts).mean()
    found = autocovariances(parts)
    for lag in range(7):
        pairs = [(p[: p.size - lag] - mean) @ (p[lag:] - mean) for p in parts if p.size > lag]
        assert found[lag] == pytest.approx(sum(pairs) / 12, abs=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_variance_of_the_mean_of_an_ar1_chain(rho: float) -> None:
    """Its true value is (1 + rho) / (1 - rho) / n; the naive one is off by that factor."""
    chains = ar1(np.random.default_rng(1), 4, 20_000, rho)[:, :, 0]
    found = mean_variance(list(chains))
    truth = (1 + rho) / (1 - rho) / chains.size
    assert found.variance == pytest.approx(truth, rel=0.15)
    assert found.effective == pytest.approx(chains.var() / truth, rel=0.15)


def test_chains_that_differ_count_as_few_draws() -> None:
    """Four chains about four centres are worth about as many draws as there are chains."""
    chains = np.random.default_rng(2).normal(size=(4, 500)) + np.array([[0], [5], [10], [-5]])
    assert mean_variance(list(chains)).effective < 5
    assert split_rhat(list(chains)) > 1.5
    assert split_rhat(list(np.random.default_rng(3).normal(size=(4, 500)))) < 1.01


def test_constant_terms_have_no_variance() -> None:
    """And nothing is divided by it."""
    assert mean_variance([np.ones(10)]).variance == 0.0
    assert np.isnan(split_rhat([np.ones(10)]))


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (4, 100), (3, 128)])
def test_runs_take_every_draw_once(shape: tuple[int, int]) -> None:
    """All places, no place twice; every beginning is spread over all chains alike."""
    chains = Chains(*shape)
    places = chains.places(np.arange(chains.size))
    assert sorted(places) == list(range(chains.size))
    for num in (5, 17, 50, chains.size):
        if num <= chains.size:
            counts = np.bincount(places[:num] // shape[1], minlength=shape[0])
            assert np.ptp(counts) <= 1
            rows = chains.sequences(np.arange(num))
            assert sum(part.size for part in rows) == num
            assert all((np.diff(places[part]) > 0).all() for part in rows)


def test_every_beginning_is_evenly_spread() -> None:
    """Of 1,000 positions, 100 leave no gap wider than four times the even one."""
    positions = np.sort(Chains(1, 1000).places(np.arange(100)))
    gaps = np.diff(np.r_[0, positions, 999])
    assert gaps.max() <= 40
