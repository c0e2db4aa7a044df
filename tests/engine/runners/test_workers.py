"""Worker processes of plain Python: the same bits, and words where they cannot be had."""

import jax
import numpy as np
import pytest
from support.kill_me import SlowNormal
from support.pairs import arrays

import aide
from aide.engine.runners.choose import identity_of

KEY = jax.random.key(2)


def _draw(num_workers):
    pair = [aide.PythonAlgorithm(SlowNormal(m), num_workers=num_workers) for m in (0.0, 0.7)]
    return aide.draw(KEY, *pair, num_gold=70, num_target=40, num_meta_target=2, keep_values=True)


@pytest.mark.full
def test_processes_give_the_same_bits():
    one, two = _draw(1), _draw(2)
    for a, b in zip(arrays(one), arrays(two), strict=True):
        assert a.tobytes() == b.tobytes()
    np.testing.assert_array_equal(one.target.values, two.target.values)


@pytest.mark.full
def test_runs_of_one_process_are_extended_by_two():
    more = aide.draw(
        KEY,
        *(aide.PythonAlgorithm(SlowNormal(m), num_workers=2) for m in (0.0, 0.7)),
        num_gold=90,
        num_target=40,
        num_meta_target=2,
        extend=_draw(1),
    )
    assert len(more.gold.own) == 90


def test_workers_are_no_part_of_the_identity():
    one, two = (aide.PythonAlgorithm(SlowNormal(0.0), num_workers=n) for n in (1, 2))
    assert identity_of(one) == identity_of(two)


def test_what_cannot_be_sent_is_named():
    class Local(SlowNormal):
        """Lives in a function: no other process can import it."""

    local = aide.PythonAlgorithm(Local(0.0), num_workers=2)
    with pytest.raises(TypeError, match=r"cannot be sent.*top of a module"):
        aide.draw(KEY, local, local, num_gold=4, num_target=4)


def test_a_wrong_number_of_workers_is_named():
    with pytest.raises(ValueError, match="num_workers must be an integer of at least 1, got 0"):
        aide.PythonAlgorithm(SlowNormal(0.0), num_workers=0)
