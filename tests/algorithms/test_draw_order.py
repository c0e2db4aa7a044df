"""Lists of draws that lost the order of their chains, or hold copies, are recognised."""

from collections.abc import Callable

import jax
import numpy as np
import pytest
from support.chains import Normal, ar1, standard_log_joint

import aide
from aide.algorithms.draw_arrays import in_order
from aide.estimation.interval import confidence_limit

KEY, TARGET = jax.random.key(3), Normal(0.3, 1.2, 2)


def walkers_first(rng: np.random.Generator, num: int = 8, steps: int = 125) -> np.ndarray:
    """All walkers of a step, then those of the next: the order of emcee's flat chains."""
    return ar1(rng, num, steps, 0.9, 2).swapaxes(0, 1).reshape(-1, 2)


def resampled(rng: np.random.Generator) -> np.ndarray:
    """1,000 rows drawn with replacement from 100."""
    return rng.normal(size=(100, 2))[rng.integers(100, size=1000)]


def test_chains_that_take_turns_are_told_apart() -> None:
    """Exactly those that were mixed come back, whatever the number of walkers and steps."""
    for walkers, steps in ((8, 125), (2, 600), (100, 12)):
        chains = ar1(np.random.default_rng(0), walkers, steps, 0.9, 2)
        found, words = in_order(chains.swapaxes(0, 1).reshape(1, -1, 2))
        np.testing.assert_array_equal(found, chains)
        assert f"taken as {walkers} chains that take turns" in words
    cut = ar1(np.random.default_rng(1), 8, 125, 0.9, 2).swapaxes(0, 1).reshape(1, -1, 2)[:, 3:]
    found, words = in_order(cut)
    assert found.shape == (8, 124, 2)
    assert "the last 5 are left out" in words


def test_walkers_that_stand_still_are_no_copies() -> None:
    """A rejected step repeats the walker's draw 20 rows later, which is no copy from a list."""
    rng = np.random.default_rng(2)
    chains = np.repeat(ar1(rng, 20, 40, 0.5, 2), 3, axis=1)
    found, words = in_order(chains.swapaxes(0, 1).reshape(1, -1, 2))
    np.testing.assert_array_equal(found, chains)
    assert "copies" not in words


def test_copies_come_together() -> None:
    """No row is lost; equal ones are neighbours; what they are worth is said."""
    draws = resampled(np.random.default_rng(3))
    found, words = in_order(draws[None])
    assert words.startswith("the 1,000 draws are copies of 100 different ones")
    changes = (found[0, 1:] != found[0, :-1]).any(axis=1).sum()
    assert changes + 1 == len(np.unique(draws, axis=0)) == 100
    np.testing.assert_array_equal(np.sort(found[0], axis=0), np.sort(draws, axis=0))


ORDINARY: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "independent": lambda rng: rng.normal(size=(1, 300, 2)),
    "heavy tails": lambda rng: rng.standard_cauchy((1, 300, 2)),
    "chains": lambda rng: ar1(rng, 4, 200, 0.7, 2),
    "alternating": lambda rng: ar1(rng, 1, 500, -0.8, 2),
    "rounded": lambda rng: np.round(rng.normal(size=(1, 500, 1)), 2),
    "rare events": lambda rng: (rng.random((1, 2000, 3)) < 0.004).astype(float),
    "spike and slab": lambda rng: rng.normal(size=(1, 500, 1)) * (rng.random((1, 500, 1)) < 0.3),
    "stands still": lambda rng: np.repeat(rng.normal(size=200), rng.poisson(2, 200))[None, :, None],
    "integers": lambda rng: rng.integers(0, 5, (1, 500, 2)),
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_draws_are_left_alone(kind: str) -> None:
    """To the bit, in 50 sets of each kind."""
    for seed in range(50):
        draws = ORDINARY[kind](np.random.default_rng(seed))
        found, words = in_order(draws)
        assert words == ""
        assert found is draws


