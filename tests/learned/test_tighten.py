"""The pair of reverse particles and meta-runs, with runs and a clock made up by hand."""

import importlib

import jax
import numpy as np
import pytest
from support.learned import learned_chain

import aide

module = importlib.import_module("aide.learned.tighten")

CHAIN = learned_chain("walk", 10)


class Clock:
    """Seconds that only meta-runs take."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


def made_up(monkeypatch, variance, cost):
    r"""$\log\xi = -v/2 + \sqrt v z$, the real trace's $+v/2 + \sqrt v z$, with $v$ by P."""
    clock = Clock()

    class Runs:
        def __init__(self, key, algorithm, role, num):
            self.num = algorithm.num_reverse
            self.rng, self.spread = np.random.default_rng(self.num), np.sqrt(variance(self.num))
            self.size = num
            self.log_xi = self.draw(1)[:, 0] + self.spread**2

        def draw(self, columns):
            noise = self.rng.normal(size=(self.size, columns))
            return self.spread * noise - 0.5 * self.spread**2

        def regenerate(self, first, last):
            clock.now += cost(self.num) * self.size * (last + 1 - first)
            return self.draw(last + 1 - first)

    monkeypatch.setattr(module, "MetaTrial", Runs)
    monkeypatch.setattr(module, "time", clock)
    key = jax.random.key(0)
    return lambda request, **options: aide.tighten(key, CHAIN, request, num_runs=2000, **options)


def test_where_particles_cost_nothing_they_are_chosen(monkeypatch):
    """Up to 1,000 of them a step costs the same, as on an accelerator."""
    found = made_up(monkeypatch, lambda num: 20.0 / num, lambda num: 1e-3)(0.05)
    assert found.num_meta == 1
    assert found.algorithm.num_reverse == found.chosen.num_reverse > 300
    assert found.chosen.seconds == pytest.approx(3e-3)


def test_where_particles_do_not_help_meta_runs_are_chosen(monkeypatch):
    """As with the other particles of SMC: a floor of 0.1 nats."""
    floor = lambda num: 0.1 + 2.0 / num
    found = made_up(monkeypatch, floor, lambda num: 1e-5 * num)(0.05, max_reverse=256)
    assert found.num_meta > 1
    assert found.chosen.looseness + found.chosen.std_error <= 0.05
    others = [t for t in found.trials if t.looseness + t.std_error <= 0.05]
    assert found.chosen.seconds == min(trial.seconds for trial in others)
    assert f"M = {found.num_meta}, with a looseness" in str(found)
    assert "tried" in str(found)
    with pytest.raises(ValueError, match="256 reverse particles and M = 1 leave a looseness"):
        made_up(monkeypatch, floor, lambda num: 1.0)(0.05, max_reverse=256, max_meta=1)


def test_looseness_with_several_meta_runs_is_that_of_estimates():
    r"""$E[\log\hat\xi_M]$ with the real trace less that without, by brute force."""
    rng = np.random.default_rng(1)
    fresh = rng.normal(size=(200_000, 4)) - 0.5
    own = rng.normal(size=(200_000, 1)) + 0.5
    scores = np.concatenate([own, fresh], axis=1)
    means = lambda columns: np.log(np.exp(columns).mean(axis=1))
    value, error, lone = module._looseness(scores)
    truth = (means(scores[:, :4]) - means(fresh)).mean()
    assert abs(value - truth) < 1e-12
    assert 0.0 < error < 0.01
    assert value < module._looseness(scores[:, :2])[0]
    assert lone is None


def test_one_run_that_rules_a_looseness_is_named():
    """A run that jumps where no pilot did, once in some 10,000, may cost thousands of nats."""
    scores = np.random.default_rng(2).normal(0.0, 0.1, (200, 2))
    scores[17, 0] += 3_000.0
    value, error, lone = module._looseness(scores)
    assert value == pytest.approx(15.0, abs=0.1)
    assert lone.gaps == pytest.approx((3_000.0,), abs=1.0)
    assert abs(lone.rest) < 0.1
    trial = module.TighteningTrial(16, 1, value, error, 1e-3, lone)
    assert "one run of 200 dominates it: its gap is 3e+03 nats" in trial.words
    assert "One run of 200 dominates it" in module._too_loose(trial, 0.05)
    assert trial.numbers()["lone"] == lone.gaps[0]
    assert module._looseness(np.delete(scores, 17, axis=0))[2] is None
