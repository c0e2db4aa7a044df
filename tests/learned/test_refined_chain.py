"""Chains with learned meta-inference as algorithms: chunks, structures, messages, storage."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.learned import made_up_fit

import aide
from aide._core.distribution import log_density_of
from aide.engine.programs.places import Chunk
from aide.engine.programs.prepared import PreparedRuns
from aide.engine.programs.programs import QUICK_OPTIONS, compile_quickly
from aide.learned.models.joint import JointMixture
from aide.learned.refined import RefinedChain, transitions_of
from aide.problems.distributions import Normal


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


def chain_of(size, kernel, num_reverse):
    posterior = Normal(np.full(size, 0.4), 0.8)
    chain = aide.mcmc(Normal(np.zeros(size), 1.3), posterior.log_prob, kernel=kernel, num_steps=3)
    fit = made_up_fit((stated(size, size),), np.array([0, 1, 1], np.int32))
    return RefinedChain(chain, fit, num_reverse)


def regenerate(chain, stream, run, x):
    return chain.regenerate(jax.random.fold_in(stream, run), x)


@pytest.mark.full
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


@pytest.mark.full
def test_states_are_any_pytree(x64):
    start = Named()
    fit = made_up_fit((stated(3, 3),), np.zeros(2, np.int32))
    options = {"kernel": aide.kernels.RandomWalk(0.5), "num_steps": 2}
    named = RefinedChain(aide.mcmc(start, start.log_density, **options), fit, 5)
    draw = quickly(named.simulate)(jax.random.key(1))
    assert set(draw.value) == {"a", "b"}
    assert draw.value["b"].shape == (2,)
    flat_density = lambda x: start.log_density({"a": x[0], "b": x[1:]})
    flat_start = aide.Tractable(lambda key: jnp.zeros(3), flat_density)
    flat = RefinedChain(aide.mcmc(flat_start, flat_density, **options), fit, 5)
    x = jnp.concatenate([draw.value["a"][None], draw.value["b"]])
    key = jax.random.key(2)
    found = quickly(flat.regenerate)(key, x), quickly(named.regenerate)(key, draw.value)
    assert abs(found[0] - found[1]) < 1e-12


def test_no_steps_is_the_start(x64):
    refined = chain_of(2, aide.kernels.Mala(0.4), 3).with_steps(0)
    draw = quickly(refined.simulate)(jax.random.key(0))
    assert abs(draw.log_xi - log_density_of(refined.chain.start, draw.value)) < 1e-12


START, LOG_JOINT = Normal(0.0, 2.0), Normal(0.5, 0.7).log_prob
WALK = aide.kernels.RandomWalk(0.8)


def chain(num_steps, kernel=WALK, start=START, log_joint=LOG_JOINT):
    return aide.mcmc(start, log_joint, kernel=kernel, num_steps=num_steps)


@pytest.fixture(scope="module")
def refined():
    with compile_quickly():
        return aide.refine(jax.random.key(1), chain(4), num_pilots=60, num_components=2)


def test_a_fit_is_saved_reused_and_serves_shorter_chains(tmp_path, refined):
    assert refined.num_reverse == 100
    assert refined.label == "MCMC, 4 steps, refined"
    refined.fit.save(tmp_path / "fit.eqx")
    again = aide.learned.load_reverse(tmp_path / "fit.eqx")
    for one, two in zip(jax.tree.leaves(refined.fit), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, two)
    shorter = refined.with_steps(3)
    assert shorter.chain == chain(3)
    assert shorter.label == "MCMC, 3 steps, refined"
    assert shorter.fit is refined.fit
    assert eqx.tree_equal(shorter, aide.refine(None, chain(3), fit=again))
    (tmp_path / "other").write_text("no fit\n")
    with pytest.raises(ValueError, match="does not hold a fit"):
        aide.learned.load_reverse(tmp_path / "other")


class Halves(aide.kernels.Independence):
    """A kernel with twice as much noise as it needs."""

    def noise(self, key, x):
        return jnp.stack([super().noise(key, x)] * 2)


def test_a_fit_serves_what_it_was_learned_for(refined):
    serve = lambda algorithm: aide.refine(None, algorithm, fit=refined.fit)
    with pytest.raises(ValueError, match="up to 4 steps, got num_steps = 5"):
        serve(chain(5))
    with pytest.raises(ValueError, match="up to 4 steps, got num_steps = 5"):
        refined.with_steps(5)
    with pytest.raises(ValueError, match="states of 1 numbers, but those of start have 2"):
        serve(chain(2, start=Normal(np.zeros(2), 1.0)))
    with pytest.raises(ValueError, match="models for 1 kernels"):
        serve(chain(2, aide.kernels.Cycle(WALK, WALK)))
    discrete = aide.Tractable(lambda key: jnp.zeros((), jnp.int32), lambda x: 0.0)
    with pytest.raises(ValueError, match="start draws integers, but this fit is for states of r"):
        serve(chain(2, start=discrete))
    mixed = aide.Tractable(lambda key: (jnp.zeros((), jnp.int32), 0.0), lambda x: 0.0)
    with pytest.raises(TypeError, match="start draws float64 and int32"):
        serve(chain(2, start=mixed))
    with pytest.raises(ValueError, match=r"noise of this kernel has sizes \[2\]"):
        serve(chain(2, Halves(Normal(0.0, 1.0))))


def test_messages():
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="num_islands = 3 is not for this algorithm"):
        aide.refine(key, chain(2), num_islands=3)  # pyrefly: ignore
    with pytest.raises(ValueError, match="num_steps must be an integer of at least 1"):
        aide.refine(key, chain(0))
    opaque = aide.kernels.Kernel(WALK.step, reversible=True)
    with pytest.raises(TypeError, match="keeps no record of its steps"):
        aide.refine(key, chain(2, opaque))
    nowhere = lambda x: jnp.where(x > 0, jnp.nan, 0.0) * x
    with pytest.raises(ValueError, match="log_density is NaN"):
        aide.refine(key, chain(2, log_joint=aide.algorithms.strict(nowhere)), num_pilots=60)


def test_repeat_is_more_steps(refined):
    """Two steps of a kernel repeated twice are four steps of it."""
    kernel = aide.kernels.Repeat(WALK, 2)
    repeated = aide.refine(None, chain(2, kernel), fit=refined.fit)
    assert transitions_of(repeated.chain).num_steps == 4
    assert repeated.with_steps(1).chain == chain(1, kernel)
    with pytest.raises(ValueError, match="up to 4 steps, got num_steps = 6"):
        repeated.with_steps(3)


class TwoNarrow:
    """Half of N(-2, 0.5²) and half of N(2, 0.5²)."""

    def sample(self, key):
        """An exact draw."""
        key_side, key_x = jax.random.split(key)
        return jnp.where(jax.random.bernoulli(key_side), 2.0, -2.0) + 0.5 * jax.random.normal(key_x)

    def log_prob(self, x):
        """The log density."""
        parts = [-0.5 * ((x - mean) / 0.5) ** 2 for mean in (-2.0, 2.0)]
        return jnp.logaddexp(*parts) - jnp.log(np.sqrt(2 * np.pi))


@pytest.mark.full
def test_huge_steps_blow_up_a_lonely_way_back():
    """With one reverse particle few runs are all of the looseness; with ten none stands out.

    A step of MALA of size 2.5 in a mode of width 0.5 multiplies distances by 11, so that a way back
    that goes astray ends far away; all reverse particles must go astray at once.
    """
    modes = TwoNarrow()
    kernel = aide.kernels.Mala(2.5)
    chain = aide.mcmc(Normal(0.0, 3.0), modes.log_prob, kernel=kernel, num_steps=10)
    refined = aide.refine(jax.random.key(0), chain, num_reverse=1)
    assert repr(refined).startswith("RefinedChain: MCMC, 10 steps, refined")
    assert len(repr(refined)) < 100
    gold, largest, shares = aide.Tractable.of(modes), [], []
    for num in (1, 10):
        target = refined.with_reverse(num)
        sizes = {"num_gold": 20, "num_target": 2000, "progress": False}
        side = aide.estimate(jax.random.key(1), gold, target, **sizes).draws.target
        gaps = np.sort(np.abs(side.kept() - side.fresh()))
        largest.append(gaps[-1])
        shares.append(gaps[-40:].sum() / gaps.sum())
    assert largest[0] > 100.0 > 20.0 > largest[1]
    assert shares[0] > 0.8 > 0.5 > shares[1]
