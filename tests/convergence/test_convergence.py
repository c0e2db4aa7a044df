"""Choosing reverse particles, and the bound against the number of steps."""

import sys
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from support.made import estimate_with

import aide
from aide._core.random import derive, derive_keys
from aide.convergence.convergence import Convergence
from aide.convergence.diagnostics import import_arviz, rhat_and_ess, run_chains
from aide.engine.programs.programs import compile_quickly, num_executables
from aide.problems.distributions import Normal

START, POSTERIOR, KERNEL = Normal(0.5, 2.0), Normal(0.0, 1.0), aide.kernels.RandomWalk(1.5)
PARTS = (START, POSTERIOR.log_prob)


CHAIN = aide.mcmc(*PARTS, kernel=KERNEL, num_steps=6)


@pytest.fixture(scope="module")
def refined():
    options = {"num_pilots": 400, "num_components": 2, "num_reverse": 10}
    with compile_quickly():
        return aide.refine(jax.random.key(1), CHAIN, **options)


@pytest.mark.full
@pytest.mark.parametrize("nats", [1.0, 0.1])
def test_tighten_reaches_the_request_or_says_why_not(refined, nats):
    with compile_quickly():
        found = aide.tighten(jax.random.key(2), refined, nats, num_runs=60)
        assert eqx.tree_equal(found.algorithm.with_reverse(10), refined)
        assert found.algorithm.num_reverse == found.chosen.num_reverse
        assert found.chosen.looseness + found.chosen.std_error <= nats
        assert f"reverse particles and M = {found.num_meta}, with a looseness" in str(found)
        with pytest.raises(ValueError, match="16 reverse particles and M = 1 leave a looseness"):
            aide.tighten(jax.random.key(2), refined, 1e-9, num_runs=60, max_reverse=16, max_meta=1)
    with pytest.raises(TypeError, match="must have learned meta-inference"):
        aide.tighten(jax.random.key(2), CHAIN)  # pyrefly: ignore


def measure(chain, steps, **options):
    gold = aide.Tractable.of(POSTERIOR)
    with compile_quickly():
        return aide.measure_convergence(
            jax.random.key(3), gold, chain, steps=steps, num_meta_gold=2, **options
        )


@pytest.fixture(scope="module")
def curve(refined):
    return measure(refined, [4, 0], num_gold=200, num_target=200)


def true_divergence(num_steps):
    """By quadrature: the start density times the transition matrix of the random walk."""
    grid = np.linspace(-12.0, 13.0, 1501)
    log_p, width = stats.norm.logpdf(grid), grid[1] - grid[0]
    accept = np.exp(np.minimum(log_p[None, :] - log_p[:, None], 0.0))
    moves = stats.norm.pdf(grid[None, :] - grid[:, None], scale=1.5) * accept * width
    moves[np.diag_indices(grid.size)] += 1 - moves.sum(axis=1)
    q = stats.norm.pdf(grid, 0.5, 2.0)
    for _ in range(num_steps):
        q = q @ moves
    return np.sum((np.exp(log_p) - q) * (log_p - np.log(q))) * width


def test_convergence_brackets_the_truth(curve):
    assert curve.steps == (0, 4)
    for row in curve.records():
        truth = true_divergence(row["steps"])
        assert row["lower"] <= row["upper"]
        # Limits lie 2 standard errors away; 3 more make 5.
        margin = 3 * row["std_error"]
        assert row["lower"] - margin <= truth <= row["upper"] + margin
        # Same expectation as AIDE's own estimate; a lost sign or side would be off by half of it.
        estimate = curve.estimates[curve.steps.index(row["steps"])]
        assert abs(row["value"] - estimate.value) < 5 * (row["std_error"] + estimate.std_error)
    assert curve.lower[0] > 0.5 * true_divergence(0)
    assert np.isnan(curve.rhat[0])
    assert curve.rhat[1] > 1.0
    shared = [estimate.draws.gold.own[:, 0] for estimate in curve.estimates]
    np.testing.assert_array_equal(shared[0], shared[1])


