r"""Several targets at once: each gets the draws that it would get alone, and gold runs once."""

from typing import Any

import pytest
from support.pairs import KEY, NoisyGaussian, NumpyGaussian, arrays, gaussian

import aide
from aide.engine import draw_each
from aide.engine.known import NUM_REPEATED

SETTINGS: dict[str, Any] = {"num_gold": 21, "num_target": 10, "num_meta_target": 2}
GOLD = gaussian(0.1, 0.9)
TARGETS = {"near": NoisyGaussian(0.3, 0.8, 0.5), "far": NoisyGaussian(2.0, 0.1, 0.5)}


def _same_bits(one, other):
    for a, b in zip(arrays(one), arrays(other), strict=True):
        assert a.tobytes() == b.tobytes()
    assert [side.name for side in one.sides] == [side.name for side in other.sides]


@pytest.mark.parametrize("keep_values", [False, True])
def test_each_is_what_it_would_be_alone(keep_values):
    settings = {**SETTINGS, "keep_values": keep_values}
    found = dict(draw_each(KEY, GOLD, TARGETS, **settings))
    assert list(found) == list(TARGETS)
    for name, target in TARGETS.items():
        _same_bits(found[name], aide.draw(KEY, GOLD, target, **settings))
        assert (found[name].gold.values is not None) == keep_values
    assert arrays(found["near"])[1].tobytes() != arrays(found["far"])[1].tobytes()


def _python(mean, stop_after=10**6) -> Any:
    return aide.PythonAlgorithm(NumpyGaussian(mean, 1.0, stop_after))


def test_the_gold_standard_runs_once():
    gold = _python(0.0)
    dict(draw_each(KEY, gold, {str(mean): _python(mean) for mean in (0.1, 0.2, 0.3)}, **SETTINGS))
    looks = 3  # at its output, once for every target
    assert gold.algorithm.num_simulated == SETTINGS["num_gold"] + looks


def test_targets_come_one_by_one():
    targets = {"first": _python(0.1), "second": _python(0.2)}
    each = draw_each(KEY, _python(0.0), targets, **SETTINGS)
    name, _ = next(each)
    assert name == "first"
    assert targets["second"].algorithm.num_simulated <= 1 + NUM_REPEATED


def test_a_broken_target_is_seen_before_anything_runs():
    gold = _python(0.0)
    with pytest.raises(ValueError, match="same structure|same shape"):
        dict(
            draw_each(
                KEY, gold, {"good": _python(0.1), "bad": gaussian([0.0, 1.0], 1.0)}, **SETTINGS
            )
        )
    assert gold.algorithm.num_simulated <= 2


def test_every_target_has_its_own_checkpoint(tmp_path):
    files = {name: tmp_path / f"{name}.nc" for name in ("one", "two")}

    def call(stop_after):
        targets = {"one": _python(0.1), "two": _python(0.2, stop_after)}
        draws = dict(draw_each(KEY, _python(0.0), targets, checkpoint=files, **SETTINGS))
        return targets, draws

    with pytest.raises(KeyboardInterrupt):
        call(5)
    targets, draws = call(1000)
    assert targets["one"].algorithm.num_simulated <= 1 + NUM_REPEATED
    _same_bits(draws["two"], aide.draw(KEY, _python(0.0), _python(0.2), **SETTINGS))


def test_targets_are_needed():
    with pytest.raises(ValueError, match="at least one algorithm"):
        dict(draw_each(KEY, GOLD, {}))


def test_the_former_name_says_what_the_function_is_called_now():
    with pytest.raises(AttributeError, match="draw_many.*draw_each"):
        _ = aide.engine.draw_many
