"""Constants in log densities cancel, as far as double precision holds them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.chains import Normal
from support.made import made_draws
from support.plain import LocalLevel

import aide
from aide._core.types import GOLD
from aide.estimation.terms import is_tractable, rests_on_one_density
from aide.problems.distributions import Normal as NormalOnReals

WALK = aide.kernels.RandomWalk(0.5)
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


START = Normal(0.0, 2.0, 1)


def log_joint_with(offset: float) -> Callable[[Any], Any]:
    """A standard normal with a constant."""
    return lambda x: offset - 0.5 * jnp.sum(x**2)


def filter_with(offset: float) -> aide.ParticleFilter:
    """A filter over two steps whose observations have a constant in their density."""

    class Observed:
        def __init__(self, x: Any):
            self.x = x

        def sample(self, key: Any) -> Any:
            return self.x + jax.random.normal(key)

        def log_density(self, y: Any) -> Any:
            return offset - 0.5 * (y - self.x) ** 2

    step = NormalOnReals(0.0, 1.0)
    model = aide.StateSpaceModel(step, lambda x, t: step, lambda x, t: Observed(x), jnp.zeros(2))
    return aide.ParticleFilter(model, 3)


ANY: dict[str, Callable[[float], Any]] = {
    "sir": lambda c: aide.sir(START, log_joint_with(c), num_particles=3),
    "mcmc": lambda c: aide.mcmc(START, log_joint_with(c), kernel=WALK, num_steps=2),
    "smc": lambda c: aide.tempered_smc(
        START, log_joint_with(c), kernel=WALK, num_particles=2, num_temperatures=2
    ),
    "filter": filter_with,
    "existing code": lambda c: aide.ForwardReverse(
        lambda key: (START.sample(key), jnp.asarray(c)), lambda key, x: c, log_joint_with(c)
    ),
}


SLOW = ("mcmc", "smc", "filter")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full) if n in SLOW else n for n in ANY]
)
def test_an_offset_that_cancels_in_the_scores_of_a_sampler_is_refused(name: str) -> None:
    """At 1e15 weights lose 0.1 nats each, although log xi is small; at 1e12 nothing is said."""
    if name == "existing code":
        aide.estimate(KEY, ANY[name](1e12), ANY[name](0.0), num_gold=20, num_target=20)
    with pytest.raises(ValueError, match="log density is 5.6e.14 or more.*Subtract a constant"):
        aide.estimate(KEY, ANY[name](1e15), ANY[name](1e15), num_gold=3, num_target=3)


def test_an_offset_in_a_numpy_filter_is_refused() -> None:
    """The same rule without JAX."""
    rng, one = np.random.default_rng(0), LocalLevel()
    parts = (one.initial, one.transition, lambda t, x: one.log_likelihood(t, x) + 1e15)
    far = aide.numpy_filter(
        *parts,
        num_particles=2,
        num_steps=4,
        log_initial=one.log_initial,
        log_transition=one.log_transition,
    )
    with pytest.raises(ValueError, match="Subtract a constant"):
        far.simulate(rng)


def test_gold_standards_refuse_an_offset() -> None:
    """The first pilots show that the whole log density is an offset."""
    with pytest.raises(ValueError, match="pilots of the gold standard.*Subtract a constant"):
        aide.gold_standard(0, log_joint_with(-1e15), START, num_pilots=50)


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