@pytest.mark.parametrize("made", [walkers_first, resampled])
def test_reference_draws_know_what_they_are_worth(made: Callable) -> None:
    """In the order found they would pass for ten times as many; the table says what was done."""
    draws = made(np.random.default_rng(4))
    gold = aide.ReferenceDraws(draws, standard_log_joint, has_chains=False)
    assert 25 < gold.effective_size < 200
    found = aide.estimate(KEY, gold, aide.Tractable.of(TARGET), num_gold=1000)
    naive = found.terms.gold.std(ddof=1) / np.sqrt(1000)
    assert 2 < found.gold_to_target.std_error / naive < 6
    assert gold.chains.words in " ".join(repr(found).split())
    assert "num_gold to" not in repr(found)


@pytest.mark.parametrize("made", [walkers_first, resampled])
@pytest.mark.full
def test_intervals_hold(made: Callable) -> None:
    """In 93 to 98% of 1,000 replications; in the order found, far less."""
    inside, naive, num = 0, 0, 1000
    for seed in range(num):
        rng = np.random.default_rng((5, seed))
        x = made(rng)
        arranged, _ = in_order(x[None])
        shape = arranged.shape[:2]
        rows = tuple(np.arange(shape[1]) + c * shape[1] for c in range(shape[0]))
        y = 1.0 + 0.8 * rng.normal(size=(500, 2))
        ratio = lambda x: (0.5 * ((x - 1.0) / 0.8) ** 2 - 0.5 * x**2).sum(axis=-1).ravel()
        for count, part, order in ((0, arranged, (rows, None)), (1, x, None)):
            limits = [confidence_limit((ratio(part), -ratio(y)), q, order) for q in (0.025, 0.975)]
            hit = limits[0] <= Normal(1.0, 0.8, 2).divergence <= limits[1]
            inside, naive = inside + (hit and count == 0), naive + (hit and count == 1)
    assert 0.93 * num <= inside <= 0.98 * num
    assert naive < 0.7 * num


def test_swapped_axes_are_refused() -> None:
    """(draw, chain) instead of (chain, draw): by length, or by which axis shows dependence."""
    rng = np.random.default_rng(6)
    with pytest.raises(ValueError, match=r"1,000 chains of 2 draws each.*swapaxes"):
        aide.ReferenceDraws(rng.normal(size=(1000, 2)), standard_log_joint, has_chains=True)
    chains = ar1(rng, 6, 200, 0.8, 2)
    for call in (
        lambda x: aide.ReferenceDraws(x, standard_log_joint, has_chains=True),
        lambda x: aide.compare_draws(x, chains),
    ):
        call(chains)
        with pytest.raises(ValueError, match="look like 6 chains of 200 draws"):
            call(np.swapaxes(chains, 0, 1))
    aide.ReferenceDraws(rng.normal(size=(40, 20, 2)), standard_log_joint, has_chains=True)


def test_few_effective_draws_have_no_error_and_are_flagged() -> None:
    """40 draws that are worth 4: their spread is not known, and the head says so."""
    rng = np.random.default_rng(7)
    gold = aide.ReferenceDraws(ar1(rng, 1, 40, 0.97, 2)[0], standard_log_joint, has_chains=False)
    assert gold.effective_size < 10
    found = aide.estimate(KEY, gold, aide.Tractable.of(TARGET), num_target=50)
    assert f"{found.value:.4g} ± ?" in repr(found)
    assert "Gold standard failed" in repr(found)
    table = aide.compare(KEY, gold, {"fit": aide.Tractable.of(TARGET)}, num_target=50)
    assert "± ?" in repr(table)
    assert "worth only" in repr(table)


def test_nobody_is_told_to_use_more_draws_than_there_are() -> None:
    """Advice about runs ends at the length of a list of draws."""
    rng = np.random.default_rng(8)
    draws = rng.normal(size=(60, 2))
    gold = aide.ReferenceDraws(draws, standard_log_joint, has_chains=False, label="my draws")
    sizes = {"num_gold": 30, "num_target": 500}
    near = aide.Tractable.of(Normal(0.45, 1.0, 2))
    table = aide.compare(KEY, gold, {"fit": near}, tolerance=0.45, **sizes)
    assert table.outcomes == {"fit": "undecided"}
    text = " ".join(repr(table).split())
    assert "raise num_gold to about 60" in text
    assert "give more draws of my draws than the 60 that it holds" in text
