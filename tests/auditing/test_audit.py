"""`aide.audit`: good gold standards, bad ones, and one that no test can see through."""

import dataclasses
import io
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import aide
from aide.auditing.audit import Widened, _budgets, audit, widen
from aide.auditing.simulated import audit_simulated
from aide.engine.programs.programs import compile_quickly
from aide.problems.distributions import Normal

KEY = jax.random.key(5)
PRIOR = Normal(0.0, 3.0)


class LogJoint(eqx.Module):
    """x ~ N(0, 3^2), y ~ N(x, 0.5^2)."""

    y: float = 1.0

    def __call__(self, x):
        return PRIOR.log_prob(x) + Normal(x, 0.5).log_prob(self.y)


def log_modes(x):
    """0.5 N(-8, 1) + 0.5 N(8, 1)."""
    return jnp.logaddexp(Normal(-8.0, 1.0).log_prob(x), Normal(8.0, 1.0).log_prob(x)) - jnp.log(2.0)


def one_mode(mean=-8.0, num_particles=200):
    return aide.sir(Normal(mean, 1.5), log_modes, num_particles=num_particles)


@pytest.fixture(autouse=True)
def _quick_compilation():
    with compile_quickly():
        yield


@pytest.mark.full
def test_a_good_gold_standard():
    gold = aide.sir(PRIOR, LogJoint(), num_particles=400)
    result = audit(KEY, gold, tolerance=0.2)
    assert result.passed, result
    assert len(result.tests) == 3
    text = repr(result)
    assert "passed at a tolerance of 0.2 nats" in text
    for name in ("half the budget", "double the budget", "a start 3 times as wide"):
        assert f"agrees with itself {'from' if 'start' in name else 'at'} {name}" in text
    assert "A mode that none of these versions visits" in text
    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(result)
    assert "passed" in console.export_text()


@pytest.mark.full
def test_too_few_particles_are_detected_by_the_budget():
    """Three particles from a wide prior; much meta-inference, so that the bounds are tight."""
    gold = aide.sir(Normal(0.0, 10.0), LogJoint(), num_particles=3)
    result = audit(KEY, gold, start_factor=None, num_meta=100, tolerance=0.1)
    assert result.verdict == "failed", result
    assert {test.outcome for test in result.tests} == {"failed"}
    assert "disagrees with itself at double the budget" in repr(result)


@pytest.mark.full
def test_a_narrow_start_agrees_with_itself_and_is_caught_from_another():
    gold = one_mode()
    narrow = audit(KEY, gold, start_factor=None)
    assert narrow.passed, narrow
    assert all(test.upper < 0.1 for test in narrow.tests)
    wide = gold.with_start(Normal(0.0, 10.0))
    found = audit(KEY, gold, start_factor=None, starts={"a wide start": wide})
    assert found.verdict == "failed"
    assert [test.outcome for test in found.tests] == ["passed", "passed", "failed"]
    # Half of the wide start's outputs lie in the other mode, where the best of 200 proposals of
    # N(-8, 1.5^2) explains them: 0.5 * (16^2 / (2 * 1.5^2) - log 200) = 26 nats or so.
    assert found.tests[-1].estimate.value > 15
    assert "disagrees with itself from a wide start" in repr(found)


@pytest.mark.full
def test_a_mode_nobody_visits_is_not_caught_as_the_words_say():
    starts = {"another narrow start": one_mode().with_start(Normal(-7.5, 2.0))}
    result = audit(KEY, one_mode(), starts=starts, start_factor=1.5)
    assert result.passed, result
    truth = aide.estimate(KEY, aide.Tractable.of(Modes()), one_mode(), num_gold=100, num_target=100)
    assert truth.value > 15  # and yet
    assert any("mode that none of these versions visits" in text for text in result.not_shown)


class Modes(eqx.Module):
    def sample(self, key):
        key_side, key_x = jax.random.split(key)
        side = jnp.where(jax.random.bernoulli(key_side), 8.0, -8.0)
        return side + jax.random.normal(key_x)

    def log_prob(self, x):
        return log_modes(x)


@pytest.mark.full
def test_simulated_data_join_the_verdict():
    def sample_joint(key):
        key_x, key_y = jax.random.split(key)
        x = PRIOR.sample(key_x)
        return x, Normal(x, 0.5).sample(key_y)

    def log_joint(x, y):
        return LogJoint(y)(x)

    def exact_for(y):
        return aide.Tractable.of(Normal(9 / 9.25 * y, np.sqrt(2.25 / 9.25)))

    good = audit_simulated(KEY, sample_joint, log_joint, exact_for, num_datasets=200)
    result = audit(KEY, one_mode(), start_factor=None, simulated=good)
    assert result.passed, result
    assert "nats on average over data simulated from the model" in repr(result)
    assert "With 95% confidence (from 200 data sets)" in repr(result)
    assert "which these runs cannot rule out, and any probability differs by at" in repr(result)
    assert all("How far it is from" not in text for text in result.not_shown)
    bad = audit_simulated(
        KEY, sample_joint, log_joint, lambda y: aide.Tractable.of(PRIOR), num_datasets=200
    )
    assert dataclasses.replace(result, simulated=bad).verdict == "failed"


