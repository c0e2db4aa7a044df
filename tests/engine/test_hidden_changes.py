r"""Data that hide: a change is followed, or stored runs are refused, however a mean is reached.

The mean of a unit normal changes from 0 to 2 between two calls, by ways that no look at code,
closures or attributes finds (`support.hidden_ways`). Programs are traced in every call, so that
each is seen.
"""

import sys
from typing import Any

import jax
import pytest
from support.hidden_ways import MODULE, VARIABLE, WAYS, as_before
from support.made import swapped
from support.plain import AFTER, BEFORE, Jaxed, draw, fixed, is_right

import aide

OFFSET = BEFORE


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setitem(sys.modules, "aide_hidden_settings", MODULE)
    token = VARIABLE.set(BEFORE)
    as_before()
    globals()["OFFSET"] = BEFORE
    yield
    VARIABLE.reset(token)
    as_before()


QUICK = (
    "a module held in a closure",
    "globals()",
    "a default factory",
    "the mask of an array",
    "dict.get",
    "an attribute of a metaclass",
    "the namespace of exec",
    "a static field that claims to be equal",
    "a loop inside a jitted function",
)


@pytest.mark.parametrize(
    "way", [way if way in QUICK else pytest.param(way, marks=pytest.mark.full) for way in WAYS]
)
def test_a_hidden_change_is_followed_and_old_runs_are_refused(way, tmp_path):
    case, path = WAYS[way](), tmp_path / "runs.nc"
    before = (Jaxed(fixed), Jaxed(case.read))
    stored = draw(before, checkpoint=path)
    assert not is_right(stored, 1)  # control: it is seen that the old mean is not the new one
    changed = case.change() or case.read
    after = (before[0], before[1] if changed is case.read else Jaxed(changed))
    assert is_right(draw(after), 1)
    for reuse in ({"extend": stored}, {"checkpoint": path}):
        with pytest.raises(ValueError, match="not made by this target algorithm"):
            draw(after, num_target=6, **reuse)
    with pytest.raises(ValueError, match="not made by this gold algorithm"):
        draw(after[::-1], share=swapped(stored))


def test_estimates_follow_too():
    """The public call, twice, with one function object."""
    case = WAYS["a jitted function"]()
    gold, target = Jaxed(fixed), Jaxed(case.read)
    sizes: dict[str, Any] = {"num_gold": 100, "num_target": 100}
    before = aide.estimate(jax.random.key(0), gold, target, **sizes).value
    case.change()
    after = aide.estimate(jax.random.key(0), gold, target, **sizes).value
    assert after > before + 1.0  # means 0.5 apart, then 1.5: 0.25 and 2.25 nats


def test_users_compiled_programs_stay():
    """Nothing of ours makes JAX trace a user's own jitted function again."""
    traces = []

    @jax.jit
    def mine(x):
        traces.append("mine")
        return x + OFFSET

    mine(1.0)
    globals()["OFFSET"] = AFTER
    draw((Jaxed(fixed), Jaxed(lambda: mine(0.0))))
    traces.clear()
    mine(1.0)
    assert not traces
