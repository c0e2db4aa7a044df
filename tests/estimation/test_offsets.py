"""Constants in log densities cancel, as far as double precision holds them."""

import jax
import numpy as np
import pytest
from support.chains import Normal
from support.made import made_draws

import aide
from aide._core.types import GOLD
from aide.estimation.terms import is_tractable, rests_on_one_density

KEY, TARGET = jax.random.key(2), aide.Tractable.of(Normal(0.3, 1.0, 1))


def gold_with(offset: float) -> aide.ReferenceDraws:
    """200 standard normals, with a constant in their log joint."""
    draws = np.random.default_rng(0).normal(size=(200, 1))
    log_joint = lambda x: offset - 0.5 * float(np.sum(np.asarray(x, float) ** 2))
    return aide.ReferenceDraws(draws, log_joint, has_chains=False)


def test_a_large_offset_makes_no_densities_equal() -> None:
    """At 1e12 the estimate is that without an offset to 0.01 nats, and no note says otherwise."""
    plain, far = (
        aide.estimate(KEY, gold_with(offset), TARGET, num_target=200) for offset in (0.0, 1e12)
    )
    assert far.value == pytest.approx(plain.value, abs=0.01)
    assert not any("same density" in note for note in far.notes)
    assert far.total_variation() < 1.0


def test_an_offset_that_hides_everything_is_refused() -> None:
    """At 1e15 double precision resolves 0.1 nats: the fix is named."""
    with pytest.raises(ValueError, match=r"is 1e\+15 or more in size.*subtract a constant"):
        aide.estimate(KEY, gold_with(1e15), TARGET, num_target=20)


@pytest.mark.parametrize(("size", "apart"), [(1.0, 1e-6), (1e6, 1e-2), (1e12, 1.0)])
def test_what_is_rounding_and_what_is_not(size: float, apart: float) -> None:
    """Scores that differ by rounding are one density; by `apart` nats they are two."""
    rng = np.random.default_rng(1)
    base = size + rng.normal(size=(50, 1))
    noise = np.spacing(size) * rng.integers(-2, 3, (50, 2))
    for shift, same in ((0.0, True), (apart, False)):
        own = base + noise + shift * rng.random((50, 2))
        both = np.hstack([base, base])
        draws = made_draws((own, both), (own, both), (2, 2))
        assert rests_on_one_density(draws) == same
        assert is_tractable(draws, GOLD) == same
