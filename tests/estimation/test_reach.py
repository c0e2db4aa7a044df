r"""The meter at the other algorithm's outputs: what it reads, when it speaks, when it is silent.

Scores are made by hand, $\log\xi = -v/2 + \sqrt v\,z$, so that everything is known; the last test
runs the case that it is for.
"""

import jax
import numpy as np
import pytest
from support.hard_posteriors import missed_mode, two_modes
from support.made import made_draws

import aide
from aide._core.types import GOLD, TARGET
from aide.engine.programs.programs import compile_quickly
from aide.estimation.reach import reach_of

WORDS = "hardly reaches these outputs"
NUM = 200


def draws_of(rng, own, cross, num_meta=4):
    """Scatters of log xi of the target, one per output: at its own and at the gold standard's."""
    noise = lambda scatter: scatter[:, None] * rng.normal(size=(len(scatter), num_meta))
    scores = [noise(np.asarray(s)) - 0.5 * np.asarray(s)[:, None] ** 2 for s in (own, cross)]
    gold = (np.zeros((len(cross), 2)), scores[1])
    return made_draws(gold, (scores[0], np.zeros((len(own), 1))), (1, num_meta), (0.0, 0.0))


def says(draws):
    return any(WORDS in note for note in aide.estimation.Estimate(draws).notes)


def test_what_it_reads():
    r"""Rises against $E[\log\hat\xi_M]$ by brute force; half of the outputs carry them."""
    rng = np.random.default_rng(0)
    scatter = np.repeat([0.0, 3.0], 1000)
    found = reach_of(draws_of(rng, scatter[:1000], scatter), TARGET)
    assert found is not None
    assert found.num_meta == (1, 2, 4)
    assert found.rises[0].value == pytest.approx(0.0, abs=1e-12)
    log_xi = 3.0 * rng.normal(size=(100_000, 4))
    for num, rise in zip(found.num_meta[1:], found.rises[1:], strict=True):
        truth = 0.5 * np.mean(np.logaddexp.reduce(log_xi[:, :num], axis=1) - np.log(num))
        assert abs(rise.value - truth) < 5 * rise.std_error
    assert abs(found.slope.value - (found.rises[2].value - found.rises[1].value)) < 1e-9
    assert found.far_share == pytest.approx(0.5, abs=0.03)
    assert found.own_share == 0.0
    assert found.carrying < 0.5
    assert found.difference > 4.0
    assert found.shape > 0.7
    assert found.missed


def test_the_plot_shows_the_rises():
    scatter = np.repeat([0.2, 3.0], NUM // 2)
    found = reach_of(draws_of(np.random.default_rng(5), scatter, scatter), TARGET)
    assert found is not None
    [panel] = found.plot(label="made by hand").axes
    again = found.plot(panel, "the same")
    assert again.axes == [panel]
    for curve in panel.containers:
        np.testing.assert_allclose(curve[0].get_ydata(False), [rise.value for rise in found.rises])
    assert [text.get_text() for text in panel.get_legend().get_texts()] == [
        "made by hand",
        "the same",
    ]


@pytest.mark.parametrize("num_meta", [2, 4])
def test_a_mode_that_is_missed_is_said(num_meta):
    rng = np.random.default_rng(1)
    calm = np.full(NUM, 0.2)
    assert says(draws_of(rng, calm, np.repeat([0.2, 5.0], NUM // 2), num_meta))
    assert not says(draws_of(rng, calm, calm, num_meta))


ALSO = [pytest.param(scatter, marks=pytest.mark.full) for scatter in (0.1, 0.5, 2.0, 5.0)]


@pytest.mark.parametrize("scatter", [1.0, *ALSO])
def test_meta_inference_that_is_as_loose_everywhere_is_not_a_missed_mode(scatter):
    """400 pairs of algorithms at most one of which may be called out: the rate is 1 in 10,000."""
    rng, even = np.random.default_rng(2), np.full(NUM, scatter)
    found = [reach_of(draws_of(rng, even, even), TARGET) for _ in range(400)]
    assert sum(one.missed for one in found if one is not None) <= 1


def test_outputs_that_nothing_explains_are_left_to_their_own_note():
    rng = np.random.default_rng(3)
    draws = draws_of(rng, np.full(NUM, 0.2), np.full(NUM, 0.2))
    draws.gold.cross[: NUM // 2] = -np.inf
    found = reach_of(draws, TARGET)
    assert found is not None
    assert not found.missed
    assert found.rise.value < 0.1
    draws.gold.cross[NUM // 2 :, 0] = -np.inf  # one meta-run fails, another does not
    found = reach_of(draws, TARGET)
    assert found is not None
    assert found.missed
    assert found.rise.value == np.inf


def test_one_meta_run_shows_nothing():
    draws = draws_of(np.random.default_rng(4), np.full(NUM, 0.2), np.full(NUM, 5.0), 1)
    estimate = aide.estimation.Estimate(draws)
    assert reach_of(draws, TARGET) is None
    with pytest.raises(ValueError, match="num_meta_target=2 or more"):
        estimate.reach()
    draws.gold.cross[:] = -np.inf
    hopeless = draws.with_num_meta(TARGET, 1)
    assert reach_of(hopeless, GOLD) is None


@pytest.mark.full
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_a_chain_from_one_mode(seed):
    """Two modes, a start on one: a note with M = 2, the meter with M = 1; a wide start, neither."""
    gold = aide.Tractable.of(two_modes())
    for std, missed in ((1.0, True), (9.0, False)):
        with compile_quickly():
            chain = missed_mode(std, num_steps=40)
            refined = aide.refine(
                jax.random.key(10 + seed), chain, num_reverse=50, num_pilots=1000, num_components=4
            )
            keys, size = (
                jax.random.split(jax.random.key(seed)),
                {"num_gold": 100, "num_target": 100},
            )
            double = aide.estimate(keys[0], gold, refined, num_meta_target=2, **size)
            single = aide.estimate(keys[1], gold, refined, **size)
            found = single.reach()
        assert any(WORDS in note for note in double.notes) == missed
        assert found.missed == missed
        assert not any(WORDS in note for note in single.notes)
        if missed:
            assert 0.3 < found.far_share < 0.7
            assert double.value > 20
