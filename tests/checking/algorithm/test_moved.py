r"""Outputs hidden among moved copies: the stated rate holds at any tail, gross errors are found.

Exact densities in NumPy; no program is compiled.
"""

import numpy as np
import pytest
from scipy import special, stats

from aide.checking.algorithm.moved import hidden_p_value, moved_evidence

FALSE_ALARM = 1e-4
COVARIANCE = np.array([[1.0, 0.95], [0.95, 1.0]])
RIGHT = {
    "normal": (lambda r, n: r.normal(size=(n, 1)), lambda x: stats.norm.logpdf(x[:, 0])),
    "correlated": (
        lambda r, n: r.multivariate_normal(np.zeros(2), COVARIANCE, n),
        lambda x: stats.multivariate_normal.logpdf(x, np.zeros(2), COVARIANCE),
    ),
    "ten": (lambda r, n: r.normal(size=(n, 10)), lambda x: -0.5 * (x**2).sum(axis=1)),
    "t3": (lambda r, n: r.standard_t(3, (n, 1)), lambda x: stats.t.logpdf(x[:, 0], 3)),
    "Cauchy": (
        lambda r, n: r.standard_cauchy((n, 3)),
        lambda x: stats.cauchy.logpdf(x).sum(axis=1),
    ),
    "skewed": (
        lambda r, n: np.exp(r.normal(size=(n, 1))),
        lambda x: stats.lognorm.logpdf(x[:, 0], 1.0),
    ),
    "edge": (lambda r, n: r.exponential(size=(n, 1)), lambda x: stats.expon.logpdf(x[:, 0])),
    "pole": (lambda r, n: r.gamma(0.2, size=(n, 1)), lambda x: stats.gamma.logpdf(x[:, 0], 0.2)),
    "two modes": (
        lambda r, n: r.normal(np.where(r.random((n, 1)) < 0.3, -4.0, 3.0)),
        lambda x: np.logaddexp(
            np.log(0.3) + stats.norm.logpdf(x[:, 0], -4),
            np.log(0.7) + stats.norm.logpdf(x[:, 0], 3),
        ),
    ),
    "rare mode": (
        lambda r, n: r.normal(np.where(r.random((n, 1)) < 0.01, 10.0, 0.0)),
        lambda x: np.logaddexp(
            np.log(0.01) + stats.norm.logpdf(x[:, 0], 10),
            np.log(0.99) + stats.norm.logpdf(x[:, 0], 0),
        ),
    ),
}
WRONG = {
    "sign": (lambda r, n: r.normal(0.5, 1.0, (n, 1)), lambda x: stats.norm.logpdf(x[:, 0], -0.5)),
    "missing Jacobian": (  # of a scale on a logarithmic axis
        lambda r, n: np.log(r.gamma(3.0, size=(n, 1))),
        lambda x: 2 * x[:, 0] - np.exp(x[:, 0]),
    ),
    "variance as scale": (
        lambda r, n: r.normal(0.0, 0.1, (n, 3)),
        lambda x: stats.norm.logpdf(x, 0.0, 0.01).sum(axis=1),
    ),
    "a little too wide": (
        lambda r, n: r.normal(0.0, 1.3, (n, 3)),
        lambda x: stats.norm.logpdf(x, 0.0, 1.69).sum(axis=1),
    ),
    "a factor": (
        lambda r, n: r.normal(size=(n, 4)),
        lambda x: 12.0 * x[:, 0] - 0.5 * (x**2).sum(axis=1),
    ),
}


def _p_value(case, seed, num, shift=0.0, is_integer=None):
    sample, log_density = case
    x = sample(np.random.default_rng([seed, num]), num)
    score = lambda rows, copies: log_density(copies) + shift
    return moved_evidence(seed, x, log_density(x) + shift, score, is_integer).p_value


def _rate(case, num_replications, level, is_integer=None):
    seeds = range(num_replications)
    found = [_p_value(case, seed, 100, is_integer=is_integer) for seed in seeds]
    return np.mean(np.array(found) < level)


@pytest.mark.parametrize("name", RIGHT)
def test_right_densities_pass(name):
    """Ten replications at the rate of `aide.check`; the next test has the rate itself."""
    assert _rate(RIGHT[name], 10, FALSE_ALARM) == 0.0


@pytest.mark.full
@pytest.mark.parametrize("name", RIGHT)
def test_false_alarms_stay_below_the_stated_rate(name):
    """1,000 replications at 5%: above 0.085 would be five standard errors over."""
    assert _rate(RIGHT[name], 1000, 0.05) < 0.085


@pytest.mark.parametrize("name", WRONG)
def test_gross_errors_are_found(name):
    assert max(_p_value(WRONG[name], seed, 1000) for seed in range(3)) < FALSE_ALARM


def test_constants_cancel():
    p_values = [_p_value(WRONG["sign"], 0, 100, shift) for shift in (0.0, 1000.0)]
    assert p_values[0] == pytest.approx(p_values[1], rel=1e-6)


def test_integers():
    poisson = lambda rate: (
        lambda r, n: r.poisson(3.0, (n, 1)).astype(float),
        lambda x: stats.poisson.logpmf(x[:, 0], rate),
    )
    assert _rate(poisson(3.0), 20, FALSE_ALARM, np.array([True])) == 0.0
    assert _p_value(poisson(5.0), 0, 1000, is_integer=np.array([True])) < FALSE_ALARM


def test_random_xi_obeys_the_law_too():
    r"""SIR with two particles: $\xi$ of the own trace here, of `regenerate` at the copies."""
    rng = np.random.default_rng(5)
    log_gamma = lambda x: stats.norm.logpdf(x, 1.0, 0.6)
    log_prior = lambda x: stats.norm.logpdf(x)

    def log_xi(x, other):
        weights = np.stack([log_gamma(a) - log_prior(a) for a in (x, other)])
        return log_gamma(x) - special.logsumexp(weights, axis=0) + np.log(2.0)

    pairs = rng.normal(size=(2, 3000))
    weights = log_gamma(pairs) - log_prior(pairs)
    first = rng.random(3000) < special.expit(weights[0] - weights[1])
    x, other = np.where(first, pairs, pairs[::-1])
    score = lambda rows, copies: log_xi(copies[:, 0], rng.normal(size=len(copies)))
    assert moved_evidence(1, x[:, None], log_xi(x, other), score).p_value > FALSE_ALARM
    wrong = lambda rows, copies: score(rows, copies) + 0.5 * copies[:, 0]
    own = log_xi(x, other) + 0.5 * x
    assert moved_evidence(1, x[:, None], own, wrong).p_value < FALSE_ALARM


def test_repeated_outputs_count_once():
    sample, log_density = RIGHT["normal"]
    x = np.tile(sample(np.random.default_rng(0), 40), (25, 1))
    found = moved_evidence(0, x, log_density(x), lambda rows, copies: log_density(copies))
    assert found.num == 0
    assert found.p_value == 1.0


def test_the_bound_is_a_bound():
    """One fair coin per row: the exact tail of the binomial lies below the bound."""
    values = np.tile([1.0, -1.0], (40, 1))
    values[:5] *= -1.0  # 35 of 40 heads
    exact = 2 * stats.binom.sf(34, 40, 0.5)
    assert exact < hidden_p_value(values, np.zeros((40, 2)))[0] < 20 * exact
