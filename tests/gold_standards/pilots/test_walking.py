r"""How fast a population forgets, where that is known."""

import numpy as np
import pytest

from aide.gold_standards.pilots.population import Population
from aide.gold_standards.pilots.walking import LAGS, Walked


def walked(log_ratios):
    flat = np.zeros((len(log_ratios), 1))
    after = Population(flat, flat, log_ratios[:, -1])
    return Walked(after, log_ratios, np.ones((len(log_ratios), LAGS, 1)), np.ones(1))


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.9])
def test_the_time_of_an_autoregression(rate):
    r"""$(1 + \rho)/(1 - \rho)$, beyond the last lag too."""
    rng = np.random.default_rng(3)
    columns = [rng.normal(size=100_000)]
    for _ in range(LAGS):
        fresh = rng.normal(size=100_000)
        columns.append(rate * columns[-1] + np.sqrt(1 - rate**2) * fresh)
    found = walked(np.column_stack(columns)).time
    assert found == pytest.approx((1 + rate) / (1 - rate), rel=0.05)


def test_nothing_to_forget_and_nothing_forgotten():
    constant = walked(np.full((10, LAGS + 1), -3.0))
    assert constant.time == 1.0
    rounding = walked(-300.0 + 1e-11 * np.random.default_rng(4).normal(size=(10, LAGS + 1)))
    assert rounding.time == 1.0
    stuck = walked(np.repeat(np.arange(10.0)[:, None], LAGS + 1, axis=1))
    assert stuck.time > 1000
