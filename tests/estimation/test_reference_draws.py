"""Estimates that rest on reference draws: errors, words, and what must not change them."""

import jax
import numpy as np
import pytest
from support.chains import Normal, ar1, standard_log_joint

import aide
from aide.engine.draws import concatenate
from aide.estimation.interval import confidence_limit

KEY = jax.random.key(8)
TARGET = Normal(0.3, 1.2, 2)


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    """Two chains of 300, strongly correlated."""
    return ar1(np.random.default_rng(7), 2, 300, 0.9, 2)


@pytest.fixture(scope="module")
def gold(draws: np.ndarray) -> aide.ReferenceDraws:
    """The same with their density."""
    return aide.ReferenceDraws(draws, standard_log_joint, has_chains=True, label="a long chain")


@pytest.fixture(scope="module")
def estimate(gold: aide.ReferenceDraws) -> aide.estimation.Estimate:
    """All draws against normals that are shifted and wide."""
    return aide.estimate(KEY, gold, aide.Tractable.of(TARGET), num_gold=600, keep_values=True)


def test_standard_error_knows_the_chains(estimate: aide.estimation.Estimate) -> None:
    """At the gold draws it is several times the naive one, and the interval holds the truth."""
    terms = estimate.terms.gold
    naive = terms.std(ddof=1) / np.sqrt(terms.size)
    assert 2 < estimate.gold_to_target.std_error / naive < 6
    low, high = estimate.interval()
    assert low < TARGET.divergence < high
    assert high - low > 1.5 * np.diff([confidence_limit(estimate.terms, q) for q in (0.025, 0.975)])
    bounds = estimate.log_z_bounds
    assert bounds is not None
    truth = 3 + np.log(2 * np.pi)
    assert bounds.lower.value - 4 * bounds.lower.std_error < truth
    assert truth < bounds.upper.value + 4 * bounds.upper.std_error


def test_words_state_the_assumption(estimate: aide.estimation.Estimate) -> None:
    """Number of draws, chains, what they are worth, taken as exact; thinning is offered."""
    text = repr(estimate)
    assert "all 600 reference draws in 2 chains" in text
    assert "taken as exact, not audited" in text
    assert "both densities are known, the gold draws taken as exact" in text
    assert "thinned(" in text
    assert estimate.to_dict()["numbers"]["worth"][0]["effective"] < 100
    assert estimate.unseen()[0] > estimate.unseen()[1]


def test_draws_of_another_posterior_are_no_gold_standard() -> None:
    """An estimate itself compares draws with their density: right, wrong, and not to be traced."""
    draws = np.random.default_rng(3).normal(size=(400, 2))
    shifted = lambda x: standard_log_joint(x - 0.5)
    plain = lambda x: -0.5 * float(np.sum(np.asarray(x, float) ** 2))
    words = {}
    for name, log_joint in {"right": standard_log_joint, "wrong": shifted, "plain": plain}.items():
        gold = aide.ReferenceDraws(draws, log_joint, has_chains=False)
        found = aide.estimate(KEY, gold, aide.Tractable.of(TARGET), num_gold=20, num_target=20)
        words[name] = repr(found)
        assert found.trust.outcome == ("failed" if name == "wrong" else "undecided")
    right = " ".join(words["right"].split())
    assert "log_joint fits the draws (score check, 5 tests, p = " in right
    assert "Gold standard failed: its log_joint does not fit its draws" in words["wrong"]
    assert "score_check() does" in " ".join(words["plain"].split())


def test_chains_that_disagree_are_noted(draws: np.ndarray) -> None:
    """By R-hat."""
    apart = draws + np.array([0.0, 3.0])[:, None, None]
    gold = aide.ReferenceDraws(apart, standard_log_joint, has_chains=True)
    found = aide.compare(KEY, gold, {"wide": aide.Tractable.of(TARGET)}, num_gold=100)
    assert any("do not agree with each other" in note for note in found["wide"].notes)
    assert "taken as exact" in repr(found)


def test_extending_sharing_and_storing(
    gold: aide.ReferenceDraws, estimate: aide.estimation.Estimate, tmp_path: object
) -> None:
    """A run is a function of its number alone: pieces, files and threads give the same."""
    target = aide.Tractable.of(TARGET)
    few = aide.draw(KEY, gold, target, num_gold=100, num_target=500, keep_values=True)
    more = aide.draw(KEY, gold, target, num_gold=600, num_target=500, extend=few)
    np.testing.assert_array_equal(more.gold.own, estimate.draws.gold.own)
    shared = aide.draw(KEY, gold, target, num_gold=600, num_target=20, share=few)
    np.testing.assert_array_equal(shared.gold.cross, estimate.draws.gold.cross)
    path = f"{tmp_path}/draws.nc"
    estimate.save(path)
    loaded = aide.estimation.Estimate.load(path)
    assert loaded.std_error == estimate.std_error
    first = aide.draw(KEY, gold, target, num_gold=100, num_target=100)
    rest = aide.draw(KEY, gold, target, num_gold=500, num_target=100, first_run=100)
    pooled = concatenate([first, rest])
    assert aide.summarise(pooled).gold_to_target.std_error == pytest.approx(
        estimate.gold_to_target.std_error, rel=1e-12
    )
    other = aide.draw(jax.random.key(9), gold, target, num_gold=50, num_target=5)
    with pytest.raises(ValueError, match="fixed list"):
        concatenate([first, other])


@pytest.mark.parametrize("shape", [(1, 200), (4, 100)])
@pytest.mark.full
def test_coverage(shape: tuple[int, int]) -> None:
    """Between 93 and 97% at rho = 0.9; the naive interval is far below."""
    rng, inside, naive, num = np.random.default_rng(10), 0, 0, 2000
    rows = tuple(np.arange(shape[1]) + c * shape[1] for c in range(shape[0]))
    for _ in range(num):
        x = ar1(rng, *shape, 0.9, 2).reshape(-1, 2)
        y = 0.3 + 1.2 * rng.normal(size=(200, 2))
        ratio = lambda x: (0.5 * ((x - 0.3) / 1.2) ** 2 - 0.5 * x**2).sum(axis=1)
        samples = (ratio(x), -ratio(y))
        low, high = (confidence_limit(samples, q, (rows, None)) for q in (0.025, 0.975))
        inside += low <= TARGET.divergence <= high
        low, high = (confidence_limit(samples, q) for q in (0.025, 0.975))
        naive += low <= TARGET.divergence <= high
    assert 0.93 * num <= inside <= 0.97 * num
    assert naive < 0.8 * num
