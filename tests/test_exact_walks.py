"""Moments of a Brownian motion with errors, by quadrature, beside a sum over all scales by hand."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from benchmarks import exact_walks

OBSERVED = np.array([0.3, np.nan, -0.4, 0.1])


def _by_hand(step, error):
    """Conditional mean and variance of states, and log evidence, by solving the joint law."""
    seen = ~np.isnan(OBSERVED)
    prior = step**2 * np.minimum.outer(np.arange(1, 5), np.arange(1, 5))
    inner = prior[np.ix_(seen, seen)] + error**2 * np.eye(3)
    gain = np.linalg.solve(inner, prior[seen]).T
    evidence = multivariate_normal(np.zeros(3), inner).logpdf(OBSERVED[seen])
    return gain @ OBSERVED[seen], np.diag(prior - gain @ prior[seen]), evidence


def test_known_scales_are_a_conditional_normal_law():
    mean, variance, _ = _by_hand(0.2, 0.1)
    found = exact_walks.known_scales(OBSERVED, 0.2, 0.1)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(found.sd**2, variance, rtol=1e-12)


@pytest.mark.parametrize("prior_sd", [2.0, 1.0])
def test_unknown_scales_are_an_average_over_a_grid(prior_sd):
    """The same grid by hand; with another prior, which is wrong on purpose, it disagrees."""
    log_s, log_e = np.linspace(*exact_walks.STEPS, 40), np.linspace(*exact_walks.ERRORS, 80)
    total, mean, square = 0.0, np.zeros(6), np.zeros(6)
    for a in log_s:
        for b in log_e:
            states, variance, evidence = _by_hand(np.exp(a), np.exp(b))
            weight = np.exp(evidence - 0.5 * (a**2 + b**2) / prior_sd**2)
            x = np.array([np.exp(a), np.exp(b), *states])
            total, mean = total + weight, mean + weight * x
            square += weight * (x**2 + np.array([0, 0, *variance]))
    found = exact_walks.unknown_scales(OBSERVED, 40)
    expected = mean / total, np.sqrt(square / total - (mean / total) ** 2)
    agrees = np.allclose(found.mean, expected[0]) and np.allclose(found.sd, expected[1])
    assert agrees == (prior_sd == exact_walks.PRIOR_SD)
