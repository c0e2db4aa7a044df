r"""An estimate says in words what is wrong with it: infinite terms, heavy tails, too few runs.

Light tails are the control of the tail warning: a warning that cries wolf is not read.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.made import made_draws
from support.pairs import gaussian, run

import aide
from aide._core.types import GOLD
from aide.problems.distributions import Normal

CAUCHY = aide.Tractable(
    jax.random.cauchy, lambda x: -jnp.log1p(x * x) - math.log(math.pi), label="Cauchy"
)
UNIFORM = aide.Tractable(
    lambda key: jax.random.uniform(key, minval=-1.0, maxval=1.5),
    lambda x: jnp.where((x >= -1.0) & (x < 1.5), -math.log(2.5), -jnp.inf),
    label="uniform",
)


def _made(gold_terms, target_terms, gold_gap=0.0):
    """An estimate with the given terms; `gold_gap` is the looseness of every gold run."""
    sides = []
    for terms, gap in ((gold_terms, gold_gap), (target_terms, 0.0)):
        terms = np.asarray(terms, float)
        own = np.stack([terms, terms - gap], axis=1)
        sides.append((own, np.zeros((terms.size, 1))))
    return aide.estimation.Estimate(made_draws(sides[0], sides[1], log_z=(0.0, 0.0)))


def _mentions(result, *words):
    return any(all(word in note for word in words) for note in result.notes)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4])
def test_heavy_tails_are_reported(seed):
    key = jax.random.key(seed)
    result = run(CAUCHY, gaussian(0.0, 1.0), 1000, 1000, key=key)
    assert _mentions(result, "terms at the gold outputs", "heavy-tailed", "standard error")
    assert not _mentions(result, "terms at the target outputs", "heavy-tailed")
    swapped = run(gaussian(0.0, 1.0), CAUCHY, 1000, 1000, key=key)
    assert _mentions(swapped, "terms at the target outputs", "heavy-tailed")


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4])
def test_light_tails_are_not_reported(seed):
    key = jax.random.key(seed)
    result = run(gaussian(0.3, 0.9), gaussian(-0.2, 1.1), 1000, 1000, key=key)
    assert result.notes == ()


@pytest.mark.parametrize("num", [50, 100, 200, 500])
def test_tail_warning_rarely_cries_wolf(num):
    """Terms of a Gaussian pair, 200 estimates: 2% of them may be warned about, not 1 in 6."""
    rng = np.random.default_rng(11)
    alarms = 0
    for _ in range(200):
        x, y = rng.normal(size=num), 0.5 + 1.2 * rng.normal(size=num)
        ratio = lambda z: 0.5 * ((z - 0.5) / 1.2) ** 2 - 0.5 * z * z
        alarms += _mentions(_made(ratio(x), -ratio(y)), "heavy-tailed")
    assert alarms <= 4


@pytest.mark.parametrize(("num", "num_high"), [(500, 20), (1300, 104), (1500, 105), (2000, 100)])
def test_discrete_terms_have_light_tails(num, num_high):
    """Terms with two atoms, as for discrete outputs: nothing to warn about, no 0/0 on the way."""
    terms = np.r_[np.zeros(num - num_high), np.full(num_high, 3.0)]
    assert not _mentions(_made(terms, terms[::-1]), "heavy-tailed")


def test_outputs_without_mass_under_the_target():
    result = run(gaussian(0.2, 1.0), UNIFORM, 40, 30, num_meta_target=2)
    outside = int(np.isinf(result.draws.gold.cross[:, 0]).sum())
    assert 0 < outside < 40
    assert result.value == math.inf
    assert result.interval() == (math.inf, math.inf)
    assert result.total_variation() < 0.5  # some outputs have no mass, most have
    assert result.gold_to_target.num_infinite == outside
    assert result.target_to_gold.num_infinite == 0
    assert result.target_to_gold.value < 1.0
    words = f"{outside} of 40 outputs of the gold standard have no mass under the target"
    assert _mentions(result, words, "+inf")
    assert "≤ +inf nats" in repr(result)
    assert words in repr(result)
    assert "nan" not in repr(result)
    np.testing.assert_array_equal(result.meta_curve("target").value, [math.inf, math.inf])


def test_outputs_without_mass_under_the_gold_standard():
    result = run(UNIFORM, gaussian(0.2, 1.0), 30, 40)
    outside = int(np.isinf(result.draws.target.cross[:, 0]).sum())
    assert result.value == math.inf
    assert _mentions(result, f"{outside} of 40 outputs of the target have no mass under the gold")


def test_a_negative_estimate_is_explained():
    low = _made(np.linspace(-2.0, 1.8, 60), np.linspace(-1.0, 1.0, 60))
    assert low.value < 0
    assert _mentions(low, "below 0 by chance")
    high = _made(np.linspace(-1.8, 2.0, 60), np.linspace(-1.0, 1.0, 60))
    assert not _mentions(high, "below 0")


def test_a_negative_estimate_that_chance_cannot_explain():
    """Below -log(10,000) / N a density or a pair is wrong; "by chance" would be false."""
    result = _made(np.linspace(-2.0, 0.0, 60), np.linspace(-1.0, 1.0, 60))
    assert not _mentions(result, "by chance")
    assert _mentions(result, "1 nat below 0", "at most once in 10,000 times")
    small = math.log(1e4) / 60
    for factor, chance in ((0.9, True), (1.1, False)):
        shifted = _made(np.linspace(-1.0, 1.0, 60) - factor * small, np.linspace(-1.0, 1.0, 60))
        assert _mentions(shifted, "by chance") == chance


def test_a_single_run():
    for num_gold, num_target in ((1, 1), (1, 60), (60, 1)):
        result = run(gaussian(0.1, 0.7), gaussian(0.3, 1.3), num_gold, num_target)
        assert math.isnan(result.std_error)
        assert result.interval() == (-math.inf, math.inf)
        assert result.total_variation() == 1.0
        assert _mentions(result, "single run has no standard error", "2 or more")
        assert "nan" not in repr(result)


def test_few_runs():
    assert _mentions(run(gaussian(0.1, 0.7), gaussian(0.3, 1.3), 20, 60), "Only 20 runs")


def test_looseness_is_reported_where_it_dominates():
    noise = np.linspace(-1.0, 1.0, 60)
    loose = _made(0.5 + noise, noise, 0.4)
    assert _mentions(loose, "adds 0.4 of the 0.5 nats", "at its own outputs")
    assert not _mentions(_made(0.5 + noise, noise, 0.1), "at its own outputs")
    gap = np.r_[np.inf, np.zeros(59)]
    assert _mentions(_made(0.5 + noise, noise, gap), "looseness is infinite", "num_meta_gold")


def test_one_run_that_rules_the_looseness_is_named():
    """Its standard error is as large as it is, so that nothing else would say so."""
    noise = np.linspace(-1.0, 1.0, 500)
    gap = 0.02 + 0.05 * noise
    assert not _mentions(_made(0.5 + noise, noise, gap), "dominates the looseness")
    gap[17] = 754_000.0
    ruled = _made(0.5 + noise, noise, gap)
    assert ruled.looseness.gold is not None
    assert ruled.looseness.gold.value == pytest.approx(1508.0, rel=1e-3)
    words = "One run of 500 dominates the looseness of the gold standard, 1.5e+03 nats"
    assert _mentions(ruled, words, "its gap is 7.5e+05 nats", "over all others is 0.02")
    many = np.where(np.arange(500) < 50, 20.0, gap * (gap < 1.0))
    assert not _mentions(_made(0.5 + noise, noise, many), "the looseness of the gold")


def test_few_runs_that_share_a_looseness_are_named():
    """Three gaps of one failing meta-inference, none of which is half of the sum alone."""
    noise = np.linspace(-1.0, 1.0, 500)
    gap = 0.02 + 0.05 * noise
    gap[[3, 77, 400]] = 3173.0, 2458.0, 2308.0
    ruled = _made(0.5 + noise, noise, gap)
    assert _mentions(ruled, "3 runs of 500 dominate the looseness of the gold standard, 16 nats")
    assert _mentions(ruled, "their gaps are 3.2e+03, 2.5e+03, 2.3e+03 nats", "failed there 3 times")


@pytest.mark.parametrize("gap", [0.4, 30.0])
def test_one_printout_gives_one_piece_of_advice(gap):
    """Either more M or better meta-inference, never both; said in one place."""
    noise = np.linspace(-1.0, 1.0, 60)
    text = repr(_made(gap + noise, noise, gap + 0.1 * noise))
    assert text.count("aise num_meta_gold") + text.count("mprove meta-inference") == 1
    assert "num_meta_gold first" not in text


@pytest.mark.parametrize(("spread", "noted"), [(1.1, True), (0.9, False)])
def test_estimates_at_one_output_that_scatter_are_reported(spread, noted):
    """With spread s of each of two estimates, their difference has s times the root of 2."""
    gaps = np.sqrt(2) * spread * np.random.default_rng(0).normal(size=2000)
    result = _made(np.zeros(2000), np.zeros(2000), gaps)
    words = (
        f"gold standard at one output differ by {spread:.1f} nats",
        "aide.diagnose(key, gold)",
    )
    assert _mentions(result, *words) == noted
    assert not _mentions(result, "of the target at one output scatter")


def test_steps_that_are_to_blame_are_named():
    """Where scores scatter, for algorithms that describe their steps; others are passed over."""
    log_joint = lambda x: Normal(0.0, 0.1).log_prob(x)
    bold = aide.tempered_smc(
        Normal(0.0, 3.0),
        log_joint,
        kernel=aide.kernels.RandomWalk(60.0),
        num_particles=4,
        temperatures=[0.3, 1.0],
    )
    exact = aide.Tractable.of(Normal(0.0, 0.1))
    found = aide.estimate(jax.random.key(0), exact, bold, num_gold=60, num_target=60)
    text = " ".join(found.notes)
    assert "target at one output differ by" in text
    assert "Steps of the target: The kernel accepts" in text
    assert "proposals at temperature 0.3 (step 1): take smaller steps there" in text
    assert "aide.diagnose" not in text
    assert found.closer_look is not None
    assert found.closer_look.words(GOLD) == ()
    stored = " ".join(aide.estimation.Estimate(found.draws).notes)  # the algorithms are not at hand
    assert "accepts" not in stored
    assert "aide.diagnose(key, target) shows its steps" in stored
