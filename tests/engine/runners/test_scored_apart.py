"""Algorithms that run and are scored apart: the numbers of their two methods, in two programs."""

import copy

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aide
from aide._core.random import derive
from aide._core.types import TARGET
from aide.engine.programs.places import Chunk
from aide.engine.programs.prepared import ignore
from aide.engine.programs.programs import Program, compile_quickly
from aide.engine.runners.choose import runner_of
from aide.engine.runners.runner import MetaRuns
from aide.engine.runners.traced import ScoredApartRunner, TracedRunner
from aide.problems.distributions import Normal

GOLD = Normal(0.0, 1.5)


class NoisyNormal(eqx.Module):
    r"""$x = u + e$ with $u$ and $e$ standard normal; $r(u; x)$ is $N(x/2, 1/2)$, shifted."""

    shift: float

    def run_with_trace(self, key):
        first, second = jax.random.normal(key, (2,))
        return first + second, {"first": first}

    def score_trace(self, key, value, trace, is_own):
        guess = Normal(0.5 * value + self.shift, jnp.sqrt(0.5))
        first = jnp.where(is_own, trace["first"], guess.sample(derive(key, 1)))
        return Normal(0.0, 1.0).log_prob(first) + (
            Normal(first, 1.0).log_prob(value) - guess.log_prob(first)
        )

    def simulate(self, key):
        value, trace = self.run_with_trace(key)
        return aide.Draw(value, self.score_trace(key, value, trace, True))

    def regenerate(self, key, value):
        return self.score_trace(key, value, {"first": jnp.zeros(())}, False)


@pytest.fixture
def compiled(monkeypatch):
    """Sizes of the programs that are compiled."""
    sizes, compile_one = [], Program._compile
    note = lambda self, size: (sizes.append(size), compile_one(self, size))[1]
    monkeypatch.setattr(Program, "_compile", note)
    return sizes


def test_the_numbers_are_those_of_both_methods():
    algorithm, key, runs = NoisyNormal(0.1), jax.random.key(3), np.arange(7)
    apart, together = runner_of(algorithm), TracedRunner(algorithm)
    assert isinstance(apart, ScoredApartRunner)
    results = []
    for runner in (apart, together):
        values, log_xi = runner.simulate(key, TARGET, runs, Chunk(7), ignore)
        asked = MetaRuns(TARGET, values, runs, np.arange(1, 4), own=True)
        results.append((values, log_xi, runner.regenerate(key, asked, Chunk(21), ignore)))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-14)


def test_runs_and_meta_runs_share_a_program(compiled):
    counts = {"num_gold": 4, "num_target": 9, "num_meta_target": 5}
    # A gold standard whose functions no earlier test has compiled.
    gold = aide.Tractable(lambda key: GOLD.sample(key), lambda x: GOLD.log_prob(x))
    with compile_quickly():
        aide.draw(jax.random.key(0), gold, NoisyNormal(0.2), **counts)
    assert len(compiled) == 4  # two of the gold standard, the run, the score


def test_runners_are_pickled_as_what_they_are():
    assert isinstance(copy.copy(runner_of(NoisyNormal(0.1))), ScoredApartRunner)
