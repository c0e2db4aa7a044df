"""Upper limits of small total variations: they hold where mass stays unseen, and are near a bound.

No limit that holds for every law can be arbitrarily near the value. If runs of both algorithms show
a further kind of output with probability e, which only one of the two has, the total variation is
v + e (1 - v) instead of v, and all 2N runs look as if it were v with probability (1 - e)^(2N). A
limit that holds with 95% is below v + e (1 - v) with probability 0.05 / (1 - e)^(2N) at most.
"""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from support import Z_MAX

from aide.estimation.errors.bets import is_balanced, upper_average
from aide.estimation.errors.total_variation import _unknown_constant, total_variation_sizes

NUM, LEVEL = 500, 0.95


def least_mean(value: float, num: int = NUM) -> float:
    """No limit that holds with 95% for every law has a smaller mean, for N runs of either."""
    rare = np.linspace(0, 1 - (1 - LEVEL) ** (1 / (2 * num)), 1001)
    often = 1 - (1 - LEVEL) * (1 - rare) ** (-2 * num)
    return LEVEL * value + (1 - value) * float(np.trapezoid(often, rare))


def least_mean_of_disjoint(value: float, num: int = NUM) -> float:
    """The same if outputs are of one algorithm alone with probability `value`, else of both alike.

    The number of such outputs is binomial; a limit includes w with at least the probability that
    the most powerful test of w against `value` accepts (Neyman & Pearson).
    """
    count = np.arange(2 * num + 1)

    def accepted(other: float) -> float:
        law, here = (stats.binom.pmf(count, 2 * num, rate) for rate in (other, value))
        size = np.cumsum(law)
        last = int(np.searchsorted(size, 1 - LEVEL))
        before = size[last] - law[last]
        power = here[:last].sum() + here[last] * (1 - LEVEL - before) / law[last]
        return 1 - power

    others = np.linspace(value, 3 * value + 0.01, 401)
    often = np.array([accepted(float(other)) for other in others])
    return LEVEL * value + float(np.trapezoid(often, others))


def gaussian_runs(rng: np.random.Generator, shift: float) -> tuple[np.ndarray, np.ndarray]:
    x, y = rng.normal(size=NUM), shift + rng.normal(size=NUM)
    return 0.5 * shift**2 - shift * x, 0.5 * shift**2 - shift * y


def hidden_runs(rng: np.random.Generator, base: float, rare: float) -> np.ndarray:
    """Sizes `base`, and 1 with probability `rare`, on both sides."""
    return np.where(rng.random((2, NUM)) < rare, 1.0, base)


def test_limits_hold_where_mass_is_unseen():
    """The control: limits that stay below what the two-point argument allows."""
    rng, count, base, rare = np.random.default_rng(1), 300, 0.01, 0.0028
    truth = base + rare * (1 - base)
    held, claimed = 0, 0
    for _ in range(count):
        sizes = hidden_runs(rng, base, rare)
        held += upper_average(sizes[0], sizes[1], LEVEL) >= truth
        claimed += 0.5 * (sizes[0].mean() + sizes[1].mean()) + 0.001 >= truth
    margin = Z_MAX * np.sqrt(0.05 * 0.95 / count)
    assert held / count > LEVEL - margin
    assert claimed / count < LEVEL - margin


@pytest.mark.parametrize("shift", [0.03, 0.1, 0.3])
def test_limits_hold_for_unequal_sides_and_sizes(shift):
    """One side has all the mass, and three times the runs; the control is another level."""
    rng, count, truth = np.random.default_rng(2), 200, shift / 10
    held = {level: 0 for level in (LEVEL, 0.3)}
    for _ in range(count):
        first = (rng.random(3 * NUM) < 2 * truth).astype(float)
        for level in held:
            held[level] += upper_average(first, np.zeros(NUM), level) >= truth
    margin = Z_MAX * np.sqrt(0.05 * 0.95 / count)
    assert held[LEVEL] / count > LEVEL - margin
    assert held[0.3] / count < LEVEL - margin


@pytest.mark.parametrize("is_known", [True, False])
def test_limits_of_a_small_value_are_within_half_of_it(is_known):
    """At a total variation of 0.012 the mean limit is above the bound, and below 1.5 times."""
    rng, shift, found = np.random.default_rng(3), 0.03, []
    truth = float(2 * stats.norm.cdf(shift / 2) - 1)
    for _ in range(40 if is_known else 12):
        parts = gaussian_runs(rng, shift)
        if is_known:
            sizes = [total_variation_sizes(part) for part in parts]
            found.append(upper_average(sizes[0], sizes[1], LEVEL))
        else:
            nothing: Any = None
            found.append(_unknown_constant(nothing, parts, LEVEL, False).upper)
    assert min(found) > truth
    assert least_mean(truth) < np.mean(found) < 1.5 * truth


def test_the_bounds():
    """Closed form of the first; the second is larger, and no limit is within 1.5 there."""
    most = 1 - 0.05 ** (1 / 1000)
    closed = most - 0.05 * ((1 - most) ** -999 - 1) / 999
    assert least_mean(0.012) == pytest.approx(0.95 * 0.012 + 0.988 * closed, rel=1e-6)
    assert 1.1 < least_mean(0.012) / 0.012 < 1.14
    assert least_mean_of_disjoint(0.012) > 1.5 * 0.012
    rng, limits = np.random.default_rng(5), []
    for _ in range(60):
        first, second = hidden_runs(rng, 0.0, 0.012)
        limits.append(upper_average(first, second, LEVEL))
    assert least_mean_of_disjoint(0.012) < np.mean(limits) < 2.2 * 0.012


def test_equal_means_are_called_equal():
    """Means of one half less a little; the control: means that differ by 0.02."""
    rng, count = np.random.default_rng(4), 200
    draw = lambda mean: mean + 0.02 * rng.uniform(-1, 1, size=NUM)
    for most in (0.05, 0.0125):
        same = np.mean([is_balanced(draw(0.49), draw(0.49), LEVEL, most) for _ in range(count)])
        assert same > LEVEL - Z_MAX * np.sqrt(0.05 * 0.95 / count)
        assert not is_balanced(draw(0.5), draw(0.48), LEVEL, most)
        assert not is_balanced(draw(0.48), draw(0.5), LEVEL, most)
