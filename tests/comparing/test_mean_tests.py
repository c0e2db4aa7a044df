"""Tests of two means: exact for counts, right far out for few events, blind to nothing."""

import numpy as np
import pytest
from scipy import stats
from support.chains import ar1

import aide
from aide.comparing.draw_sets import make_draw_set
from aide.comparing.mean_tests import (
    FEW_EVENTS,
    _Pooled,
    _saddlepoint,
    compare_functions,
    mean_test,
)


def rows(num: int) -> tuple[np.ndarray, ...]:
    """One chain."""
    return (np.arange(num),)


def p_value(a: np.ndarray, b: np.ndarray) -> float:
    """Of independent draws."""
    return mean_test(a, b, (rows(a.size), rows(b.size)), (float(a.size), float(b.size)))


@pytest.mark.parametrize("counts", [(0, 22), (2, 20), (7, 15), (9, 13), (5, 0)])
def test_counts_have_their_exact_law(counts: tuple[int, int]) -> None:
    """Fisher's, for events too few to show any dependence."""
    a, b = np.zeros(500), np.zeros(5000)
    a[np.arange(counts[0]) * 50], b[np.arange(counts[1]) * 200] = 1.0, 1.0
    table = [[counts[0], 500 - counts[0]], [counts[1], 5000 - counts[1]]]
    exact = stats.fisher_exact(table)[1]
    found = p_value(a, b)
    if max(counts) < FEW_EVENTS:
        assert found == pytest.approx(exact, rel=1e-9)
    assert exact / 3 < found < 3 * exact  # what 5,000 draws are worth is known well enough
    assert p_value(a, np.zeros(500)) > 1e-4  # not 0, although one sample never moves


def test_the_tail_is_that_of_the_values() -> None:
    """Means of skewed values: against 300,000 simulated ones, where a normal tail is far off."""
    rng = np.random.default_rng(1)
    num, other = 50, 500
    pool = rng.exponential(size=num + other) ** 2
    sums = np.concatenate([rng.choice(pool, (50_000, num)).mean(axis=1) for _ in range(6)])
    rest = rng.choice(pool, (10_000, other)).mean(axis=1)
    difference = sums - np.resize(rest, sums.size)
    spread = pool.std() * np.sqrt(1 / num + 1 / other)
    standard = (pool - pool.mean()) / pool.std()
    for score in (2.5, 3.5, 4.5):
        seen = float(np.mean(difference >= score * spread))
        pooled = _Pooled(standard, np.full(pool.size, 1 / pool.size))
        at = score * np.sqrt(1 / num + 1 / other)
        found = _saddlepoint(pooled, (float(num), float(other)), at)
        assert found == pytest.approx(seen, rel=0.25)
        assert float(stats.norm.sf(score)) < 0.6 * seen


def test_few_events_do_no_harm_and_many_are_seen() -> None:
    """Rare events in 3 coordinates: at most 2.5% claims; 10 times as many events are found."""

    def is_different(a: np.ndarray, b: np.ndarray) -> bool:
        sets = make_draw_set("a", a, None), make_draw_set("b", b, None)
        return compare_functions(*sets)[0].p_value <= 0.025

    claims, found = 0, 0
    for seed in range(100):
        rng = np.random.default_rng((2, seed))
        a, b = ((rng.random((num, 3)) < 0.004).astype(float) for num in (500, 5000))
        often = (rng.random((500, 3)) < 0.04).astype(float)
        claims += is_different(a, b)
        if seed < 10:
            found += is_different(often, b)
    assert claims <= 9  # of 2.5 to be expected at most: more have a chance below 1e-3
    assert found == 10


def test_a_lasting_rare_event_counts_once() -> None:
    """One visit of 20 steps to a rare state is one event, not 20."""
    a, b = np.zeros(2000), np.zeros(2000)
    a[100:120] = 1.0
    assert p_value(a, b) > 0.02
    a[np.arange(50, 2000, 100)] = 1.0
    a[100:120] = 0.0
    assert p_value(a, b) < 1e-4


def test_resampled_rows_are_worth_their_originals() -> None:
    """1,000 copies of 100 rows: no claim against 1,000 draws, but one if they are shifted."""
    for seed in range(5):
        rng = np.random.default_rng((3, seed))
        few = rng.normal(size=(100, 2))
        copies = few[rng.integers(100, size=1000)]
        other = rng.normal(size=(1000, 2))
        found = aide.compare_draws(copies, other)
        assert not found.is_different
        assert found.a.effective < 150
        assert "copies of 100 different ones" in repr(found)
        assert aide.compare_draws(copies + 1.0, other).is_different


def test_walkers_first_is_recognised() -> None:
    """Flat chains of emcee: no claim, and a note that says what was done."""
    rng = np.random.default_rng(4)
    a, b = (ar1(rng, 10, 100, 0.9, 2).swapaxes(0, 1).reshape(-1, 2) for _ in range(2))
    found = aide.compare_draws(a, b)
    assert not found.is_different
    assert found.a.effective < 250
    assert sum("10 chains that take turns" in note for note in found.notes) == 2
