"""Chains with learned meta-inference as algorithms: chunks, structures, messages, storage."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aide
from aide.learned.chain import LearnedChain
from aide.learned.mixture import JointMixture
from aide.problems.distributions import Normal
from aide.running.chunks import Chunk
from aide.running.map_runs import PreparedRuns
from aide.running.programs import QUICK_OPTIONS


def stated(size, noise_size, num_times=2, seed=0):
    """A model of the right shape for a Metropolis kernel, made up."""
    rng = np.random.default_rng(seed)
    models = []
    for _ in range(num_times):
        total = size + noise_size
        roots = rng.normal(0.0, 0.2, (3, total, total)) + np.eye(total)
        moments = (np.full(4, 0.25), rng.normal(0.0, 0.3, (3, total)), roots @ roots.mT)
        models.append(JointMixture.from_moments(*moments, [0, 1, 1], size, 0.2))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *models)


def chain_of(size, kernel, num_particles):
    normal = Normal(np.zeros(size), 1.3)
    index = np.array([0, 1, 1], np.int32)
    posterior = Normal(np.full(size, 0.4), 0.8)
    models = (stated(size, size),)
    return LearnedChain(normal, posterior.log_prob, kernel, models, index, num_particles)


def regenerate(chain, stream, run, x):
    return chain.regenerate(jax.random.fold_in(stream, run), x)


def test_chunks_change_nothing(x64):
    """One run at a time or three: XLA once computed other numbers for single runs."""
    chain, key = chain_of(10, aide.kernels.Mala(0.4), 300), jax.random.key(3)
    values = 0.4 + 0.8 * np.random.default_rng(0).normal(size=(3, 10))
    row = (jax.ShapeDtypeStruct((), jnp.uint32), jax.ShapeDtypeStruct((10,), jnp.float64))
    runs = PreparedRuns(regenerate, chain, key, row, what="the chain")
    rows = (np.arange(3, dtype=np.uint32), values)
    one, three = (runs.map(key, rows, Chunk(3, size)) for size in (1, 3))
    np.testing.assert_allclose(one, three, rtol=0, atol=1e-9)


class Named(eqx.Module):
    """A distribution over dictionaries."""

    def sample(self, key):
        z = jax.random.normal(key, (3,))
        return {"a": z[0], "b": z[1:]}

    def log_density(self, x):
        return Normal(0.0, 1.0).log_prob(x["a"]) + Normal(np.zeros(2), 1.0).log_prob(x["b"])


def quickly(operation):
    return jax.jit(lambda *arguments: operation(*arguments), compiler_options=QUICK_OPTIONS)


def test_states_are_any_pytree(x64):
    start = Named()
    models = (stated(3, 3),)
    index = np.zeros(2, np.int32)
    kernel = aide.kernels.RandomWalk(0.5)
    named = LearnedChain(start, start.log_density, kernel, models, index, 5)
    draw = quickly(named.simulate)(jax.random.key(1))
    assert set(draw.value) == {"a", "b"}
    assert draw.value["b"].shape == (2,)
    flat_density = lambda x: start.log_density({"a": x[0], "b": x[1:]})
    flat_start = aide.Tractable(lambda key: jnp.zeros(3), flat_density)
    flat = LearnedChain(flat_start, flat_density, kernel, models, index, 5)
    x = jnp.concatenate([draw.value["a"][None], draw.value["b"]])
    key = jax.random.key(2)
    found = quickly(flat.regenerate)(key, x), quickly(named.regenerate)(key, draw.value)
    assert abs(found[0] - found[1]) < 1e-12


def test_no_steps_is_the_start(x64):
    chain = eqx.tree_at(
        lambda c: c.index, chain_of(2, aide.kernels.Mala(0.4), 3), np.zeros(0, np.int32)
    )
    draw = quickly(chain.simulate)(jax.random.key(0))
    assert abs(draw.log_xi - chain.initial.log_prob(draw.value)) < 1e-12


def quick_fit(num_steps=4, **options):
    options: Any = {"num_pilots": 60, "num_components": 2, **options}
    return aide.learn_reverse(
        jax.random.key(1),
        Normal(0.0, 2.0),
        Normal(0.5, 0.7).log_prob,
        kernel=aide.kernels.RandomWalk(0.8),
        num_steps=num_steps,
        **options,
    )


def test_a_fit_is_saved_reused_and_serves_shorter_chains(tmp_path):
    fit = quick_fit()
    fit.save(tmp_path / "fit.eqx")
    again = aide.learned.load_reverse(tmp_path / "fit.eqx")
    for one, two in zip(jax.tree.leaves(fit), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, two)
    parts = (Normal(0.0, 2.0), Normal(0.5, 0.7).log_prob)
    for meta in (fit, again):
        chain = aide.mcmc(*parts, kernel=aide.kernels.RandomWalk(0.8), num_steps=3, meta=meta)
        assert chain.index.shape == (3,)
        assert chain.num_particles == 100
    (tmp_path / "other").write_text("no fit\n")
    with pytest.raises(ValueError, match="does not hold a fit"):
        aide.learned.load_reverse(tmp_path / "other")


class Halves(aide.kernels.Independence):
    """A kernel with twice as much noise as it needs."""

    def noise(self, key, x):
        return jnp.stack([super().noise(key, x)] * 2)


def test_messages():
    fit = quick_fit()
    parts = (Normal(0.0, 2.0), Normal(0.5, 0.7).log_prob)
    walk = aide.kernels.RandomWalk(0.8)
    with pytest.raises(ValueError, match="up to 4 steps, got num_steps = 5"):
        aide.mcmc(*parts, kernel=walk, num_steps=5, meta=fit)
    with pytest.raises(ValueError, match="states of 1 numbers, but those of initial have 2"):
        aide.mcmc(Normal(np.zeros(2), 1.0), parts[1], kernel=walk, num_steps=2, meta=fit)
    with pytest.raises(ValueError, match="models for 1 kernels"):
        aide.mcmc(*parts, kernel=aide.kernels.Cycle(walk, walk), num_steps=2, meta=fit)
    discrete = aide.Tractable(lambda key: jnp.zeros((), jnp.int32), lambda x: 0.0)
    with pytest.raises(ValueError, match="initial draws integers, but this fit is for states of r"):
        aide.mcmc(discrete, parts[1], kernel=walk, num_steps=2, meta=fit)
    mixed = aide.Tractable(lambda key: (jnp.zeros((), jnp.int32), 0.0), lambda x: 0.0)
    with pytest.raises(TypeError, match="initial draws float64 and int32"):
        aide.mcmc(mixed, parts[1], kernel=walk, num_steps=2, meta=fit)
    other = Halves(Normal(0.0, 1.0))
    with pytest.raises(ValueError, match=r"noise of this kernel has sizes \[2\]"):
        aide.mcmc(*parts, kernel=other, num_steps=2, meta=fit)
    with pytest.raises(ValueError, match="num_reverse = 10 belongs to learned"):
        aide.mcmc(*parts, kernel=walk, num_steps=2, num_reverse=10)
    with pytest.raises(TypeError, match="meta must be 'canonical' or the result"):
        aide.mcmc(*parts, kernel=walk, num_steps=2, meta="learned")
    with pytest.raises(ValueError, match="no canonical meta-inference"):
        aide.mcmc(*parts, kernel=aide.kernels.Ula(0.1), num_steps=2)
    opaque = aide.kernels.Kernel(walk.step, reversible=True)
    with pytest.raises(TypeError, match="keeps no record of its steps"):
        aide.learn_reverse(jax.random.key(0), *parts, kernel=opaque, num_steps=2)
    nowhere = lambda x: jnp.where(x > 0, jnp.nan, 0.0) * x
    with pytest.raises(ValueError, match="log_density is NaN"):
        aide.learn_reverse(
            jax.random.key(0), parts[0], nowhere, kernel=walk, num_steps=2, num_pilots=60
        )


def test_repeat_is_more_steps():
    kernel = aide.kernels.Repeat(aide.kernels.RandomWalk(0.8), 2)
    parts = (Normal(0.0, 2.0), Normal(0.5, 0.7).log_prob)
    chain = aide.mcmc(*parts, kernel=kernel, num_steps=2, meta=quick_fit())
    assert chain.index.shape == (4,)
