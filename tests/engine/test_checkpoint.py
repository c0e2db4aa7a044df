r"""An interrupted run continues where it stopped, and its numbers are those of an unbroken one.

The algorithms are plain Python and raise `KeyboardInterrupt` after a given number of runs; what a
second call runs is counted. Whole blocks are kept, so a few runs of the broken block are repeated.
"""

import math
import os
from typing import Any

import numpy as np
import pytest
from support.pairs import KEY, NumpyGaussian, arrays, assert_same, leaves_of

import aide
from aide.engine.known import NUM_REPEATED

NUM_GOLD, NUM_TARGET = 120, 100
BLOCK = 40
"""Most runs that an interruption of a plain Python algorithm may cost."""
FORMATS = ["runs.nc", "runs.zarr"]


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)


def _draw(gold, target, path=None, **options: Any):
    counts: dict[str, Any] = {"num_gold": NUM_GOLD, "num_target": NUM_TARGET}
    algorithms = [
        aide.PythonAlgorithm(inner, label=name)
        for inner, name in ((gold, "gold"), (target, "target"))
    ]
    return aide.draw(KEY, *algorithms, checkpoint=path, **{**counts, **options})


def _pair(stop_gold=math.inf, stop_target=math.inf):
    return NumpyGaussian(0.0, 1.0, stop_gold), NumpyGaussian(0.4, 1.3, stop_target)


def _interrupt(path, stop_gold=math.inf, stop_target=math.inf, **options):
    with pytest.raises(KeyboardInterrupt):
        _draw(*_pair(stop_gold, stop_target), path, **options)
    return aide.engine.load(path)


@pytest.fixture(scope="module")
def unbroken():
    return _draw(*_pair(), keep_values=True)


def _resume(path, unbroken, **options):
    """Call again; return how many runs that took, with the one look at the output allowed."""
    gold, target = _pair()
    assert_same(_draw(gold, target, path, **options), unbroken)
    return gold.num_simulated, target.num_simulated


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("keep_values", [False, True])
def test_interrupted_in_the_gold_standard(tmp_path, unbroken, name, keep_values):
    path = tmp_path / name
    saved = _interrupt(path, stop_gold=100, keep_values=keep_values)
    done = saved.gold.num_runs
    assert 100 - BLOCK <= done < 100
    assert saved.target.num_runs == 0
    runs, _ = _resume(path, unbroken, keep_values=keep_values)
    assert NUM_GOLD - done <= runs <= NUM_GOLD - done + 1 + NUM_REPEATED


def test_many_cores_do_not_cost_more_runs(tmp_path, monkeypatch):
    """Plain Python runs one by one, however many cores there are."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert _interrupt(tmp_path / "runs.nc", stop_gold=100).gold.num_runs >= 100 - BLOCK


@pytest.mark.parametrize("name", FORMATS)
def test_interrupted_before_the_target_has_any_run(tmp_path, unbroken, name):
    path = tmp_path / name
    saved = _interrupt(path, stop_target=1, keep_values=True)
    assert (saved.gold.num_runs, saved.target.num_runs) == (NUM_GOLD, 0)
    runs, _ = _resume(path, unbroken, keep_values=True)
    assert runs <= 1 + NUM_REPEATED


@pytest.mark.parametrize("keep_values", [False, True])
def test_interrupted_in_the_target(tmp_path, unbroken, keep_values):
    path = tmp_path / "runs.nc"
    saved = _interrupt(path, stop_target=90, keep_values=keep_values)
    done = saved.target.num_runs
    assert 90 - BLOCK <= done < 90
    runs, others = _resume(path, unbroken, keep_values=keep_values)
    assert runs <= 1 + NUM_REPEATED
    assert NUM_TARGET - done <= others <= NUM_TARGET - done + 1 + NUM_REPEATED


def test_interrupted_twice(tmp_path, unbroken):
    path = tmp_path / "runs.nc"
    first = _interrupt(path, stop_gold=60).gold.num_runs
    second = _interrupt(path, stop_gold=60).gold.num_runs
    assert second > first
    _resume(path, unbroken)


@pytest.mark.parametrize("metas", [{}, {"num_meta_target": 2}])
def test_finished_runs_survive_an_interrupted_extension(tmp_path, metas):
    """Breaking off a call for larger N or M must not throw away what the file already held."""
    path = tmp_path / "runs.nc"
    _draw(*_pair(), path, keep_values=True)
    saved = _interrupt(path, stop_gold=60, num_gold=4 * NUM_GOLD, **metas)
    assert saved.gold.num_runs >= NUM_GOLD
    assert saved.target.num_runs == NUM_TARGET


def test_a_place_that_cannot_be_written_to_is_an_error_before_the_work(tmp_path):
    gold, target = _pair()
    with pytest.raises(OSError, match="missing"):
        _draw(gold, target, tmp_path / "missing" / "runs.nc")
    assert gold.num_simulated + target.num_simulated <= 2


def test_finished_file_is_the_answer(tmp_path, unbroken):
    path = tmp_path / "runs.nc"
    _draw(*_pair(), path, keep_values=True)
    assert_same(aide.engine.load(path), unbroken)
    runs = _resume(path, unbroken, keep_values=True)
    assert max(runs) <= 1 + NUM_REPEATED


def test_values_survive(tmp_path, unbroken):
    path = tmp_path / "runs.nc"
    _interrupt(path, stop_target=90, keep_values=True)
    draws = _draw(*_pair(), path, keep_values=True)
    for one, two in ((draws.gold, unbroken.gold), (draws.target, unbroken.target)):
        np.testing.assert_array_equal(leaves_of(one.values)[0], leaves_of(two.values)[0])


def test_an_error_keeps_finished_blocks_too(tmp_path, unbroken):
    path = tmp_path / "runs.nc"
    gold, target = _pair()
    broken = NumpyGaussian(0.0, 1.0)
    score: Any = lambda rng, x: math.nan if broken.num_simulated > 80 else gold.regenerate(rng, x)
    broken.regenerate = score
    with pytest.raises(ValueError, match="nan"):
        _draw(broken, target, path)
    assert aide.engine.load(path).gold.num_runs > 0
    assert_same(_draw(gold, target, path), unbroken)
    assert arrays(unbroken)[0].shape == (NUM_GOLD, 2)
