"""Tolerances for errors of what people report: the cheapest setting within, and sweeps."""

import numpy as np
import pytest
from support.pairs import KEY, gaussian, run

import aide
from aide.estimation.errors.find import find_table
from aide.estimation.errors.overlap import apart_in
from aide.estimation.errors.tolerance import ErrorCloseness, judge_errors
from aide.estimation.errors.variables import OutputVariable

MEANS = [1.0, 0.4, 0.08, 0.02]
"""Errors of the mean in sds, exactly: the gold standard is N(0, 1)."""
TOLERANCE = "means 0.1 sd, sds 10%"


def shifted(mean):
    return gaussian(mean, 1.0)


def cost(setting):
    return -setting["mean"]


@pytest.fixture(scope="module")
def found():
    settings = {"mean": MEANS}
    return aide.tune(KEY, gaussian(0.0, 1.0), shifted, settings, tolerance=TOLERANCE, cost=cost)


def test_the_cheapest_setting_with_small_errors_is_chosen(found):
    assert found.setting == {"mean": 0.08}
    assert found.verdict == "passed"
    part = found.best.closeness.parts[0]
    assert part.least <= 0.08 <= part.most <= 0.1
    assert f"within {TOLERANCE} of" in found.headline
    assert found.headline.endswith("(95%)")
    outcomes = {record["mean"]: record["outcome"] for record in found.records()}
    assert outcomes[1.0] == "not tried: errors above"
    assert outcomes[0.4] in ("failed", "not tried: errors above")
    assert found.numbers()["tolerance"] == TOLERANCE
    shown = repr(found)
    assert "a mean off by" in shown
    assert "an sd off by" in shown
    assert "probability 5% at most" in " ".join(shown.split())
    found.plot()
    assert found.to_json()
    assert found.to_csv()


def test_a_wide_tolerance_takes_a_cheaper_one_and_a_narrow_one_none():
    """The control: the same settings, other tolerances, other choices; nats decide nothing."""
    gold = gaussian(0.0, 1.0)
    wide = aide.tune(KEY, gold, shifted, {"mean": [1.0, 0.4]}, tolerance="means 0.6 sd", cost=cost)
    assert wide.setting == {"mean": 0.4}
    assert wide.best is not None
    assert wide.best.limits[1] > 0.1  # nats that a tolerance of 0.1 would not pass
    none = aide.tune(KEY, gold, shifted, {"mean": [1.0, 0.4]}, tolerance="means 0.1 sd", cost=cost)
    assert none.best is None
    assert none.verdict == "undecided"
    assert none.headline.startswith("No setting was shown to be within means 0.1 sd of")


def test_a_folder_continues_with_the_same_tolerance(tmp_path):
    gold, settings = gaussian(0.0, 1.0), {"mean": [0.4, 0.02]}
    call = {"tolerance": TOLERANCE, "cost": cost, "folder": tmp_path}
    first = aide.tune(KEY, gold, shifted, settings, **call)
    again = aide.tune(KEY, gold, shifted, settings, **call)
    assert again.numbers() == first.numbers()
    with pytest.raises(ValueError, match="holds pilots of another call"):
        aide.tune(KEY, gold, shifted, settings, **{**call, "tolerance": "means 0.2 sd"})


def test_a_sweep_marks_settings_within():
    found = aide.sweep(KEY, gaussian(0.0, 1.0), shifted, {"mean": [1.0, 0.02]}, tolerance=TOLERANCE)
    assert found.headline.endswith(f"; 1 of them within {TOLERANCE}")
    far, near = found.points
    alone = aide.estimate(KEY, gaussian(0.0, 1.0), shifted(0.02), num_gold=200, num_target=200)
    assert near.closeness is not None
    assert far.closeness is not None
    assert near.closeness.outcome == alone.judge(TOLERANCE).outcome == "passed"
    assert far.closeness.outcome == "failed"
    assert near.record()["means_high"] == near.closeness.parts[0].most
    assert "a mean off by" in repr(found)
    found.plot()
    assert found.to_json()


def test_bad_words_are_refused_before_anything_runs():
    with pytest.raises(ValueError, match="tolerance must be like"):
        aide.tune(KEY, gaussian(0, 1.0), shifted, {"mean": MEANS}, tolerance="means small")
    with pytest.raises(ValueError, match="need the outputs"):
        aide.tune(
            KEY, gaussian(0, 1.0), shifted, {"mean": MEANS}, tolerance=TOLERANCE, keep_values=False
        )
    with pytest.raises(ValueError, match="tolerance must be like"):
        aide.sweep(KEY, gaussian(0, 1.0), shifted, {"mean": MEANS}, tolerance="sds much")


def test_shares_are_errors_over_their_tolerance():
    estimate = run(gaussian(0.0, 1.0), gaussian(0.3, 1.0), 200, 200)
    wanted = aide.estimation.ErrorTolerance(means=0.1)
    [part] = judge_errors(estimate, wanted).parts
    error = estimate.errors().table.variables[0].errors[0]
    np.testing.assert_allclose(part.shares, (error.low / 0.1, error.error / 0.1, error.high / 0.1))


class Point:
    """Always 0, in integers, beside a geometric law: no density ratio at its other values."""

    def __init__(self, share):
        self.share = share

    def sample(self, key):
        import jax.numpy as jnp
        from jax import random

        return jnp.where(random.bernoulli(key, self.share), 2, 0).astype(jnp.int32)

    def log_prob(self, value):
        import jax.numpy as jnp

        inside = jnp.where(value == 2, jnp.log(self.share), jnp.log1p(-self.share))
        return jnp.where((value == 0) | (value == 2), inside, -jnp.inf)


def test_a_target_that_never_moves_does_not_pass():
    """It has no sd: the verdict is open, in words."""
    found = aide.estimate(
        KEY, aide.Tractable.of(Point(0.5)), aide.Tractable.of(Point(0.0)), num_gold=100
    )
    assert found.errors().table.collapsed == ("x",)
    judged = found.judge("means 0.1 sd, sds 10%")
    assert isinstance(judged, ErrorCloseness)
    assert judged.outcome == "undecided"
    assert "x cannot be judged" in judged.limits
    assert "never moves" in judged.remedy
    x = np.repeat([1.0, 2.0], 5)
    table = find_table(apart_in((5, 5), (None, None)), [OutputVariable("x", x)], 0.95)
    assert table.unjudged == ("x",)
