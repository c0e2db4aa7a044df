"""Odd stored draws: what would be used as numbers in silence is refused, or said."""

import jax.numpy as jnp
import numpy as np
import pytest

import aide
from aide.algorithms.draw_arrays import as_chains, still_words

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))


def log_joint(x):
    """A standard normal."""
    return -0.5 * jnp.sum(x**2)


def test_masked_entries_are_refused():
    masked = np.ma.masked_array(X, mask=RNG.random(X.shape) < 0.1)
    with pytest.raises(ValueError, match=r"masked entries, which would count as numbers"):
        aide.ReferenceDraws(masked, log_joint, has_chains=False)
    with pytest.raises(ValueError, match=r"masked entries"):
        aide.compare_draws(X, masked)
    as_chains(np.ma.masked_array(X, mask=False), has_chains=False)  # a control: none is masked


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_numbers_whose_squares_leave_double_precision_are_refused(scale):
    with pytest.raises(ValueError, match=r"squares double precision cannot hold: rescale"):
        aide.compare_draws(scale * X, scale * X)
    as_chains(1e-100 * X, has_chains=False)  # a control


def test_a_coordinate_that_never_varies_is_said():
    still = np.c_[X, np.ones(200)]
    gold = aide.ReferenceDraws(still, log_joint, has_chains=False)
    assert gold.chains.words.startswith("x[2] never varies")
    assert still_words(gold.draws)
    moving = aide.ReferenceDraws(X, log_joint, has_chains=False)
    assert not moving.chains.words
    whole = {"n": np.ones((200, 1), int), "x": X}
    assert not aide.ReferenceDraws(
        whole, lambda v: log_joint(v["x"]), has_chains=False
    ).chains.words