class Averaging(eqx.Module):
    """The mean of some draws: a budget of its own, and no start to replace."""

    num_draws: int = eqx.field(static=True)
    log_z: float = 0.0

    def _law(self):
        return aide.Tractable.of(Normal(0.0, self.num_draws**-0.5))

    def simulate(self, key):
        return self._law().simulate(key)

    def regenerate(self, key, value):
        return self._law().regenerate(key, value)


@pytest.mark.full
def test_budget_as_a_function_and_algorithms_without_one():
    """Means of 50 and of 25 or 100 draws: 0.25 nats apart."""
    build = lambda factor: Averaging(int(50 * factor))
    result = audit(KEY, build(1), with_budget=build, tolerance=0.1, num_runs=2000)
    assert [test.name for test in result.tests] == [
        "itself at half the budget",
        "itself at double the budget",
    ]
    for test in result.tests:
        assert abs(test.estimate.value - 0.25) < 5 * test.estimate.std_error
    assert result.verdict == "failed"
    assert any("pass starts=" in text for text in result.not_shown)
    with pytest.raises(ValueError, match=r"nothing to compare .* pass with_budget=.* pass starts="):
        audit(KEY, build(1))


def test_settings_are_checked_first():
    with pytest.raises(TypeError, match="gold must be an inference algorithm"):
        audit(KEY, PRIOR)  # pyrefly: ignore[bad-argument-type]
    with pytest.raises(ValueError, match="tolerance must be a positive number"):
        audit(KEY, one_mode(), tolerance=0.0)
    with pytest.raises(TypeError, match="knows the start of sir"):
        aide.Tractable.of(PRIOR).with_start(PRIOR)


def test_other_starts_change_the_path_and_nothing_else():
    """Built from the other start, and with it put in later: the same algorithm."""
    other = Normal(2.0, 5.0)
    kernel = aide.kernels.RandomWalk(0.5)
    options = {"kernel": kernel, "num_temperatures": 4, "num_particles": 3}
    builders = (
        lambda start: aide.tempered_smc(start, LogJoint(), **options),
        lambda start: aide.sir(start, LogJoint(), num_particles=3),
        lambda start: aide.mcmc(start, LogJoint(), kernel=kernel, num_steps=3),
    )
    for build in builders:
        assert eqx.tree_equal(build(other), build(PRIOR).with_start(other))
        assert not eqx.tree_equal(build(other), build(PRIOR))


@pytest.mark.usefixtures("x64")
def test_widened_starts_are_distributions():
    wide = Widened(Normal([1.0, -2.0], [0.5, 2.0]), np.array([1.0, -2.0]), 3.0)
    same = Normal([1.0, -2.0], [1.5, 6.0])
    for seed in range(3):
        x = wide.sample(jax.random.key(seed))
        np.testing.assert_allclose(x, same.sample(jax.random.key(seed)), atol=1e-12)
        np.testing.assert_allclose(wide.log_density(x), same.log_prob(x), atol=1e-12)
    centre = widen(KEY, Normal(4.0, 1.0), 2.0).centre
    assert abs(centre - 4.0) < 5 / np.sqrt(1000)
    with pytest.raises(TypeError, match="real-valued"):
        widen(KEY, aide.problems.IsingModel(0.1).uniform(), 2.0)


@pytest.mark.full
def test_runs_of_the_gold_standard_are_shared_and_few_are_undecided():
    """A lower limit takes 50 runs; without one the words say so instead of an error."""
    gold = aide.sir(Normal(0.0, 1.0), Normal(1.5, 0.3).log_prob, num_particles=2)
    result = audit(KEY, gold, num_runs=20)
    own = [test.estimate.draws.gold.own for test in result.tests]
    for other in own[1:]:
        np.testing.assert_array_equal(own[0], other)
    double = dataclasses.replace(gold, num_particles=4)
    alone = aide.estimate(KEY, gold, double, num_gold=20, num_target=20)
    assert result.tests[1].estimate.value == pytest.approx(alone.value, abs=1e-9)
    assert "50 or more for a lower limit" in repr(result)
    assert result.verdict in ("undecided", "passed")


@pytest.mark.full
def test_the_budget_of_a_learned_chain_is_its_steps():
    """Reverse particles change nothing about the outputs: a chain always agrees with itself."""
    walk = aide.kernels.RandomWalk(0.5)
    chain = aide.mcmc(Normal(0.0, 1.0), Normal(1.0, 0.7).log_prob, kernel=walk, num_steps=4)
    refined = aide.refine(KEY, chain, num_reverse=8, num_pilots=60, num_components=1)
    versions, untested = _budgets(refined, None)
    found: list[Any] = list(versions.values())
    assert [version.chain.num_steps for version in found] == [2]
    assert all(version.num_reverse == 8 for version in found)
    assert "double the budget" in untested[0]
    versions, untested = _budgets(chain, None)
    found = list(versions.values())
    assert [version.num_steps for version in found] == [2, 8]
    assert not untested
