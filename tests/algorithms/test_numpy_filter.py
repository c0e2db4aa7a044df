r"""Filters in NumPy, from step functions: the law of `aide.ParticleFilter`, and its twins."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from support import Z_MAX
from support.plain import LocalLevel, log_normal

import aide
from aide.smc.resampling import AbstractScheme

MODEL = LocalLevel()
PATH = np.array([0.1, -0.4, 0.2, 0.7])
KEY = jax.random.key(3)


def _rng(seed):
    return np.random.default_rng(seed)


def test_one_particle_has_the_density_of_its_proposals():
    """With P = 1, xi is the density of the path under whatever proposes it."""
    prior = MODEL.log_initial(PATH[0]) + sum(log_normal(PATH[1:], PATH[:-1], MODEL.level_std))
    assert MODEL.filter(1).regenerate(_rng(0), PATH) == pytest.approx(prior, abs=1e-12)
    proposal = MODEL.proposal()
    own = proposal.log_initial(PATH[:1])[0]
    own += sum(proposal.log_transition(t, PATH[t - 1], PATH[t]) for t in range(1, 4))
    guided = MODEL.filter(1, proposal=proposal)
    assert guided.regenerate(_rng(0), PATH) == pytest.approx(own, abs=1e-12)
    value, log_xi = guided.simulate(_rng(1))
    assert value.shape == (4,)
    assert log_xi == pytest.approx(guided.regenerate(_rng(2), value), abs=1e-12)


def test_one_step_is_importance_resampling():
    short = dataclasses.replace(MODEL, data=MODEL.data[:1])
    rng = _rng(4)
    rng.integers(3)
    others = rng.normal(size=3)
    slot = _rng(4).integers(3)
    others[slot] = 0.5
    evidence = np.log(np.mean(np.exp(short.log_likelihood(0, others))))
    joint = short.log_initial(0.5) + short.log_likelihood(0, 0.5)
    found = short.filter(3).regenerate(_rng(4), np.array([0.5]))
    assert found == pytest.approx(joint - evidence, abs=1e-12)


def test_relative_to_the_prior_nothing_changes_between_filters_of_one_model():
    options = {"log_initial": None, "log_transition": None, "relative_to_prior": True}
    sizes = {"num_gold": 20, "num_target": 20}
    full = aide.estimate(KEY, MODEL.filter(4), MODEL.filter(2), **sizes)
    relative = aide.estimate(KEY, MODEL.filter(4, **options), MODEL.filter(2, **options), **sizes)
    assert relative.value == pytest.approx(full.value, abs=1e-9)


class Deaf(LocalLevel):
    """Sees nothing below zero."""

    def log_likelihood(self, t, particles):
        return np.where(particles > 0, 0.0, -np.inf)


def test_what_the_filter_cannot_have_made_has_density_zero():
    assert Deaf().filter(5).regenerate(_rng(0), PATH) == -np.inf
    away = dataclasses.replace(MODEL.proposal(), log_transition=lambda t, x, y: 0 * y - np.inf)
    assert MODEL.filter(5, proposal=away).regenerate(_rng(0), PATH) == -np.inf


def test_nan_is_an_error():
    class Broken(LocalLevel):
        def log_likelihood(self, t, particles):
            return np.full(particles.shape, np.nan)

    assert np.isnan(Broken().filter(3).regenerate(_rng(0), PATH))
    with pytest.raises(ValueError, match="never nan"):
        aide.draw(KEY, Broken().filter(3), MODEL.filter(3), num_gold=2, num_target=2)


def test_all_weights_zero_is_an_error():
    class Nowhere(LocalLevel):
        def log_likelihood(self, t, particles):
            return np.full(particles.shape, -np.inf)

    with pytest.raises(ValueError, match="all particle weights are zero"):
        Nowhere().filter(3).simulate(_rng(0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"log_initial": None}, "density of a path is part of log_xi"),
        ({"relative_to_prior": True}, "either relative_to_prior=True or"),
        ({"resampler": "bogus"}, "bogus"),
        ({"num_steps": 0}, "num_steps"),
    ],
)
def test_wrong_settings_are_named(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        MODEL.filter(3, **options)


def test_wrong_shapes_are_named():
    class Column(LocalLevel):
        def initial(self, rng, num):
            return rng.normal(size=(num, 1))

    with pytest.raises(ValueError, match=r"one number for each of 3 particles.*\(3, 1\)"):
        Column().filter(3).simulate(_rng(0))

    class Few(LocalLevel):
        def initial(self, rng, num):
            return rng.normal(size=num - 1)

    with pytest.raises(ValueError, match="must return 3 particles along the first axis"):
        Few().filter(3).simulate(_rng(0))


def test_small_versions_and_beginnings_pass_through_the_wrapper():
    long = dataclasses.replace(MODEL, data=np.zeros(9)).filter(20, num_workers=2)
    versions = long.shrunk()
    numbers = ("1 particle", "2 particles", "3 particles")
    assert set(versions) == {f"{num}, first 3 observations" for num in numbers} | {"as given"}
    small: Any = versions["2 particles, first 3 observations"].algorithm
    assert (small.algorithm.num_steps, small.num_workers) == (3, 2)
    name, build = long.prefixes()[4]
    beginning: Any = build()
    inner = beginning.algorithm
    assert (name, inner.num_steps, inner.num_particles) == ("step 5 of 9 (Extend)", 5, 1)
    assert beginning.determines_trace()
    assert not long.determines_trace()


SCHEMES = {
    "multinomial": "multinomial",
    "stratified": "stratified",
    "systematic": "systematic",
    "residual": "residual",
    "adaptive": aide.smc.EssBelow(0.7, "systematic"),
    "never": aide.smc.Never(),
}


@pytest.mark.full
@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_the_law_is_that_of_the_compiled_filter(scheme):
    """The mean and the spread of log xi at one path, both ways of making it."""
    resampler = SCHEMES[scheme]
    ours = MODEL.filter(3, resampler=resampler)
    exact = MODEL.exact()
    theirs = aide.ParticleFilter(exact.state_space(), 3, resampler=resampler)
    numpy_run = np.array([ours.regenerate(_rng(i), PATH) for i in range(4000)])
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(7), 40_000)
        jax_run = np.asarray(jax.jit(jax.vmap(lambda key: theirs.regenerate(key, PATH)))(keys))
    for moment in (np.exp, lambda x: x, np.square):
        a, b = moment(numpy_run), moment(jax_run)
        error = np.hypot(a.std() / np.sqrt(a.size), b.std() / np.sqrt(b.size))
        assert abs(a.mean() - b.mean()) < Z_MAX * error


@pytest.mark.full
def test_the_divergence_is_that_of_the_compiled_filter():
    exact = MODEL.exact()
    sizes = {"num_gold": 2000, "num_target": 2000}
    ours = MODEL.filter(5, resampler="systematic", proposal=MODEL.proposal())
    theirs = aide.ParticleFilter(exact.state_space(), 5, exact.optimal_proposal(), "systematic")
    a = aide.estimate(KEY, exact.posterior(), ours, **sizes)
    b = aide.estimate(KEY, exact.posterior(), theirs, **sizes)
    assert abs(a.value - b.value) < Z_MAX * np.hypot(a.std_error, b.std_error)


class PinsTheSlot(AbstractScheme):
    """Wrong: the retained particle overwrites slot 0 of systematic, hence sorted, ancestors."""

    def ancestors(self, key, weights):
        return aide.smc.Systematic().ancestors(key, weights)

    def conditional(self, key, weights, retained):
        return self.ancestors(key, weights).at[0].set(retained), 0 * retained


@pytest.mark.full
def test_check_takes_it_and_refuses_a_wrong_twin():
    """Where states hardly move, who descends from whom matters most."""
    slow = dataclasses.replace(MODEL, level_std=0.1, noise_std=0.8)
    assert aide.check(KEY, slow.filter(4, resampler="systematic"), num_runs=6000).passed
    wrong = slow.filter(4, resampler=PinsTheSlot())
    assert not aide.check(KEY, wrong, num_runs=40_000).passed
