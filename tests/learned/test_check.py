"""`aide.check` on learned meta-inference: every kernel passes, wrong densities fail."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from support import toys
from support.learned import (
    ANNEALED_KERNELS,
    CHAIN_KERNELS,
    learned_chain,
    refined,
    table_chain,
    tempered,
    with_wrong_table,
)

import aide
from aide.engine.programs.programs import compile_quickly


def marked(names, quick):
    return [pytest.param(name, marks=() if name in quick else pytest.mark.full) for name in names]


def raised(algorithm, where):
    """The claimed density of proposed noise is too large by a constant."""
    return eqx.tree_at(where, algorithm, where(algorithm) + 0.7)


def assert_told_apart(right, wrong):
    report = aide.check(jax.random.key(7), right, find=False)
    assert report.passed, str(report)
    assert not aide.check(jax.random.key(7), wrong, find=False).passed


@pytest.mark.parametrize("name", marked(CHAIN_KERNELS, set()))
def test_learned_chains(name):
    parts: Any = {"kernel": CHAIN_KERNELS[name], "num_steps": 3}
    few: Any = {"num_pilots": 500, "num_components": 2}
    start = (toys.PRIOR, toys.log_joint)
    with compile_quickly():
        chain = aide.refine(jax.random.key(1), aide.mcmc(*start, **parts), num_reverse=3, **few)
    assert_told_apart(chain, raised(chain, lambda algorithm: algorithm.fit.models[0].log_scale_v))


@pytest.mark.full
@pytest.mark.parametrize("num_particles", [1, 3])
@pytest.mark.parametrize("kernel", ANNEALED_KERNELS)
def test_refined_samplers(kernel, num_particles):
    few: Any = {"num_pilots": 500, "num_components": 2}
    with compile_quickly():
        smc = aide.refine(jax.random.key(1), tempered(kernel, num_particles), num_reverse=3, **few)
    assert_told_apart(smc, raised(smc, lambda algorithm: algorithm.fit.models[0].log_scale_v))


@pytest.mark.full
@pytest.mark.parametrize("name", ["sweep", "hop"])
def test_tables(name):
    chain = table_chain(name, 3)
    assert_told_apart(chain, with_wrong_table(chain))


def test_versions_are_small():
    chain = learned_chain("walk", 50)
    fit = eqx.tree_at(lambda fit: fit.index, chain.fit, np.zeros(100, np.int32))
    versions = dataclasses.replace(chain, fit=fit).with_steps(100).shrunk()
    assert list(versions) == ["1 reverse, 3 steps", "2 reverse, 3 steps", "3 reverse, 3 steps"]
    assert all(version.chain.num_steps == 3 for version in versions.values())
    smc = refined(tempered("walk", 2), 50, 25)
    names = [f"{p} particles, {r} reverse, {r} islands" for p, r in ((1, 1), (2, 2), (2, 3))]
    assert list(smc.shrunk()) == names
