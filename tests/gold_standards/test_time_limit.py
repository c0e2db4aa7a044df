"""`max_seconds` holds: on a clock that only compilations and steps of pilots move."""

import jax
import numpy as np
import pytest

import aide
from aide.engine.programs.places import checking_often, compile_all
from aide.engine.programs.programs import Program, forget_executables
from aide.gold_standards import budget
from aide.gold_standards.budget import Budget, TooLate
from aide.gold_standards.pilots import pilot
from aide.problems.distributions import Normal

COMPILATION, STEP = 5.0, 0.5
"""Seconds that a compilation, and a step of the pilots, take on the clock of these tests."""
PRIOR = Normal(np.zeros(2), 3.0)


def log_joint(x):
    return PRIOR.log_prob(x) + Normal(np.ones(2), 0.3).log_prob(x)


@pytest.fixture
def clock(monkeypatch):
    """The seconds at which compilations began; the clock itself is that of all budgets."""
    seconds, begun, compile_one, stage = [0.0], [], Program._compile, pilot._stage

    def compiled(program, size):
        begun.append(seconds[0])
        seconds[0] += COMPILATION
        return compile_one(program, size)

    def stepped(*arguments):
        seconds[0] += STEP
        return stage(*arguments)

    forget_executables()
    monkeypatch.setattr(Program, "_compile", compiled)
    monkeypatch.setattr(pilot, "_stage", stepped)
    monkeypatch.setattr(budget, "now", lambda: seconds[0])
    return begun


@pytest.mark.parametrize(
    "most",
    [40.0, pytest.param(70.0, marks=pytest.mark.full), pytest.param(1e3, marks=pytest.mark.full)],
)
def test_nothing_is_compiled_when_time_is_up(clock, most):
    """Without a tight limit, the same gold standard compiles until later than that."""
    made = aide.gold_standard(0, log_joint, PRIOR, num_pilots=100, max_seconds=most, progress=False)
    assert np.isfinite(made.simulate(jax.random.key(1)).log_xi)
    if most == 1e3:
        assert max(clock) > 70.0
        assert made.record.passed
        return
    assert max(clock) < most
    assert not made.record.passed
    assert f"max_seconds={most:g} had passed" in " ".join(made.record.remarks)
    assert made.verdict == "undecided"


def test_a_path_that_was_cut_is_flagged(clock):
    made = aide.gold_standard(0, log_joint, PRIOR, num_pilots=100, max_seconds=1.0, progress=False)
    assert any("time was up when pilots had come to" in one for one in made.record.doubts)
    assert "none of its tests came to an end" in made.record.doubts


def test_a_check_ends_compilations_and_runs():
    def stop():
        raise TooLate("now")

    done = []
    with checking_often(stop), pytest.raises(TooLate):
        compile_all([lambda: done.append(1)])
    assert not done
    compile_all([lambda: done.append(1)])
    assert done == [1]


def test_a_budget_without_seconds_is_never_late(monkeypatch):
    monkeypatch.setattr(budget, "now", lambda: 1e9)
    with Budget(begun=0.0).until(0.0):
        pass
    with (
        pytest.raises(TooLate, match="50% of max_seconds=10 had passed"),
        Budget(seconds=10.0, begun=0.0).until(0.5),
    ):
        pass
