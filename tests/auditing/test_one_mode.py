"""What a missing mode looks like: AIDE sees it, the usual diagnostics do not."""

import numpy as np
import pytest
from support import one_mode


def test_the_truth_is_what_a_calculation_by_hand_gives():
    r"""KL(p, q) = 64 - log 2 and KL(q, p) = log 2, up to the tails that the modes share."""
    truth = one_mode.true_divergence(one_mode.Normal(8.0, 1.0))
    assert truth == pytest.approx(64.0, abs=1e-9)
    assert one_mode.true_divergence(one_mode.Mixture()) == 0.0


@pytest.mark.full
def test_the_table():
    exact, narrow, fitted = one_mode.rows()
    for row in (narrow, fitted):
        assert abs(row.aide.value - row.truth) < 4 * row.aide.std_error
        both = row.aide.sandwich()
        assert both.lower < row.truth < both.upper
        assert both.lower > 40
        assert max(row.rhat, row.rhat_nuts) < 1.01  # the usual limit
        assert row.pareto_k < 0.5
    assert abs(exact.aide.value) < 1e-9
    assert np.isinf(exact.pareto_k)
    assert narrow.stein < exact.stein
    assert exact.rhat < 1.01
    assert exact.rhat_nuts > 1.1  # chains from both modes never cross
