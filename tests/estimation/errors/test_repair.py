"""Weights that correct the target's outputs: against known truths, and refused where they fail."""

import numpy as np
import pytest
from support import Z_MAX
from support.pairs import KEY, NoisyGaussian, gaussian, run

import aide


@pytest.mark.parametrize("metas", [1, 3])
def test_corrected_means_are_those_of_the_gold_standard(metas):
    """Also for an intractable target, whose weights are random: N(0.3, 1), truth N(0, 0.8²)."""
    gold, target = gaussian(0.0, 0.8), NoisyGaussian(0.3, 0.6, 0.8)
    found = run(gold, target, 100, 2000, num_meta_target=metas).repair()
    assert not found.is_refused
    [line] = found.records()
    assert abs(line["mean"]) < Z_MAX * line["mean_std_error"]
    assert line["target_mean"] == pytest.approx(0.3, abs=Z_MAX / np.sqrt(2000))
    assert line["sd"] == pytest.approx(0.8, abs=0.1)
    assert line["q50"] == pytest.approx(0.0, abs=0.15)
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.effective == pytest.approx(1 / np.sum(found.weights**2))
    assert "to within" in found.headline
    drawn = found.draws(seed=1)["x"]
    assert drawn.shape == (1, int(found.effective))
    assert abs(drawn.mean()) < Z_MAX * 0.8 / np.sqrt(found.effective)


def test_the_wrong_sign_is_seen():
    """The control: the inverse weights move the mean away."""
    found = run(gaussian(0.0, 0.8), gaussian(0.3, 1.0), 100, 2000).repair()
    weights = 1 / found.weights
    wrong = weights / weights.sum() @ found.columns["x"]
    assert abs(wrong) > 2 * Z_MAX * found.records()[0]["mean_std_error"]


def test_heavy_tails_are_refused():
    found = run(gaussian(0.0, 1.0), gaussian(4.0, 0.5), 300, 300).repair()
    assert found.k_hat > 0.7
    assert found.headline.startswith("No repair: the weights have too heavy a tail (k-hat")
    with pytest.raises(ValueError, match="These weights cannot be used: the weights have too"):
        found.draws()
    assert found.records() == []
    few = run(gaussian(0.0, 1.0), gaussian(0.0, 0.9), 20, 20).repair()
    assert "20 weights are too few" in few.headline
    rng, log_joint = np.random.default_rng(3), lambda x: -0.5 * x**2
    one, other = (
        aide.ReferenceDraws(rng.normal(size=60), log_joint, has_chains=False) for _ in "ab"
    )
    assert "no densities entered" in aide.estimate(KEY, one, other).repair().headline
