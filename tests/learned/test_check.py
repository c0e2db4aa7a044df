"""`aide.check` on learned meta-inference: every kernel passes, wrong densities fail."""

import equinox as eqx
import jax
import numpy as np
import pytest
from support.learned import (
    CHAIN_KERNELS,
    learned_chain,
    refined,
    table_chain,
    tempered,
)

import aide

RIGHT = {
    **{name: lambda name=name: learned_chain(name, 3) for name in CHAIN_KERNELS},
    "table, Gibbs": lambda: table_chain("sweep", 3),
    "table, Metropolis": lambda: table_chain("hop", 3),
    "AIS": lambda: refined(tempered("walk", 1), 3, 1),
    "SMC": lambda: refined(tempered("walk", 3), 3, 2),
}
QUICK = {"ula"}


def marked(names, quick):
    return [pytest.param(n, marks=() if n in quick else pytest.mark.full) for n in names]


@pytest.mark.parametrize("name", marked(RIGHT, QUICK))
def test_passes(name):
    report = aide.check(jax.random.key(7), RIGHT[name]())
    assert report.passed, str(report)


@pytest.mark.parametrize("name", marked(CHAIN_KERNELS, {"ula"}))
def test_a_reverse_kernel_with_a_wrong_density_fails(name):
    """The claimed density of the proposed noise is too large by a constant."""
    where = lambda algorithm: algorithm.models[0].log_scale_v
    right = learned_chain(name, 3)
    wrong = eqx.tree_at(where, right, where(right) + 0.7)
    assert not aide.check(jax.random.key(7), wrong, find=False).passed


def test_versions_are_small():
    chain = learned_chain("walk", 50)
    long = eqx.tree_at(lambda c: c.index, chain, np.zeros(100, np.int32))
    versions = long.shrunk()
    assert list(versions) == ["1 reverse, 3 steps", "2 reverse, 3 steps", "3 reverse, 3 steps"]
    assert all(len(version.index) == 3 for version in versions.values())
    smc = refined(tempered("walk", 2), 50, 25)
    names = [f"{p} particles, {r} reverse, {r} islands" for p, r in ((1, 1), (2, 2), (2, 3))]
    assert list(smc.shrunk()) == names
