"""Readings for pairs of any distance: divergences that stay finite, averages, shifts."""

import numpy as np
import pytest
from scipy import stats
from support import Z_MAX
from support.pairs import KEY, gaussian, run, unnormalised

import aide
from aide.estimation.errors.bets import upper_mean
from aide.estimation.errors.find import MEAN, PROBABILITY, SD
from aide.estimation.errors.total_variation import (
    hellinger_sizes,
    jensen_shannon_sizes,
    total_variation_sizes,
)

EXACT = 1e-12
SIZES = {
    "tv": (total_variation_sizes, lambda p, q: 0.5 * np.sum(np.abs(p - q))),
    "js": (
        jensen_shannon_sizes,
        lambda p, q: (
            0.5 * np.sum(p * np.log2(2 * p / (p + q))) + 0.5 * np.sum(q * np.log2(2 * q / (p + q)))
        ),
    ),
    "hellinger": (hellinger_sizes, lambda p, q: 1 - np.sum(np.sqrt(p * q))),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_shares_at_any_distance(name):
    sizes = SIZES[name][0]
    np.testing.assert_allclose(sizes(np.array([0.0, np.inf, -np.inf])), [0, 1, 1], atol=EXACT)
    ratio = np.array([1e-9, 0.1, 3.0, 50.0, 1e4])
    assert np.all(np.diff(sizes(ratio)) >= 0)
    np.testing.assert_allclose(sizes(ratio), sizes(-ratio), atol=EXACT)


def test_limits_hold():
    """Of a Gaussian pair, whose Hellinger distance is 1 - exp(-d²/8); the control claims less."""
    rng, count, num, shift = np.random.default_rng(6), 200, 150, 0.8
    truth, holds, below = 1 - np.exp(-(shift**2) / 8), 0, 0
    for _ in range(count):
        x, y = rng.normal(size=num), shift + rng.normal(size=num)
        ratio = lambda z: stats.norm.logpdf(z) - stats.norm.logpdf(z, shift)
        terms = 0.5 * (hellinger_sizes(ratio(x)) + hellinger_sizes(ratio(y)))
        holds += upper_mean(terms, 0.95) >= truth
        below += upper_mean(terms, 0.05) >= truth
    margin = Z_MAX * np.sqrt(0.05 * 0.95 / count)
    assert holds / count > 0.95 - margin
    assert below / count < 0.95 - margin


@pytest.mark.parametrize("is_known", [True, False])
def test_estimates_have_them(is_known):
    gold = gaussian(0.0, 1.0)
    target = gaussian(0.6, 1.0) if is_known else unnormalised(0.6, 1.0, None, 2.5)
    found = run(gold, target, 500, 400)
    grid = np.linspace(-12, 12, 40_001)
    p, q = stats.norm.pdf(grid) * 6e-4, stats.norm.pdf(grid, 0.6) * 6e-4
    for limit, name, scale in (
        (found.jensen_shannon(), "js", np.log(2)),
        (found.hellinger() ** 2, "hellinger", 1.0),
    ):
        truth = scale * SIZES[name][1](p, q)
        assert truth < limit < 2.5 * truth
    shift = f"shifted by {np.sqrt(found.value):.2g} sd is {found.value:.2g} nats"
    assert shift in " ".join(repr(found).split())
    with pytest.raises(ValueError, match="level"):
        found.hellinger(1.5)


def test_infinite_divergences_are_read_by_finite_ones():
    """A target whose support is smaller; the other rows stay as they are."""
    gold, target = aide.Tractable.of(Uniform(2.0)), aide.Tractable.of(Uniform(1.0))
    found = aide.estimate(KEY, gold, target, num_gold=400, num_target=400)
    assert found.value == np.inf
    shown = " ".join(repr(found).split())
    assert "The Jensen–Shannon divergence, which is finite, is at most" in shown
    truth = 0.5 * np.log(4 / 3) + 0.25 * np.log(2 / 3) + 0.25 * np.log(2)
    assert truth == pytest.approx(0.2158, abs=1e-4)
    assert truth < found.jensen_shannon() < 1.3 * truth
    assert np.sqrt(1 - np.sqrt(0.5)) < found.hellinger() < 1.2 * np.sqrt(1 - np.sqrt(0.5))


class Uniform:
    """Between 0 and a width."""

    def __init__(self, width):
        self.width = width

    def sample(self, key):
        import jax

        return self.width * jax.random.uniform(key)

    def log_prob(self, value):
        import jax.numpy as jnp

        return jnp.where((value >= 0) & (value <= self.width), -jnp.log(self.width), -jnp.inf)


def test_averages_say_when_bias_outweighs_noise():
    """N(0.2, 1.5²): from (1.5/0.2)² = 56 averaged draws on; a probability by its own."""
    found = run(gaussian(0.0, 1.0), gaussian(0.2, 1.5), 900, 900)
    errors = found.errors(functions={"P(x > 0)": lambda x: x > 0})
    x, event = errors["x"], errors["P(x > 0)"]
    n = x.averaged_draws
    assert n.value == pytest.approx((x.of(SD).error / x.of(MEAN).error) ** 2)
    assert n.low < (1.5 / 0.2) ** 2 < n.high
    q = event.of(PROBABILITY).target
    assert event.averaged_draws.value == pytest.approx(
        q * (1 - q) / event.of(PROBABILITY).error ** 2
    )
    assert event.averaged_draws.low <= event.averaged_draws.value <= event.averaged_draws.high
    shown = " ".join(repr(errors).split())
    assert "no bias exceeds the Monte Carlo error" in shown
    assert "the bias of x exceeds its Monte Carlo error" in shown
    assert errors.numbers()["averaged_draws"]["x"] == n
    same = run(gaussian(0.0, 1.0), gaussian(0.0, 1.0), 100, 100).errors()
    assert same["x"].averaged_draws.high == np.inf  # the control: no bias, no such number
    assert "exceeds its" not in repr(same)
