r"""Whatever changes about an algorithm, stored runs are refused or right, and programs follow.

Every way in which a mean can reach a density is changed from 0 to 2, in the gold standard and in
the target, between two calls that share, extend, continue a checkpoint, or only use the same
compiled programs. "Right" is known: the scores are those of a unit normal with the new mean.
"""

import functools
import itertools
import math
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pairs import KEY
from support.plain import AFTER, BEFORE, Changed, Jaxed, Plain, draw, fixed, is_right

import aide
import aide.engine.programs.identity
from aide._core.random import SIMULATE, run_key, stream_key
from aide._core.types import TARGET
from aide.problems.distributions import Normal

NUMBER = BEFORE
ARRAY = np.array([BEFORE])
TABLE: dict[str, Any] = {"mean": BEFORE, "parts": [np.array([BEFORE])]}
SETTINGS = types.ModuleType("user_settings")
SETTINGS.mean = BEFORE  # pyrefly: ignore


def read_number():
    return NUMBER


def read_through_a_call():
    return 1.0 * read_number()


def read_inside():
    return [NUMBER + 0.0 * i for i in range(1)][0]


def read_settings():
    return SETTINGS.mean


@jax.jit
def read_jitted():
    return jnp.asarray(NUMBER)


def _body(carry, _):
    return carry + NUMBER, None


def read_in_a_loop():
    return jax.lax.scan(_body, jnp.asarray(0.0), None, length=1)[0]


class Holder:
    """An object whose method is the function."""

    shared = BEFORE

    def __init__(self):
        self.mean = BEFORE

    def own(self):
        return self.mean

    def of_class(self):
        return self.shared

    def constant(self):
        return 0.0


def _set(mean):
    global NUMBER
    NUMBER = mean
    ARRAY[0] = TABLE["mean"] = TABLE["parts"][0][0] = mean
    SETTINGS.mean = mean  # pyrefly: ignore
    Holder.shared = mean


def _global(read):
    return lambda: Changed(read, lambda: _set(AFTER) or read)


def _closure():
    mean = BEFORE

    def change():
        nonlocal mean
        mean = AFTER
        return read

    def read():
        return mean

    return Changed(read, change)


def _closed_over_array():
    data = np.array([BEFORE])
    read = lambda: data[0]
    return Changed(read, lambda: data.__setitem__(0, AFTER) or read)


def _default():
    data = np.array([BEFORE])
    read = lambda data=data: data[0]
    return Changed(read, lambda: data.__setitem__(0, AFTER) or read)


def _partial():
    data = [BEFORE]
    read = functools.partial(lambda data: data[0], data)
    return Changed(read, lambda: data.__setitem__(0, AFTER) or read)


def _method():
    holder = Holder()
    return Changed(holder.own, lambda: setattr(holder, "mean", AFTER) or holder.own)


def _class_body():
    class Own(Holder):
        pass

    read = Own().constant
    return Changed(read, lambda: setattr(Own, "constant", lambda self: 2.0) or Own().constant)


def _code():
    def read():
        return 0.0

    def other():
        return 2.0

    return Changed(read, lambda: setattr(read, "__code__", other.__code__) or read)


def _attribute():
    def read():
        return read.mean  # pyrefly: ignore

    read.mean = BEFORE  # pyrefly: ignore
    return Changed(read, lambda: setattr(read, "mean", AFTER) or read)


WAYS: dict[str, Any] = {
    "global": _global(read_number),
    "global, two calls away": _global(read_through_a_call),
    "global, inside a comprehension": _global(read_inside),
    "global array in place": _global(lambda: ARRAY[0]),
    "global dict in place": _global(lambda: TABLE["mean"]),
    "array inside a dict in place": _global(lambda: TABLE["parts"][0][0]),
    "attribute of a module": _global(read_settings),
    "class attribute": _global(Holder().of_class),
    "closure": _closure,
    "array of a closure in place": _closed_over_array,
    "default argument in place": _default,
    "partial in place": _partial,
    "object of a method": _method,
    "class body": _class_body,
    "code of the function": _code,
    "attribute of the function": _attribute,
    "another function": lambda: Changed(lambda: 0.0, lambda: lambda: 2.0),
}
TRACED = {
    **WAYS,
    "global of a jitted function": _global(read_jitted),
    "global of a loop's body": _global(read_in_a_loop),
}


@pytest.fixture(autouse=True)
def _as_before():
    _set(BEFORE)
    yield
    _set(BEFORE)
    jax.config.update("jax_threefry_partitionable", True)


KEPT = (1, "extend")


REUSE = [
    # Every way once, and one way through everything.
    pytest.param(*case, marks=() if case[0] == "global" or case[1:] == KEPT else pytest.mark.full)
    for case in itertools.product(WAYS, (0, 1), ("share", "extend", "checkpoint"))
]