@pytest.mark.full
def test_a_chain_for_another_density_is_found_out(refined):
    """R-hat cannot see that the chain settles in the wrong place; the lower bound does."""
    other = aide.mcmc(START, Normal(1.5, 1.0).log_prob, kernel=KERNEL, num_steps=4)
    misled = aide.refine(None, other, fit=refined.fit, num_reverse=10)
    wrong = measure(misled, [4], num_gold=200, num_target=200)
    assert wrong.steps_beyond(0.5) == 4
    assert wrong.steps_within(0.5) is None
    assert wrong.lower[0] < 1.5**2


def test_convergence_is_plotted(curve):
    figure = curve.plot()
    assert [axis.get_ylabel() for axis in figure.axes] == [
        "divergence (nats)",
        "R-hat − 1",
        "bulk ESS, 4 chains",
    ]
    assert figure.axes[1].get_xlabel() == "steps of the chain"
    assert replace(curve, rhat=(np.nan,) * 2, num_chains=0).plot().axes[0].get_xlabel()
    alone = figure.__class__().subplots()
    assert curve.plot(alone).axes == [alone]


def test_few_runs_have_no_lower_bound_and_say_so():
    few = measure(CHAIN, [0], num_gold=20, num_target=20, num_chains=0)
    assert np.isnan(few.lower).all()
    assert few.steps_beyond(0.0) is None
    assert "No lower bounds: a lower bound needs at least 50 runs on both sides, got 20" in str(few)
    assert few.grid().lines[0][few.grid().titles.index("at least")] == "–"


def test_what_cannot_be_done_is_said_at_once(monkeypatch):
    with pytest.raises(ValueError, match="at least one number of steps"):
        measure(CHAIN, [])
    with pytest.raises(TypeError, match="chain must be a chain, from aide.mcmc or aide.refine"):
        measure(START, [1])
    with pytest.raises(ValueError, match="num_chains must be 0 or at least 2, got 1"):
        measure(CHAIN, [1], num_chains=1)
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"aide-inference\[arviz\]', or pass num_chains=0"):
        measure(CHAIN, [1])


class Start:
    """Independent normals in a dictionary."""

    def sample(self, key):
        return {"a": 3 * jax.random.normal(key), "b": jax.random.normal(key, (2,))}

    def log_prob(self, x):
        return -(x["a"] ** 2) / 18 - jnp.sum(x["b"] ** 2) / 2


def test_rhat_and_ess_are_those_of_arviz():
    """Against a plain loop over the same keys, coordinate by coordinate."""
    log_joint, key = lambda x: -jnp.sum(x["b"] ** 2) - x["a"] ** 2, 5
    chain = aide.mcmc(Start(), log_joint, kernel=KERNEL, num_steps=30)
    with compile_quickly():
        states = run_chains(jax.random.key(key), chain, 30, 4)
    arviz = import_arviz(4)
    found = rhat_and_ess(arviz, states, (3, 10, 30))
    assert np.isnan(found.rhat[0])
    assert np.isnan(found.ess[0])
    paths = np.empty((4, 30, 3))
    with jax.enable_x64(True):
        step = jax.jit(lambda key, x: KERNEL.step(key, log_joint, x))
        for run in range(4):
            stream = jax.random.fold_in(jax.random.key(key), 2)
            key_start, key_steps = derive_keys(jax.random.fold_in(stream, run), 2)
            x = Start().sample(key_start)
            for time in range(30):
                x = step(derive(key_steps, time), x)
                paths[run, time] = [x["a"], *x["b"]]
    np.testing.assert_allclose(states, paths, rtol=1e-10)
    for index, number in ((1, 10), (2, 30)):
        parts = [paths[:, :number, coordinate] for coordinate in range(3)]
        assert found.rhat[index] == pytest.approx(max(arviz.rhat(part) for part in parts))
        assert found.ess[index] == pytest.approx(min(arviz.ess(part) for part in parts))
    still = rhat_and_ess(arviz, np.ones((4, 10, 1)), (10,))
    assert np.isnan(still.rhat[0])


