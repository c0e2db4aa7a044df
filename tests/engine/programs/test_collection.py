"""The garbage collector waits while programs are traced, and is then as it was."""

import gc
from threading import Barrier, Thread

import jax
import pytest

import aide
from aide.engine.programs.tracing import without_collection
from aide.problems.distributions import Normal


def test_it_is_on_again_after_nested_blocks_and_errors():
    assert gc.isenabled()
    with without_collection():
        with without_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), without_collection():
        raise KeyError
    assert gc.isenabled()


def test_who_turned_it_off_finds_it_off():
    gc.disable()
    try:
        with without_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_blocks_of_two_threads_overlap():
    opened, closed = Barrier(2), Barrier(2)

    def work() -> None:
        with without_collection():
            opened.wait()
            closed.wait()

    thread = Thread(target=work)
    thread.start()
    with without_collection():
        opened.wait()
    assert not gc.isenabled()  # the thread's block is open
    closed.wait()
    thread.join()
    assert gc.isenabled()


def test_an_estimate_pauses_it_and_leaves_it_on():
    seen = []

    def log_density(x):
        seen.append(gc.isenabled())
        return Normal(0.0, 1.0).log_prob(x)

    target = aide.Tractable(Normal(0.0, 1.0).sample, log_density)
    gold = aide.Tractable.of(Normal(0.0, 1.1))
    aide.estimate(jax.random.key(0), gold, target, num_gold=3, num_target=3)
    assert not any(seen[-2:])
    assert gc.isenabled()
