"""Settings and data sets: the numbers of lone estimates, one program, an honest model."""

import jax
import numpy as np
import pytest
from support.pairs import KEY, NoisyGaussian, gaussian
from support.plain import plain

import aide
from aide.engine.programs import programs
from aide.reporting.numbers import with_error
from aide.tuning.data_sets import fit_hardness
from aide.tuning.point import build, settings_of, words_of


def test_points_are_lone_estimates():
    found = aide.sweep(
        KEY, plain(), plain_at, {"mean": [0.1, 1.0], "num_meta_target": [1, 2]}, num_target=60
    )
    assert [point.name for point in found.points] == [
        "mean=0.1, num_meta_target=1",
        "mean=0.1, num_meta_target=2",
        "mean=1, num_meta_target=1",
        "mean=1, num_meta_target=2",
    ]
    alone = aide.estimate(KEY, plain(), plain_at(1.0), num_gold=200, num_target=60)
    assert found.points[2].value == alone.value
    assert found.points[2].std_error == alone.std_error
    assert all(point.seconds > 0 for point in found.points)
    for point in found.points:  # shown are the bound that the limits are about, and its error
        assert point.low <= point.bound <= point.high
        assert with_error(point.bound, point.bound_std_error) in repr(found)
        assert point.bound_std_error < point.std_error
    assert "setting" in repr(found)
    assert len(found.to_csv().splitlines()) == 5
    found.plot()


def plain_at(mean):
    return plain(mean, 0.3, 0.95)


def test_settings_that_differ_in_floats_share_a_program(monkeypatch):
    compiled = []
    original = programs.Program._compile
    monkeypatch.setattr(
        programs.Program,
        "_compile",
        lambda self, size: (compiled.append(1), original(self, size))[1],
    )
    settings = {"mean": [float(m) for m in np.linspace(0.0, 1.0, 8)]}
    sizes = {"num_gold": 20, "num_target": 20}
    aide.sweep(
        jax.random.key(1),
        gaussian(0.0, 1.0),
        lambda mean: NoisyGaussian(mean, 0.3, 0.9),
        settings,
        **sizes,
    )
    assert len(compiled) <= 4  # simulate and regenerate of either algorithm


def test_settings():
    assert settings_of({"a": [1, 2], "b": "xy"}) == (
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    )
    assert words_of({"a": 0.123456, "b": "x"}) == "a=0.1235, b=x"
    with pytest.raises(ValueError, match="settings must be a grid"):
        settings_of({})
    with pytest.raises(ValueError, match="the same parameters"):
        settings_of([{"a": 1}, {"b": 1}])
    with pytest.raises(ValueError, match="cannot be had with b=1: pass a function"):
        build(gaussian(0.0, 1.0), {"b": 1})


def test_a_model_of_the_divergence_is_judged_on_data_it_has_not_seen():
    rng = np.random.default_rng(0)
    features = [{"size": x, "noise": z} for x, z in rng.normal(size=(40, 2))]
    hard = [np.exp(1.0 + 0.7 * f["size"] + 0.1 * rng.normal()) for f in features]
    model = fit_hardness(hard, features)
    assert model is not None
    assert model.explained > 0.9
    assert "The divergence changes with size" in model.words
    assert "noise" not in model.words
    wanted = np.exp(1.0 + 0.7 * 1.5)
    assert model.predict({"size": 1.5, "noise": 0.0}) == pytest.approx(wanted, rel=0.2)
    chance = fit_hardness([float(np.exp(rng.normal())) for _ in range(40)], features)
    assert chance is not None
    assert "do not predict the divergence" in chance.words
    # Errors at data left out are those of fits without them.
    y, errors = np.log(hard), []
    for left in range(40):
        rest = [i for i in range(40) if i != left]
        one = fit_hardness([hard[i] for i in rest], [features[i] for i in rest])
        assert one is not None
        errors.append(y[left] - np.log(one.predict(features[left])))
    assert model.error == pytest.approx(np.sqrt(np.mean(np.square(errors))))
    assert fit_hardness(hard[:4], features[:4]) is None


def test_data_sets():
    data = {f"d{i}": 0.2 * (i + 1) for i in range(6)}
    found = aide.tuning.sweep_data(
        KEY,
        data,
        lambda d: plain(0.0),
        lambda d: plain(d),
        features=lambda d: {"shift": float(np.log(d))},
        num_gold=100,
        num_target=100,
    )
    assert found.hardness is not None
    assert found.hardness.explained > 0.5
    assert "The divergence changes with shift" in repr(found)
    assert found.records()[0]["feature_shift"] == pytest.approx(np.log(0.2))
    found.plot()
    assert (
        "Too few data sets"
        in aide.tuning.sweep_data(
            KEY,
            [1.0, 2.0],
            lambda d: plain(),
            plain,
            features=lambda d: {"x": d},
            num_gold=5,
            num_target=5,
        ).notes[0]
    )
