"""Gold standards of state-space models: particles until the looseness asked for is reached."""

import equinox as eqx
import jax
import numpy as np
import pytest

import aide
from aide.engine.runners.choose import Pairs
from aide.problems import Normal


class Walk(eqx.Module):
    """A random walk with steps of standard deviation 1."""

    def __call__(self, x, t):
        return Normal(x, 1.0)


class Seen(eqx.Module):
    """The state with a little noise."""

    def __call__(self, x, t):
        return Normal(x, 0.3)


@pytest.fixture
def outlier() -> aide.StateSpaceModel:
    """Five observations, one of them 3.5 standard deviations from where the others lead."""
    return aide.StateSpaceModel(
        Normal(0.0, 1.0), Walk(), Seen(), np.array([0.1, -0.2, 3.5, 0.2, 0.1])
    )


def test_a_few_loose_outputs_do_not_end_the_search(outlier, monkeypatch):
    """Where a few outputs are loose, an annealed path is made longer; a filter needs particles."""
    monkeypatch.setattr(Pairs, "is_rare", True)
    gold = aide.gold_standard(jax.random.key(0), outlier, max_looseness=0.3, progress=False)
    value, error = gold.record.looseness
    assert value - 2 * error <= 0.3
    assert not any("were asked for" in remark for remark in gold.record.remarks)


def test_a_small_budget_is_said(outlier):
    """A control: 20,000 evaluations do not suffice, and the record says so."""
    gold = aide.gold_standard(
        jax.random.key(0), outlier, max_looseness=0.01, max_evaluations=20_000, progress=False
    )
    value, error = gold.record.looseness
    assert value - 2 * error > 0.01
    assert any("0.01 were asked for" in remark for remark in gold.record.remarks)
