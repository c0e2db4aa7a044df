r"""Calibration of fits of $x \sim N(0, 1)$, $y \sim N(x, 1)$: the posterior is $N(y/2, 1/2)$."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.chains import ar1

import aide
from aide.calibrating.ranks import normalised_ranks, thinned
from aide.engine.programs.programs import compile_quickly
from aide.problems import Normal

STD = 0.5**0.5


@pytest.fixture(autouse=True)
def _quick_compilation():
    with compile_quickly():
        yield


def sample_joint(key):
    key_x, key_y = jax.random.split(key)
    x = jax.random.normal(key_x)
    return x, x + jax.random.normal(key_y)


def log_joint(x, y):
    return Normal(0.0, 1.0).log_prob(x) + Normal(x, 1.0).log_prob(y)


class Fit(eqx.Module):
    """The posterior, moved by `shift` of its standard deviations and stretched."""

    shift: float = 0.0
    stretch: float = 1.0

    def __call__(self, key, y):
        return aide.Tractable.of(Normal(0.5 * y + self.shift * STD, self.stretch * STD))


def drawn(stretch: float = 1.0) -> Any:
    """Independent draws of a fit that JAX cannot trace."""

    def fit(key, y):
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        return 0.5 * float(y) + stretch * STD * rng.normal(size=60)

    return fit


def test_a_right_fit_stays_within_its_bands_and_others_leave_them():
    right = aide.check_calibration(1, sample_joint, Fit(), log_joint=log_joint, tolerance=0.01)
    assert right.verdict == "passed"  # its nats are exactly 0
    assert right.nats is not None
    np.testing.assert_allclose(right.nats.terms, 0.0, atol=1e-12)
    for wrong, words in ((Fit(stretch=0.6), "too narrow"), (Fit(shift=0.5), "too high")):
        found = aide.check_calibration(1, sample_joint, wrong, log_joint=log_joint)
        assert found.verdict == "failed"
        assert found.p_value < 1e-4
        assert any(words in test.reading for test in found.outside if test.function == "x")
        again = aide.audit_simulated(
            1, sample_joint, log_joint, lambda y, fit=wrong: fit(None, y), num_datasets=200
        )
        assert found.nats is not None
        np.testing.assert_allclose(found.nats.upper_terms, again.upper_terms, atol=1e-9)


@pytest.mark.full
def test_right_fits_leave_their_bands_as_often_as_they_may():
    """500 studies of 80 data sets each, cut from one; two functions share the level."""
    whole = aide.check_calibration(2, sample_joint, Fit(), log_joint=log_joint, num_datasets=40000)
    parts = whole.ranks.reshape(500, 80, 2)
    p_values = np.array(
        [[aide.calibrating.uniform_p_value(column) for column in part.T] for part in parts]
    )
    rate = (p_values.min(axis=1) <= 0.025).mean()
    assert rate < 0.05 + 5 * (0.05 * 0.95 / 500) ** 0.5
    assert (p_values < 0.5).mean() == pytest.approx(0.5, abs=5 * (0.25 / 1000) ** 0.5)


def test_draws_of_any_library_are_ranked_without_nats():
    found = aide.check_calibration(3, sample_joint, drawn(), num_datasets=60, label="script")
    assert found.nats is None
    assert found.verdict == "undecided"
    assert found.ranks.shape == (60, 1)
    assert "script" in found.subject
    assert aide.check_calibration(3, sample_joint, drawn(0.4), num_datasets=60).verdict == "failed"


@pytest.mark.full
def test_an_untraceable_algorithm_is_measured_one_by_one():
    def fit(key, y):
        return Fit(stretch=0.6)(key, float(y))  # float: JAX cannot trace it

    found = aide.check_calibration(
        1, sample_joint, fit, log_joint=log_joint, num_datasets=10, num_draws=20
    )
    traced = aide.check_calibration(
        1, sample_joint, Fit(stretch=0.6), log_joint=log_joint, num_datasets=10, num_draws=20
    )
    assert found.nats is not None
    assert traced.nats is not None
    assert found.why_slow
    assert not traced.why_slow
    np.testing.assert_allclose(found.nats.upper_terms, traced.nats.upper_terms, rtol=1e-5)


class Batched:
    """All data sets at once, as an amortised posterior gives them."""

    label = "batched"

    def sample_batch(self, key, observations, num):
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        return 0.5 * observations[:, None] + STD * rng.normal(size=(len(observations), num))

    def log_prob_batch(self, values, observations):
        gap = (values - 0.5 * observations[:, None]) / STD
        return -0.5 * gap**2 - np.log(STD) - 0.5 * np.log(2 * np.pi)


def test_amortised_posteriors_fit_all_data_sets_in_one_call():
    found = aide.check_calibration(
        4, sample_joint, Batched(), log_joint=log_joint, num_datasets=30, num_draws=30
    )
    assert found.nats is not None
    np.testing.assert_allclose(found.nats.terms, 0.0, atol=1e-5)
    assert found.functions == ("x", "log joint")


@pytest.mark.full
def test_posterior_calibration_ranks_parameters_given_the_observation():
    """A fit that is wrong far from the observed data is right there, and fails elsewhere."""
    observed = jnp.array([0.2])

    def fit(key, y):
        size, far = y.size, jnp.abs(y.mean()) > 2.5
        sd = (1 + size) ** -0.5
        return aide.Tractable.of(Normal(y.sum() / (1 + size), jnp.where(far, 0.1, 1.0) * sd))

    given = np.asarray(0.1 + STD * jax.random.normal(jax.random.key(5), (2000,)))
    noise = lambda key, x: x + jax.random.normal(key, (1,))
    joint = aide.calibrating.replicate(observed, given, noise)
    near = aide.check_calibration(6, joint, fit, num_datasets=100)
    assert near.verdict == "undecided"
    assert "given the observation" in near.subject
    wide = lambda key: (lambda x: (x, 5.0 + x + jax.random.normal(key, (1,))))(
        jax.random.normal(jax.random.fold_in(key, 1))
    )
    assert aide.check_calibration(6, wide, fit, num_datasets=100).verdict == "failed"


def test_ties_are_broken_at_random():
    rng = np.random.default_rng(0)
    truth, draws = rng.integers(0, 2, (2000, 1)), rng.integers(0, 2, (20000, 1))
    ranks = normalised_ranks(truth, draws, np.full(2000, 10), rng)
    assert aide.calibrating.uniform_p_value(ranks) > 1e-4
    low = np.sort(ranks[:, 0])[:500]
    assert low[-1] == pytest.approx(0.25, abs=0.06)


def test_slow_chains_are_thinned():
    rng = np.random.default_rng(0)
    chain = ar1(rng, 1, 2000, 0.9, 1)
    _, places = thinned(chain, has_chains=True)
    assert 40 < places.size < 250  # 2,000 draws of such a chain are worth 105
    _, places = thinned(rng.normal(size=(4, 250, 2)), has_chains=True)
    assert places.size > 500


@pytest.mark.full
def test_ranks_among_thinned_chains_are_uniform_and_those_among_all_draws_are_not():
    """40,000 runs of two chains that are worth 21 draws; the truth is a draw of their law."""
    rng, num = np.random.default_rng(3), 40000
    chains = ar1(rng, 2 * num, 200, 0.9, 1).reshape(num, 2, 200)
    truth = rng.normal(size=(num, 1))
    sets = [thinned(one, has_chains=True) for one in chains]
    sizes = np.array([places.size for _, places in sets])
    kept = np.concatenate([values[places] for values, places in sets])[:, None]
    ranks = normalised_ranks(truth, kept, sizes, rng)
    everything = normalised_ranks(truth, chains.reshape(-1, 1), np.full(num, 400), rng)
    rates = [
        np.mean(
            [aide.calibrating.uniform_p_value(part) <= 0.05 for part in all_of.reshape(200, -1)]
        )
        for all_of in (ranks, everything)
    ]
    spreads = [12 * ((all_of - 0.5) ** 2).mean() - 1 for all_of in (ranks, everything)]
    assert abs(spreads[0]) < 0.5 * abs(spreads[1])
    assert rates[0] < 0.05 + 5 * (0.05 * 0.95 / 200) ** 0.5


def test_functions_names_and_mistakes():
    vector = lambda key: (lambda x: (x, x.sum()))(jax.random.normal(key, (2,)))
    fit = lambda key, y: aide.Tractable.of(Pair())
    found = aide.check_calibration(
        7,
        vector,
        fit,
        functions={"sum": lambda x: x.sum()},
        names=("a", "b"),
        num_datasets=20,
        num_draws=20,
    )
    assert found.functions == ("sum", "a", "b")
    assert len(found.records()) == 3
    assert found.plot() is not None
    with pytest.raises(ValueError, match="one name for each of the 2 numbers"):
        aide.check_calibration(7, vector, fit, names=("a",), num_datasets=10, num_draws=5)
    with pytest.raises(ValueError, match="same structure and shape"):
        aide.check_calibration(7, sample_joint, fit, num_datasets=10, num_draws=5)


class Pair(eqx.Module):
    """Two standard normals."""

    def sample(self, key):
        return jax.random.normal(key, (2,))

    def log_prob(self, x):
        return -0.5 * jnp.sum(x * x) - jnp.log(2 * jnp.pi)