def made_up(bounds, lower, rhat):
    """A curve whose upper limits are known: all terms of a length are equal."""
    estimates = []
    for bound in bounds:
        terms, names = np.full(60, bound / 2), ("the truth", "chain")
        estimates.append(estimate_with(terms, terms, (0.0, None), names))
    steps = tuple(10 * 2**index for index in range(len(bounds)))
    return Convergence(steps, tuple(estimates), lower, rhat, rhat, 4)


def sentences(curve):
    return [text for _, text in curve.rows()]


def test_sentences():
    curve = made_up((3.0, 0.5, 0.04, 0.03), (2.0, 0.2, 0.0, 0.2), (1.5, 1.005, 1.02, 1.009))
    assert curve.steps_within(0.5) == 20
    assert curve.steps_within(0.035) == 80
    assert curve.steps_within(0.01) is None
    assert (curve.steps_beyond(0.1), curve.steps_beyond(1.0), curve.steps_beyond(9.0)) == (
        20,
        10,
        None,
    )
    assert sentences(curve) == [
        "With 95% confidence the divergence of this chain from the truth is below 1 nat at every "
        "length measured from 20 to 80 steps. With 95% confidence it is above 1 nat up to 10 "
        "steps.",
        "With 95% confidence the divergence of this chain from the truth is below 0.05 nats at "
        "every length measured from 40 to 80 steps. With 95% confidence it is above 0.05 nats up "
        "to 20 steps.",
        "R-hat of 4 chains stays below 1.01 from 80 steps on.",
        "The divergences do not count regions of less than 6.0% probability, which 60 runs cannot "
        "rule out: late or stuck chains as rare as that could add any number of nats.",
    ]
    expected = curve.estimates[-1].total_variation()
    assert curve.records()[-1]["total_variation"] == expected
    assert sentences(made_up((3.0, 0.5), (0.0, 0.0), (1.5, 1.3)))[0].endswith("at 20 steps.")
    far = made_up((3.0, 1.2), (0.0, 0.0), (1.5, 1.3))
    assert sentences(far)[:2] == [
        "After 20 steps the bound is still 1.2 nats (95% upper limit 1.2).",
        "R-hat of 4 chains is still 1.300 after 20 steps.",
    ]
    back = made_up((0.02, 3.0), (0.0, 0.5), (np.nan, np.nan))
    assert back.steps_within(1.0) is None
    assert sentences(back)[0].endswith("with 95% confidence the divergence is above 0.5 nats.")


@pytest.mark.full
@pytest.mark.parametrize("kernel", [KERNEL, aide.kernels.Repeat(KERNEL, 2)], ids=["one", "twice"])
def test_one_program_serves_all_numbers_of_steps(kernel):
    """Runs, scores and meta-inference are those of `with_steps`; nothing compiles again."""
    chain = aide.mcmc(*PARTS, kernel=kernel, num_steps=6)
    sizes = {"num_gold": 3, "num_target": 3, "num_meta_target": 2}
    gold = aide.Tractable.of(POSTERIOR)
    with compile_quickly():
        long = aide.refine(jax.random.key(1), chain, num_pilots=200, num_reverse=4)
        shared = long.sharing_programs((0, 1, 4, 6))
        before, after = list[int](), list[int]()
        for number, one in zip((0, 1, 4, 6), shared, strict=True):
            found = aide.draw(jax.random.key(2), gold, one, **sizes)
            before.append(num_executables())
            alone = aide.draw(jax.random.key(2), gold, long.with_steps(number), **sizes)
            after.append(num_executables())
            assert found.target.name == alone.target.name
            for side, other in zip(found.sides, alone.sides, strict=True):
                np.testing.assert_allclose(side.own, other.own, atol=1e-9)
                np.testing.assert_allclose(side.cross, other.cross, atol=1e-9)
    for alone, shared_by in zip(before[2:], after[1:], strict=False):
        assert alone == shared_by
