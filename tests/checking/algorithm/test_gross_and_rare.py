"""`aide.check` finds gross errors, whatever their tails, and leaves rare but correct ones alone."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aide
from aide.problems.distributions import Normal

KEY = jax.random.key(3)


def normal_with(size, std, log_density):
    return aide.Tractable(lambda key: std * jax.random.normal(key, (size,)), log_density)


def total_log_prob(x, std):
    return Normal(0.0, std).log_prob(x)


@pytest.mark.parametrize("log_z", [None, pytest.param(0.0, marks=pytest.mark.full)])
@pytest.mark.parametrize("size", [3, pytest.param(16, marks=pytest.mark.full)])
@pytest.mark.full
def test_a_variance_in_place_of_a_scale_is_found(size, log_z):
    """The error is so large that the tails of 1/xi have no mean; the constant claimed or not."""
    wrong_one = normal_with(size, 0.1, lambda x: total_log_prob(x, 0.1**2))
    report = aide.check(KEY, dataclasses.replace(wrong_one, log_z=log_z))
    assert report.verdict == "failed"
    assert report.p_value < 1e-30
    words = [word for word in repr(report).split() if set(word) != {"─"}]
    assert len(max(words, key=len)) < 20  # no number of a hundred digits


@pytest.mark.full
def test_a_gross_factor_is_found():
    wrong_one = normal_with(4, 1.0, lambda x: total_log_prob(x, 1.0) + 12.0 * x[0])
    assert aide.check(KEY, wrong_one).p_value < 1e-30
    assert aide.check(KEY, normal_with(35, 1.0, lambda x: total_log_prob(x, 1.0))).passed


class HandFilter(eqx.Module):
    """A bootstrap filter written out; optionally one weight takes the observation before."""

    num_particles: int = eqx.field(static=True)
    wrong: bool = eqx.field(static=True, default=False)

    @property
    def log_z(self):
        return 0.0

    def simulate(self, key):
        key_run, key_pick = jax.random.split(key)
        paths, log_w, log_evidence = self._run(key_run, None)
        path = paths[jax.random.categorical(key_pick, log_w)]
        return aide.Draw(path, self._log_joint(path) - log_evidence)

    def regenerate(self, key, value):
        return self._log_joint(value) - self._run(key, value)[2]

    def _run(self, key, retained):
        observations, num = (0.3, 1.9, -0.7), self.num_particles
        # The first column is the state before the first, which all paths share.
        paths, log_w, log_evidence = jnp.zeros((num, 1)), jnp.zeros(num), 0.0
        for time, seen in enumerate(observations):
            key_choice, key_x, key = jax.random.split(key, 3)
            chosen = jax.random.categorical(key_choice, log_w, shape=(num,))
            paths = paths[chosen if retained is None else chosen.at[0].set(0)]
            x = 0.8 * paths[:, -1] + (0.6 if time else 1.0) * jax.random.normal(key_x, (num,))
            x = x if retained is None else x.at[0].set(retained[time])
            paths = jnp.concatenate([paths, x[:, None]], axis=1)
            weighed = observations[time - 1] if self.wrong and time == 2 else seen
            log_w = jax.vmap(Normal(weighed, 0.5).log_prob)(x)
            log_evidence += jax.nn.logsumexp(log_w) - jnp.log(num)
        return paths[:, 1:], log_w, log_evidence

    def _log_joint(self, x):
        prior = Normal(0.0, 1.0).log_prob(x[0]) + Normal(0.8 * x[:-1], 0.6).log_prob(x[1:])
        return prior + Normal(jnp.array([0.3, 1.9, -0.7]), 0.5).log_prob(x)


@pytest.mark.full
def test_a_wrong_observation_in_one_weight_is_found():
    """Both operations make the same mistake, so that law 2 sees nothing; the densities do."""
    report = aide.check(KEY, HandFilter(10, wrong=True))
    assert report.verdict == "failed"
    assert report.p_value < 1e-12
    assert {item.law for item in report.failures} <= {1, 5, 6}
    assert aide.check(KEY, HandFilter(10)).passed


class RareTrace(eqx.Module):
    """N(0, 1) with a binary trace: q(u) = 1/2, r(u = 1) = `rare`. Correct."""

    rare: float

    @property
    def log_z(self):
        return 0.0

    def simulate(self, key):
        key_x, key_u = jax.random.split(key)
        x = jax.random.normal(key_x)
        return aide.Draw(x, self._log_xi(x, jax.random.bernoulli(key_u)))

    def regenerate(self, key, value):
        return self._log_xi(value, jax.random.bernoulli(key, self.rare))

    def _log_xi(self, x, u):
        chance = jnp.where(u, self.rare, 1 - self.rare)
        return Normal(0.0, 1.0).log_prob(x) + jnp.log(0.5) - jnp.log(chance)


class WithAtom(eqx.Module):
    """N(0, 0.01^2), and 0 with probability `atom`. Correct."""

    atom: float

    @property
    def log_z(self):
        return 0.0

    def simulate(self, key):
        key_x, key_u = jax.random.split(key)
        real = Normal(0.0, 0.01).sample(key_x)
        x = jnp.where(jax.random.uniform(key_u) < self.atom, 0.0, real)
        return aide.Draw(x, self.regenerate(key, x))

    def regenerate(self, key, value):
        real = Normal(0.0, 0.01).log_prob(value) + jnp.log1p(-self.atom)
        return jnp.where(value == 0.0, jnp.log(self.atom), real)


class TenStates(eqx.Module):
    """A uniform start for one site with ten values."""

    def sample(self, key):
        return jax.random.randint(key, (1,), 0, 10)

    def log_density(self, x):
        return -jnp.log(10.0)


def log_rare(x):
    """One common state and nine of mass 1e-6."""
    return jnp.where(x[0] == 0, jnp.log(1 - 9e-6), jnp.log(1e-6))


GIBBS_CHAIN = aide.mcmc(
    TenStates(), log_rare, kernel=aide.kernels.GibbsSites(np.arange(1), 10), num_steps=1
)


@pytest.mark.parametrize(
    "algorithm",
    [
        RareTrace(1e-4),
        pytest.param(RareTrace(0.01), marks=pytest.mark.full),
        pytest.param(WithAtom(9e-3), marks=pytest.mark.full),
        pytest.param(GIBBS_CHAIN, marks=pytest.mark.full),
    ],
)
@pytest.mark.full
def test_correct_algorithms_with_rare_states_traces_and_atoms_do_not_fail(algorithm):
    """Where the mean of xi cannot be seen, the report says that, and no more."""
    for seed in range(2):
        report = aide.check(jax.random.key(seed), algorithm)
        assert not report.failures, report
        if getattr(algorithm, "rare", None) == 1e-4:
            assert report.verdict == "undecided"
            assert re.search("rare large values were not seen|rests on [0-9]+ of", repr(report))
