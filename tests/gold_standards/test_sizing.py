r"""Looseness by terms that are never negative, and how many particles it takes."""

from typing import Any

import jax
import numpy as np
import pytest

from aide.engine.runners.choose import Pairs
from aide.gold_standards import budget, sizing
from aide.gold_standards.budget import Budget
from aide.gold_standards.sizing import choose_size, rounded


def test_the_terms_have_the_mean_of_the_looseness():
    r"""On a law with $p(-l) = e^l p(l)$: exactly; a law without it is told apart."""
    sizes, shares = np.array([0.01, 0.3, 2.0, 9.0]), np.array([0.4, 0.3, 0.2, 0.1])
    log_ratio = np.concatenate([sizes, -sizes])
    chances = np.tile(shares, 2) / (1 + np.exp(log_ratio))
    assert chances.sum() == pytest.approx(1.0)
    terms = Pairs(np.zeros(8), log_ratio).terms
    assert np.all(terms >= 0)
    assert chances @ terms == pytest.approx(-chances @ log_ratio, rel=1e-12)
    wrong = np.tile(shares, 2) / 2  # control: signs by a fair coin
    assert wrong @ terms > 0.5
    assert wrong @ log_ratio == pytest.approx(0.0)


def test_impossible_regenerations_are_infinitely_loose():
    assert Pairs(np.zeros(2), np.array([0.0, -np.inf])).looseness == np.inf


@pytest.fixture
def tried(monkeypatch):
    """Runs of algorithms whose looseness is 30/P, without runs."""
    found = []

    def run_pairs(key, num_particles, role, num_runs):
        found.append(num_particles)
        return Pairs(np.zeros(1), np.array([_inverse(30.0 / num_particles)]))

    monkeypatch.setattr(sizing, "run_pairs", run_pairs)
    return found


def _itself(num_particles: int) -> Any:
    """In place of an algorithm: how many particles it has."""
    return num_particles


def _inverse(value):
    gaps = np.linspace(0.0, 50.0, 100_001)
    return np.interp(value, gaps * np.tanh(gaps / 2), gaps)


def test_particles_until_the_goal_is_met(tried):
    found = choose_size(jax.random.key(0), _itself, 40, 0.05, 10.0, Budget())
    assert 600 <= found.num_particles <= 1200
    assert found.num_particles == 2 * tried[-1]  # trials have half as many
    assert found.num_evaluations == sum(2 * sizing.NUM_RUNS * num * 10.0 for num in tried)


def test_the_budget_ends_the_search(tried):
    most = 2 * sizing.NUM_RUNS * 10.0 * 100
    found = choose_size(jax.random.key(0), _itself, 40, 0.05, 10.0, Budget(most))
    assert found.num_evaluations <= most
    assert found.num_particles < 600


def test_spent_seconds_end_the_search(tried, monkeypatch):
    """No trial begins when time is up; with a little left one does, and no second one."""
    spent = Budget(seconds=10.0, begun=budget.now() - 10.0)
    assert spent.seconds_left == 0.0
    assert spent.is_late(1.0)
    assert not Budget(seconds=10.0).is_late(0.5)
    found = choose_size(jax.random.key(0), _itself, 40, 0.05, 10.0, spent)
    assert (found.num_particles, tried) == (20, [])
    seconds = iter([7.0, 7.0, 9.0, 9.0])  # the trial takes 2 seconds
    monkeypatch.setattr(budget, "now", lambda: next(seconds))
    monkeypatch.setattr(sizing, "now", lambda: next(seconds))
    limited = Budget(seconds=10.0, begun=0.0)
    found = choose_size(jax.random.key(0), _itself, 40, 0.05, 10.0, limited)
    assert (found.num_particles, tried) == (20, [20])


def test_sizes_are_round():
    assert [rounded(num) for num in (0, 7, 33, 331, 33_001)] == [1, 7, 33, 340, 34_000]


@pytest.mark.parametrize(("power", "is_rare"), [(1.0, False), (0.1, True)])
def test_few_loose_outputs_call_for_steps_only_where_particles_do_not_help(
    monkeypatch, power, is_rare
):
    """One run of forty is loose, by so much per particle to some power; the first is not."""
    asked = []

    def run_pairs(key, num_particles, role, num_runs):
        asked.append(num_particles)
        gap = _inverse(40 * 3.0 * (num_particles / asked[0]) ** -power)
        gaps = np.full(40, _inverse(3.0)) if len(asked) == 1 else np.append(gap, np.zeros(39))
        return Pairs(np.zeros(40), gaps)

    monkeypatch.setattr(sizing, "run_pairs", run_pairs)
    found = choose_size(jax.random.key(0), _itself, 40, 0.05, 10.0, Budget())
    assert found.is_rare == is_rare
