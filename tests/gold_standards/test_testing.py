"""What the test of a gold standard may cost."""

import jax
import pytest
from support.pairs import gaussian

from aide.gold_standards import testing


class Asked(Exception):
    """What `compare` was asked for."""


@pytest.fixture
def asked(monkeypatch):
    """`run_tests` up to the comparison: the most meta-runs per output."""

    def compare(*arguments, most_meta, **options):
        raise Asked(most_meta)

    monkeypatch.setattr(testing, "compare", compare)

    def most_meta(spent, cost, num_rivals=1):
        one = gaussian(0.0, 1.0)
        rivals = {f"rival {i}": gaussian(0.0, 1.1) for i in range(num_rivals)}
        with pytest.raises(Asked) as found:
            testing.run_tests(jax.random.key(0), one, rivals, (spent, cost), False)
        return found.value.args[0]

    return most_meta


def test_more_meta_runs_cost_at_most_what_making_it_did(asked):
    """One more per output of 40 runs is 80 runs: at its own outputs and at the other's."""
    assert asked(79.0, 1.0) == 1
    assert asked(80.0, 1.0) == 2
    assert asked(80.0, 1.0, num_rivals=2) == 1
    assert asked(1e9, 1.0) == testing.MOST_META
