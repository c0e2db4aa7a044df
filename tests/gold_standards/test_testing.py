"""What the test of a gold standard may cost, and what is left when it fails."""

import jax
import pytest
from support.pairs import gaussian

import aide
from aide.gold_standards import make, testing
from aide.gold_standards.record import Record
from aide.problems.distributions import Normal


class Asked(Exception):
    """What `compare` was asked for."""


@pytest.fixture
def asked(monkeypatch):
    """`run_tests` up to the comparison: the most meta-runs per output."""

    def compare(*arguments, max_meta, **options):
        raise Asked(max_meta)

    monkeypatch.setattr(testing, "compare", compare)

    def max_meta(spent, cost, num_rivals=1):
        one = aide.sir(gaussian(0.0, 1.0), gaussian(0.1, 0.9).log_density, num_particles=4)
        rivals = {f"rival {i}": gaussian(0.0, 1.1) for i in range(num_rivals)}
        with pytest.raises(Asked) as found:
            testing.run_tests(jax.random.key(0), one, None, rivals, (spent, cost), False)
        return found.value.args[0]

    return max_meta


def test_more_meta_runs_cost_at_most_what_making_it_did(asked):
    """One more per output of 40 runs is 80 runs: at its own outputs and at the other's."""
    assert asked(79.0, 1.0) == 1
    assert asked(80.0, 1.0) == 2
    assert asked(80.0, 1.0, num_rivals=2) == 1
    assert asked(1e9, 1.0) == testing.MOST_META


def test_a_test_that_fails_leaves_what_was_made(monkeypatch):
    """One version fails, then all: the record is flagged and says why; nothing is thrown away."""
    one = aide.sir(gaussian(0.0, 1.0), gaussian(0.1, 0.9).log_density, num_particles=4)
    compare, broken = testing.compare, {"rival"}

    def failing(key, gold, versions, **options):
        if broken & set(versions):
            raise ValueError("regenerate of the target algorithm (rival) gave log_xi = nan")
        return compare(key, gold, versions, **options)

    monkeypatch.setattr(testing, "compare", failing)
    half, rivals, key = one.with_budget(0.5), {"rival": one}, jax.random.key(0)
    run = lambda: testing.run_tests(key, one, half, rivals, (1.0, 1.0), False)
    record = run().record("made", (), (), 0.05, (1.0, 1.0), 0.0)
    assert record.tested
    assert not record.passed
    assert [a.outcome for a in record.agreements][-1] == "undecided"
    assert record.agreements[-1].words == "could not be compared with rival"
    broken.add("itself at half the budget")
    tested = run()
    record = Record.from_json(tested.record("made", (), (), 0.05, (1.0, 1.0), 0.0).to_json())
    assert not any((record.tested, record.reached, record.passed))
    assert "the gold standard's version (rival)" in tested.failures[1]
    assert "the target algorithm" not in " ".join(tested.failures)


@pytest.mark.parametrize(("seconds", "num_starts"), [(1e-3, 1), (None, 2)])
def test_no_pilots_set_out_from_a_wider_start_when_time_is_up(monkeypatch, seconds, num_starts):
    starts, explore = [], make.explore

    def watched(key, log_joint, start, *others):
        starts.append(start)
        return explore(key, log_joint, start, *others)

    def sized(*arguments):
        raise Asked

    monkeypatch.setattr(make, "explore", watched)
    monkeypatch.setattr(make, "make_annealed", sized)
    start, walk = Normal(0.0, 1.0), aide.kernels.RandomWalk(1.0)
    with pytest.raises(Asked):
        aide.gold_standard(
            0, start.log_prob, start, kernel=walk, num_pilots=20, max_seconds=seconds
        )
    assert len(starts) == num_starts
