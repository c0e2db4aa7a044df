"""One small gold standard from beginning to end, in the quick suite: made, tested, used.

It has one dimension and a kernel of its own, which compiles sooner than HMC.
"""

import jax
import numpy as np
import pytest
from scipy import stats
from support import Z_MAX

import aide
from aide.engine.runners.choose import identity_of
from aide.problems.distributions import Normal

KEY, PRIOR = jax.random.key(0), Normal(0.0, 1.0)
DATUM, NOISE = 0.4, 0.7
VARIANCE = NOISE**2 / (1.0 + NOISE**2)
POSTERIOR = Normal(VARIANCE * DATUM / NOISE**2, VARIANCE**0.5)
"""The exact posterior of a normal mean under the prior N(0, 1)."""


def log_joint(x):
    return PRIOR.log_prob(x) + Normal(x, NOISE).log_prob(DATUM)


def make():
    return aide.gold_standard(
        KEY,
        log_joint,
        PRIOR,
        kernel=aide.kernels.RandomWalk(1.0),
        num_pilots=200,
        max_looseness=0.3,
        progress=False,
    )


@pytest.fixture(scope="module")
def small():
    return make()


def test_its_log_evidence_is_right(small):
    value, error = small.record.log_evidence
    assert abs(value - stats.norm.logpdf(DATUM, 0.0, np.sqrt(1.0 + NOISE**2))) < Z_MAX * error


def test_it_was_compared_with_itself(small):
    assert "your kernel" in repr(small)
    assert small.rival is not None
    assert [one.name for one in small.record.agreements] == [
        "itself at half the budget",
        "itself from a start twice as wide, tuned there",
    ]
    temperatures = np.asarray(small.making.content.recipes[0].recipe.temperatures)
    assert np.all(np.diff(temperatures) > 0)
    assert temperatures[-1] == 1.0


def test_a_target_is_measured_against_it(small):
    """The exact posterior is close to it; shifted by a standard deviation it is 1 nat away."""
    shifted = Normal(POSTERIOR.mean + POSTERIOR.std, POSTERIOR.std)
    right, wrong = (
        aide.estimate(KEY, small, aide.Tractable.of(law), num_gold=200, num_target=200)
        for law in (POSTERIOR, shifted)
    )
    loose = small.record.looseness[0]
    assert right.value - Z_MAX * right.std_error < loose < 0.3
    assert wrong.value > 0.5 > right.value


@pytest.mark.full
def test_the_same_key_makes_the_same_one(small):
    again = make()
    assert identity_of(again) == identity_of(small)
    assert identity_of(again.rival) == identity_of(small.rival)
    assert again.record.log_evidence == small.record.log_evidence
