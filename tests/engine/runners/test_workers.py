"""Worker processes of plain Python: the same bits, and words where they cannot be had."""

import copyreg
import pickle
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import active_children

import equinox as eqx
import jax
import numpy as np
import pytest
from support.kill_me import SlowNormal
from support.pairs import arrays

import aide
from aide.engine.programs.sending import pickled_bound_methods
from aide.engine.programs.tracing import one_call
from aide.engine.runners import plain
from aide.engine.runners.choose import identity_of
from aide.engine.runners.plain import Workers

KEY = jax.random.key(2)


class Scaled(eqx.Module):
    """An object whose method is pickled."""

    factor: float

    def of(self, x: float) -> float:
        """A multiple."""
        return self.factor * x


def _draw(num_workers):
    pair = [aide.PythonAlgorithm(SlowNormal(m), num_workers=num_workers) for m in (0.0, 0.7)]
    return aide.draw(KEY, *pair, num_gold=70, num_target=40, num_meta_target=2, keep_values=True)


@pytest.mark.full
def test_processes_give_the_same_bits():
    one, two = _draw(1), _draw(2)
    assert not active_children()  # the workers ended with the call
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


def test_python_pickles_as_before_when_the_last_block_closes():
    before, method = dict(copyreg.dispatch_table), Scaled(3.0).of
    with pickled_bound_methods():
        with pickled_bound_methods():
            pass
        assert pickle.loads(pickle.dumps(method))(2.0) == 6.0
        assert copyreg.dispatch_table != before
    assert copyreg.dispatch_table == before


def test_a_rule_of_somebody_elses_is_put_back():
    rule, kind = (lambda method: (str, ())), type(Scaled(3.0).of)
    copyreg.pickle(kind, rule)
    try:
        with pickled_bound_methods():
            assert copyreg.dispatch_table[kind] is not rule
        assert copyreg.dispatch_table[kind] is rule
    finally:
        del copyreg.dispatch_table[kind]


def test_one_call_shares_its_workers_and_ends_them(monkeypatch):
    pools = []

    class Pool(ThreadPoolExecutor):
        """Stands for a pool of processes, which take seconds to start."""

        def __init__(self, num_workers, **_):
            super().__init__(num_workers)
            pools.append(self)

    monkeypatch.setattr(plain, "ProcessPoolExecutor", Pool)
    workers_of_two = Workers(SlowNormal(0.0), 2)
    with one_call():
        for _ in range(2):
            found = workers_of_two.map(_shift, [(1,), (2,), (3,)], lambda num: None)
        assert found == [1, 2, 3]
        assert len(pools) == 1
        pools[0].submit(int)
    with pytest.raises(RuntimeError, match="after shutdown"):
        pools[0].submit(int)
    workers_of_two.map(_shift, [(1,), (2,)], lambda num: None)
    assert len(pools) == 2


def _shift(thing: SlowNormal, number: int) -> int:
    return number
