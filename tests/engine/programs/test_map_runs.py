r"""One way to run something many times, and one word for code that cannot be traced."""

from threading import Lock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pairs import NumpyGaussian, gaussian

import aide
from aide._core.random import run_key
from aide.engine.programs.map_runs import (
    Asked,
    compile_together,
    compiling_beside,
    map_runs,
    quick_while_fast,
)
from aide.engine.programs.places import Chunk
from aide.engine.programs.prepared import NotTraceable, PreparedRuns
from aide.engine.programs.programs import num_executables
from aide.engine.programs.tracing import one_call, users_code_ran
from aide.engine.runners.choose import runner_of
from aide.engine.runners.plain import PythonRunner
from aide.engine.runners.traced import TracedRunner

KEY = jax.random.key(5)
TRACES = []


def shifted(subject, key, run, shift):
    TRACES.append("once")
    return subject["scale"] * jax.random.normal(run_key(key, run, 0)) + shift


ROWS = (np.arange(7, dtype=np.uint32), np.linspace(0.0, 1.0, 7))


def test_every_row_is_one_run_in_double_precision(x64):
    counts = []
    found = map_runs(shifted, {"scale": 0.5}, KEY, ROWS, what="it", report=counts.append)
    expected = [shifted({"scale": 0.5}, KEY, *row) for row in zip(*ROWS, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.dtype == np.float64
    assert sum(counts) == 7


def test_prepared_runs_trace_once_and_others_trace_again():
    """Only within one call do equal operations on one object share a trace."""
    like = tuple(jax.ShapeDtypeStruct((), a.dtype) for a in ROWS)
    subject = {"scale": 0.5, "handle": Lock()}
    TRACES.clear()
    runs = PreparedRuns(shifted, subject, KEY, like, what="it")
    first, second = (runs.map(KEY, ROWS, Chunk(7, size)) for size in (7, 2))
    np.testing.assert_allclose(first, second, rtol=1e-12)
    assert len(TRACES) == 1
    PreparedRuns(shifted, subject, KEY, like, what="it")
    assert len(TRACES) == 2  # another call
    with one_call():
        PreparedRuns(shifted, subject, KEY, like, what="it")
        PreparedRuns(shifted, subject, KEY, like, what="it")
    assert len(TRACES) == 3


def branching(subject, key, run):
    return 1.0 if run > 3 else 0.0


def test_code_that_cannot_be_traced_is_named():
    words = r"my function is not traceable by JAX\. It said: .* Write it with jax\.numpy"
    with pytest.raises(NotTraceable, match=words) as caught:
        map_runs(branching, None, KEY, ROWS[:1], what="my function")
    assert "boolean" in caught.value.reason
    with pytest.raises(ZeroDivisionError):  # control: own errors come as they are
        map_runs(lambda *_: jnp.ones(()) * (1 // 0), None, KEY, ROWS[:1], what="my function")


def test_every_kind_of_algorithm_has_its_runner():
    assert isinstance(runner_of(gaussian(0.0, 1.0)), TracedRunner)
    assert isinstance(runner_of(aide.PythonAlgorithm(NumpyGaussian())), PythonRunner)


def test_what_changes_while_a_call_runs_is_an_error():
    """A function that reads a global which the builder of the next algorithm changes."""
    like = tuple(jax.ShapeDtypeStruct((), a.dtype) for a in ROWS)
    box = [1.0]

    def scaled(subject, key, *row):
        return shifted(subject, key, *row) * box[0]

    def use(times):
        for _ in range(times):
            PreparedRuns(scaled, {"scale": 0.5}, KEY, like, what="it")
            users_code_ran()

    with one_call():
        use(5)  # control: nothing changes
        box[0] = 2.0
        with pytest.raises(RuntimeError, match="changed while this call ran"):
            use(4)


def test_programs_compiled_before_their_calls_serve_them():
    """Together and beside other work; the calls compile nothing more."""
    one = Asked(shifted, {"scale": 0.25}, ROWS, "one")
    other = Asked(shifted, {"scale": np.full(1, 0.25)}, ROWS, "other", often=True)
    third = Asked(shifted, {"scale": np.full((1, 1), 0.25)}, ROWS, "third")
    with one_call(), quick_while_fast():
        compile_together(KEY, one, other)
        with compiling_beside(KEY, third):
            pass
        before = num_executables()
        for asked in (one, other, third):
            map_runs(*asked[:2], KEY, asked.rows, what=asked.what, often=asked.often)
    assert num_executables() == before
