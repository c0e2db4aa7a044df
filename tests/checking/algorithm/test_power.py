"""Every injected mistake is found, and no correct algorithm is flagged."""

import jax
import pytest
from support.injected import INJECTED

import aide

SEEDS = 20


def name_of(case):
    return f"{case.family}: {case.mistake}"


@pytest.mark.full
@pytest.mark.parametrize("case", [pytest.param(c, id=name_of(c)) for c in INJECTED])
def test_found(case):
    report = aide.check(jax.random.key(11), case.wrong(), find=False)
    assert not report.passed
    assert report.num_runs == 18_000
    assert aide.check(jax.random.key(11), case.right(), find=False).passed


RIGHT = {case.family: case.right for case in INJECTED}


@pytest.mark.full
@pytest.mark.parametrize("family", RIGHT)
def test_correct_algorithms_pass_at_many_seeds(family):
    algorithm = RIGHT[family]()
    for seed in range(SEEDS):
        report = aide.check(jax.random.key(100 + seed), algorithm, find=False)
        assert report.passed, (seed, repr(report))