@pytest.mark.parametrize(("way", "role", "how"), REUSE)
def test_a_changed_algorithm_is_refused_or_right(way, role, how, tmp_path):
    case = WAYS[way]()
    make = lambda read: [
        aide.PythonAlgorithm(Plain(read if side == role else fixed), label=str(side))
        for side in (0, 1)
    ]
    path = tmp_path / "runs.nc"
    stored = draw(make(case.read), **({"checkpoint": path} if how == "checkpoint" else {}))
    assert not is_right(stored, role)  # control: it is seen that the old mean is not the new one
    pair = make(case.change())
    reuse: Any = {"checkpoint": path} if how == "checkpoint" else {how: stored}
    name = ("gold", "target")[role]
    with pytest.raises(ValueError, match=r"algorithm: JAX does not trace.*unchanged=True"):
        draw(pair, **reuse, num_gold=6, num_target=6)
    if how == "share" and role == 1:  # another target is what sharing is for
        assert is_right(draw(pair, **reuse, unchanged=True), role)
        return
    with pytest.raises(ValueError, match=f"not made by this {name} algorithm"):  # runs are repeated
        draw(pair, **reuse, num_gold=6, num_target=6, unchanged=True)
    assert is_right(draw(pair), role)


QUICK = ("array of a closure in place",)


@pytest.mark.parametrize(
    "way", [way if way in QUICK else pytest.param(way, marks=pytest.mark.full) for way in TRACED]
)
def test_programs_follow_what_changed(way):
    case = TRACED[way]()
    draw((Jaxed(fixed), Jaxed(case.read)))
    assert is_right(draw((Jaxed(fixed), Jaxed(case.change()))), 1)


def test_programs_follow_how_bits_are_made():
    """The flag that changes JAX's random bits changes the draws, compiled before or not."""
    pair = (Jaxed(fixed), Jaxed(fixed))
    before = draw(pair).target.values
    jax.config.update("jax_threefry_partitionable", False)
    found = draw(pair).target.values
    with jax.enable_x64(True):
        stream = stream_key(KEY, TARGET, SIMULATE)
        expected = [fixed() + jax.random.normal(run_key(stream, run, 0)) for run in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.abs(found - before).min() > 1e-6  # control: the bits are others


@pytest.mark.parametrize("how", ["share", "extend", "checkpoint"])
@pytest.mark.parametrize("what", ["key", "version", "jax", "bits"])
def test_another_key_or_version_is_refused(what, how, tmp_path, monkeypatch):
    pair = [Jaxed(fixed) for _ in range(2)]
    path = tmp_path / "runs.nc"
    stored = draw(pair, **({"checkpoint": path} if how == "checkpoint" else {}))
    options: dict[str, Any] = {"checkpoint": path} if how == "checkpoint" else {how: stored}
    if what == "key":
        options["key"] = jax.random.key(12345)
    elif what == "bits":
        jax.config.update("jax_threefry_partitionable", False)
    else:
        module = aide.engine.programs.identity if what == "version" else jax
        monkeypatch.setattr(module, "__version__", "9.9.9")
    with pytest.raises(ValueError, match="another key|version of (aide|jax)|threefry"):
        draw(pair, **options)


@pytest.mark.parametrize("how", ["share", "extend", "checkpoint"])
@pytest.mark.parametrize(
    "sizes", [{"num_gold": 6}, {"num_target": 7}, {"num_meta_gold": 3}, {"num_meta_target": 2}]
)
def test_other_numbers_of_runs_are_right(sizes, how, tmp_path):
    pair = [aide.PythonAlgorithm(Plain(read)) for read in (fixed, lambda: 0.25)]
    path = tmp_path / "runs.nc"
    stored = draw(pair, **({"checkpoint": path} if how == "checkpoint" else {}))
    options: Any = {"checkpoint": path} if how == "checkpoint" else {how: stored}
    options["unchanged"] = True
    again, fresh = draw(pair, **sizes, **options), draw(pair, **sizes)
    for one, two in ((again.gold, fresh.gold), (again.target, fresh.target)):
        np.testing.assert_array_equal(one.own, two.own)
        np.testing.assert_array_equal(one.cross, two.cross)
    assert math.isfinite(aide.summarise(again).value)


def test_python_code_is_reused_only_on_its_users_word():
    """Neither the object itself nor an equal one is taken for unchanged in another call."""
    pair = [aide.PythonAlgorithm(Plain(fixed)), aide.PythonAlgorithm(Plain(fixed))]
    stored = draw(pair)
    with pytest.raises(ValueError, match=r"Python code of Plain.*unchanged=True.*aide_identity"):
        draw(pair, extend=stored)
    assert draw(pair, extend=stored, unchanged=True).gold.num_runs == 4


def test_a_stated_identity_is_taken_at_its_word():
    class Stated(Plain):
        aide_identity = "version 1"

    pair = [aide.PythonAlgorithm(Stated(fixed)), aide.PythonAlgorithm(Stated(fixed))]
    stored = draw(pair)
    assert draw(pair, extend=stored).gold.num_runs == 4
    Stated.aide_identity = "version 2"
    with pytest.raises(ValueError, match=r"its aide_identity changed since"):
        draw(pair, extend=stored)


def test_a_name_is_no_part_of_an_algorithm():
    """Control: a new label and an equal algorithm are welcome."""
    stored = draw([Jaxed(fixed), aide.Tractable.of(Normal(0.1, 1.0), "b")])
    again = draw([Jaxed(fixed), aide.Tractable.of(Normal(0.1, 1.0), "d")], extend=stored)
    np.testing.assert_array_equal(stored.gold.own, again.gold.own)
    assert again.target.name == "d"
