"""The joint density of the mixture against the reference; labels; refusals.

Proven: the log joint density is right to 1e-10; the predictive weights chain up to it; labels mean
a partition and nothing else; no number of clusters is truncated.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import dpmm as reference
from scipy import special

from aide.engine.programs.programs import QUICK_OPTIONS
from aide.problems import DirichletMixture
from aide.problems.dpmm.clusters import canonical_labels

HYPER = {"alpha": 0.8, "m": -0.3, "r": 0.6, "nu": 1.7, "s": 0.4}


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK_OPTIONS)
def _run(structure, method, leaves, seed, *value):
    smc = jax.tree.unflatten(structure, leaves)
    return getattr(smc, method)(jax.random.key(seed), *value)


def run(smc, method, *arguments):
    """A method of an SMC sampler, compiled once per number of data and of particles."""
    leaves, structure = jax.tree.flatten(smc)
    return _run(structure, method, leaves, *arguments)


@pytest.mark.parametrize(
    "num", [1, 3, 12, *(pytest.param(n, marks=pytest.mark.full) for n in (2, 7))]
)
def test_log_joint_agrees_with_the_reference(x64, num):
    rng = np.random.default_rng(num)
    y = rng.normal(0.4, 1.3, num)
    model = DirichletMixture(y)
    log_joint = jax.jit(lambda value: model.log_joint(value))
    for _ in range(20):
        value = reference.random_value(rng, num)
        assert float(log_joint(value)) == pytest.approx(reference.log_joint(y, value), abs=1e-10)


def test_fixed_hyperparameters_have_no_density(x64):
    y = [0.3, -1.2, 2.0]
    model = DirichletMixture(y, fixed=HYPER)
    for labels in reference.partitions(3):
        value = {"labels": np.array(labels), **HYPER}
        expected = reference.log_partition_joint(y, labels, HYPER)
        assert float(model.log_joint(value)) == pytest.approx(expected, abs=1e-10)
    assert model.log_joint({"labels": np.zeros(3, int), **HYPER, "s": 0.5}) == -np.inf


def test_one_particle_pays_the_joint_density_of_its_choices(x64):
    """Without sweeps xi is the density of all choices: prior, and the restaurant's or Gibbs'."""
    y = np.array([0.4, -1.1, 0.5, 2.2])
    model = DirichletMixture(y)
    prior, optimal = (model.smc(1, proposal=name) for name in ("prior", "optimal"))
    rng = np.random.default_rng(0)
    for _ in range(10):
        value = reference.random_value(rng, 4)
        labels = np.asarray(value["labels"])
        from_prior = reference.log_prior(value) + reference.log_crp(tuple(labels), value["alpha"])
        assert float(run(prior, "regenerate", 0, value)) == pytest.approx(from_prior, abs=1e-10)
        informed = reference.log_prior(value)
        for t in range(1, 4):
            options = [*labels[:t].tolist(), t]
            logs = [
                reference.log_partition_joint(y[: t + 1], [*labels[:t], k], value)
                for k in sorted(set(options))
            ]
            own = reference.log_partition_joint(y[: t + 1], labels[: t + 1], value)
            informed += own - special.logsumexp(logs)
        assert float(run(optimal, "regenerate", 0, value)) == pytest.approx(informed, abs=1e-10)


@pytest.mark.full
def test_labels_are_a_partition_and_nothing_else(x64):
    rng = np.random.default_rng(3)
    model = DirichletMixture(rng.normal(size=4))
    smc = model.smc(1, proposal="optimal", num_sweeps=1)
    log_joint = jax.jit(lambda value: model.log_joint(value))
    for labels in reference.partitions(4):
        value = {"labels": np.array(labels), **HYPER}
        renamed = {**value, "labels": rng.permutation(50)[value["labels"]] - 20}
        assert float(log_joint(renamed)) == float(log_joint(value))
        assert int(model.num_clusters(renamed)) == len(set(labels))
        scores = [float(run(smc, "regenerate", 1, v)) for v in (value, renamed)]
        assert scores[0] == scores[1]
        table = jnp.asarray(renamed["labels"])[:, None]
        assert tuple(canonical_labels(table, 4)[:, 0].tolist()) == labels
        assert tuple(canonical_labels(table, 3)[:, 0].tolist()) == (*labels[:3], -1)


@pytest.mark.full
@pytest.mark.parametrize("num_sweeps", [0, 1])
def test_as_many_clusters_as_data(x64, num_sweeps):
    """Far apart and sure of it: every datum sits alone."""
    num = 10
    y = 1e6 * np.arange(num)
    fixed = {"alpha": 5.0, "m": 0.0, "r": 1e-12, "nu": 30.0, "s": 1.0}
    model = DirichletMixture(y, fixed=fixed)
    smc = model.smc(2, proposal="optimal", num_sweeps=num_sweeps)
    value, log_xi = run(smc, "simulate", 0)
    assert np.array_equal(value["labels"], np.arange(num))
    assert float(log_xi) == pytest.approx(0.0, abs=1e-6)
    alone = reference.log_partition_joint(y, np.arange(num), fixed)
    assert float(model.log_joint(value)) == pytest.approx(alone, rel=1e-12)


def test_outside_the_support(x64):
    value = {"labels": np.array([0, 1, 0, 0]), **HYPER}
    model = DirichletMixture([0.1, 0.7, -0.4, 0.3])
    smc = model.smc(1, num_sweeps=1)
    for name in ("alpha", "r", "nu", "s"):
        wrong = {**value, name: -0.2}
        assert model.log_joint(wrong) == -np.inf
        assert float(run(smc, "regenerate", 0, wrong)) == -np.inf


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ([], r"\[\]"),
        ([1.0, np.nan], "datum 1 is nan"),
        ([np.inf], "datum 0 is inf"),
        (["a", "b"], "'a', 'b'"),
        ([[1.0], [2.0, 3.0]], r"\[2.0, 3.0\]"),
        ([[1.0, 2.0]], r"\[\[1.0, 2.0\]\]"),
        (3.0, "got 3.0"),
        ([1.0, -1e200], r"-1e\+200"),
    ],
)
def test_bad_data_are_refused_by_name(data, named):
    with pytest.raises(ValueError, match=named):
        DirichletMixture(data)


def test_bad_settings_are_refused_by_name():
    model = DirichletMixture([0.1, 0.2])
    with pytest.raises(ValueError, match="proposal must be one of .* got 'best'"):
        model.smc(3, proposal="best")
    with pytest.raises(ValueError, match="num_sweeps must be .* got -1"):
        model.smc(3, num_sweeps=-1)
    with pytest.raises(ValueError, match="fixed must be a dict .* got {'alpha': 1.0}"):
        DirichletMixture([0.1], fixed={"alpha": 1.0})
    with pytest.raises(ValueError, match=r"fixed\['nu'\] must be a positive number .* got 0.0"):
        DirichletMixture([0.1], fixed={**HYPER, "nu": 0.0})
