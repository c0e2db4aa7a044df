r"""Every sentence with a rate is false no more often than it says, on laws whose truth is known.

`benchmarks/coverage/sentences.py` prints the whole study; here are reduced versions, and the full
ones for `make test-full`. Controls: the sentences as they would be if nothing were left out, and
five standard errors as a proof of contradiction, are false far too often.
"""

import numpy as np
import pytest
from scipy import stats
from support import Z_MAX
from support.chains import LATE, RISING, walk
from support.finite_laws import CLAIMS, PAIRS, count_false, count_false_lengths, ratio_draws

import aide
from aide.estimation.sandwich.balance import LogRatio, bridge_failure

ALLOWED = {
    "interval": 0.05,
    "reading": 0.05,
    "sandwich": 0.05,
    "table reading": 0.05,
    "contradiction": 1e-4,
    "below 0": 1e-4,
}
SIZES = [(100, 100), (100, 1000), (500, 500)]
QUICK = ["N(0, 0.8²)", "gold: 0.3% at 50", "late chains: 1% at 6", "atoms: 1e-3 and 1e-2"]
FINE = (30, 40, 45, 50, 55, 60, 80)


def _too_many(false, count, allowed):
    return stats.binom.sf(false - 1, count, allowed) < stats.norm.sf(Z_MAX)


def _check(pair, sizes, count):
    false = count_false(pair, sizes, count)
    assert not [claim for claim in CLAIMS if _too_many(false[claim], count, ALLOWED[claim])]


@pytest.mark.parametrize("name", QUICK)
def test_sentences_about_an_estimate(name):
    _check(PAIRS[name], (100, 300), 100)


@pytest.mark.full
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_sentences_about_an_estimate_in_full(name, sizes):
    _check(PAIRS[name], sizes, 1000)


def test_sentences_that_leave_nothing_out_are_false():
    """Controls: gold 0.3% elsewhere, 500 runs; in about 22% of the replications none shows it."""
    false = count_false(PAIRS["gold: 0.3% at 50"], (500, 500), 150)
    assert _too_many(false["old interval"], 150, 0.05)
    assert _too_many(false["old reading"], 150, 0.05)
    assert _too_many(false["old contradiction"], 150, 1e-4)


def test_a_rare_part_gives_no_false_contradiction_and_no_false_exactness():
    """The printout of a replication in which no run shows the 0.3% of the gold standard."""
    rng, pair = np.random.default_rng(0), PAIRS["gold: 0.3% at 50"]
    ratio = next(r for r in iter(lambda: pair.sample(rng, (500, 500)), None) if r[0].max() < 1.0)
    text = repr(aide.estimation.Estimate(ratio_draws(ratio)))
    assert "contradict" not in text
    assert "exact" not in text
    assert "may differ from the gold standard's: see the note" in text


def test_bennetts_identity_keeps_its_power():
    """A log density that is off by half a nat is found with 100 runs, one off by 0.2 with 500."""
    rng, pair = np.random.default_rng(1), PAIRS["N(0.1, 1)"]
    for nums, shift in (((100, 100), 0.5), ((100, 1000), -0.5), ((500, 500), 0.2)):
        gold, target = pair.sample(rng, nums)
        assert bridge_failure(LogRatio(gold + shift, target + shift)) is not None
        assert bridge_failure(LogRatio(gold, target)) is None


@pytest.fixture(scope="module")
def random_walk():
    return walk(FINE)


def test_lengths_from_which_on_a_chain_is_close(random_walk):
    """The documentation's random walk, 200 runs, 0.05 nats: false in 42% if nothing is left out."""
    false, old = count_false_lengths(random_walk, 0.05, 200, 100)
    assert not _too_many(false, 100, 0.05)
    assert _too_many(old, 100, 0.05)


@pytest.mark.full
@pytest.mark.parametrize(("num_runs", "nats"), [(200, 0.1), (200, 0.05), (1000, 0.05)])
def test_lengths_in_full(random_walk, num_runs, nats):
    for pairs in (random_walk, *LATE.values(), RISING):
        assert not _too_many(count_false_lengths(pairs, nats, num_runs, 1000)[0], 1000, 0.05)


def test_a_divergence_that_rises_is_not_called_small():
    """0.15 nats after 5 steps, 0.0008 after one: no limit at 5 steps is below 0.05."""
    assert RISING[5].divergence > 0.14
    false, old = count_false_lengths(RISING, 0.05, 1000, 40)
    assert (false, old) == (0, 0)
