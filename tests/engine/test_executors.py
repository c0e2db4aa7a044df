r"""Blocks of runs through an executor: whoever computes them, the draws are the same bits."""

import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from support import kill_me
from support.pairs import KEY, NoisyGaussian, NumpyGaussian, arrays, gaussian

import aide
from aide._core.types import GOLD, TARGET
from aide.engine.known import NUM_REPEATED
from aide.engine.stage import _keep_finished

PAIR = NoisyGaussian(0.3, 0.8, 0.5), gaussian(0.1, 0.9)


def _draw(*pair, **options):
    settings: dict[str, Any] = {"num_gold": 50, "num_target": 30, "num_meta_gold": 2}
    settings |= {"chunk_size": 2, "keep_values": True, **options}
    return aide.draw(KEY, *pair, **settings)


def _same_bits(one, other):
    for a, b in zip(arrays(one), arrays(other), strict=True):
        assert a.tobytes() == b.tobytes()
    for side in ("gold", "target"):
        np.testing.assert_array_equal(getattr(one, side).values, getattr(other, side).values)


def test_threads_give_the_same_bits():
    with ThreadPoolExecutor(3) as pool:
        _same_bits(_draw(*PAIR, executor=pool), _draw(*PAIR))


class Hasty(kill_me.SlowNormal):
    """Later runs are finished sooner."""

    def simulate(self, rng):
        x, log_xi = super().simulate(rng)
        time.sleep(0.003 * abs(x))
        return x, log_xi


def test_the_order_in_which_blocks_finish_does_not_matter():
    pair = [aide.PythonAlgorithm(Hasty(mean)) for mean in (0.0, 0.7)]
    with ThreadPoolExecutor(8) as pool:
        _same_bits(_draw(*pair, executor=pool), _draw(*pair))


def _spawned():
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def test_processes_give_the_same_bits():
    with _spawned() as pool:
        _same_bits(kill_me.draw(executor=pool), kill_me.draw())


@pytest.mark.full
def test_processes_give_the_same_bits_of_compiled_programs():
    """In the workers everything is traced and compiled again, in the chunks of this process."""
    model = aide.problems.LocalLevelModel([0.3, -1.0, 0.5], 0.8, 0.5)
    pair = model.posterior(), aide.ParticleFilter(model.state_space(), 7)
    with _spawned() as pool:
        _same_bits(_draw(*pair, executor=pool), _draw(*pair))


def test_what_cannot_be_sent_is_named():
    normal = aide.problems.distributions.Normal(0.0, 1.0)
    local = aide.Tractable(normal.sample, lambda x: normal.log_prob(x))
    words = r"target\.log_density cannot be sent.*top of a module.*cloudpickle"
    with _spawned() as pool, pytest.raises(TypeError, match=words):
        _draw(gaussian(0.0, 1.0), local, executor=pool)


def test_own_errors_come_through():
    broken = aide.PythonAlgorithm(NumpyGaussian(0.0, 1.0))
    broken.algorithm.regenerate = lambda rng, x: float("nan")
    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match="gave log_xi = nan"):
        _draw(broken, aide.PythonAlgorithm(NumpyGaussian()), executor=pool)


def test_an_interruption_keeps_what_is_finished(tmp_path):
    """Not one finished block is lost: one worker, so they are all but the broken one."""
    path = tmp_path / "runs.nc"

    def call(stop_after, **options):
        gold = NumpyGaussian(0.0, 1.0, stop_after)
        pair = aide.PythonAlgorithm(gold), aide.PythonAlgorithm(NumpyGaussian(0.4, 1.3))
        return gold, _draw(*pair, checkpoint=path, **options)

    with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt) as caught:
        call(31, executor=pool)
    assert any("continues" in note for note in caught.value.__notes__)
    done = aide.engine.load(path).gold.num_runs
    assert 20 <= done <= 30
    gold, draws = call(1000)
    assert 50 - done < gold.num_simulated <= 50 - done + 1 + NUM_REPEATED
    path.unlink()
    _same_bits(draws, call(1000)[1])


def test_overtaken_blocks_are_waited_for():
    """Block 1 is finished, block 0 not yet; of the target none."""
    places = ((GOLD, 0), (GOLD, 5), (GOLD, 9), (TARGET, 0))
    blocks: list[Any] = [(*place, Future()) for place in places]
    blocks[1][2].set_result(("second", 1))
    for *_, future in (blocks[0], *blocks[2:]):
        future.set_running_or_notify_cancel()
    kept = []
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(_keep_finished, blocks, lambda *block: kept.append(block))
        time.sleep(0.1)
        assert not waiting.done()
        blocks[0][2].set_result(("first", 1))
        waiting.result(timeout=5)
    assert kept == [(GOLD, 0, "first"), (GOLD, 5, "second")]
