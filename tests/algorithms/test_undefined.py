r"""Where a log density is NaN it counts as impossible: exact laws of what is sampled instead.

$\gamma(x) = x\,e^{-x^2/2}$, written as $\log x - x^2/2$, is NaN for $x < 0$: with the rule it is
the Rayleigh density, whose constant is 1.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX
from support.pairs import KEY, gaussian, run

import aide
from aide._core.distribution import Possible, as_written, possible
from aide.problems.distributions import Normal


class HalfNormal(eqx.Module):
    r"""$|z|$ with $z \sim N(0, 1.3^2)$: no draw of the start is where the density has no value."""

    def sample(self, key):
        return jnp.abs(1.3 * jax.random.normal(key))

    def log_density(self, x):
        return jnp.log(2.0) + Normal(0.0, 1.3).log_prob(x)


START = HalfNormal()
FULL = lambda *values: pytest.param(*values, marks=pytest.mark.full)
RAYLEIGH = lambda x: jnp.log(x) - 0.5 * x**2
NO_HOLE = lambda x: jnp.where(x > 0, RAYLEIGH(jnp.maximum(x, 1e-30)), -jnp.inf)
WALK = aide.kernels.RandomWalk(0.9)
TARGET = aide.Tractable.of(START)
BUILD = {
    "walk": lambda log, num: smc(log, WALK, num),
    "mala": lambda log, num: smc(log, aide.kernels.Mala(0.7), num),
    "hmc": lambda log, num: smc(log, aide.kernels.Hmc(0.5, 2), num),
    "nuts": lambda log, num: smc(log, aide.kernels.Nuts(0.5, 2), num),
}


def smc(log_joint, kernel, num):
    return aide.tempered_smc(
        START, log_joint, kernel=kernel, num_particles=num, temperatures=[0.3, 1.0]
    )


def test_the_rule():
    rule = possible(RAYLEIGH)
    assert rule(-1.0) == -np.inf
    assert possible(lambda x: x)(np.inf) == -np.inf
    assert rule(2.0) == RAYLEIGH(2.0)
    assert possible(rule) is rule
    assert as_written(rule) is RAYLEIGH
    strict = aide.algorithms.strict(RAYLEIGH)
    assert possible(strict) is strict
    assert np.isnan(strict(-1.0))
    # What is no number at all is left to those who have words for it.
    assert np.shape(Possible(lambda x: x)(np.zeros(3))) == (3,)


@pytest.mark.full
@pytest.mark.parametrize("num", [FULL(1), 2, FULL(3)])
def test_nan_is_minus_infinity(num):
    """To the last bit, where no gradient sees the difference."""
    one, other = (
        run(smc(log, WALK, num), TARGET, 20, keep_values=True) for log in (RAYLEIGH, NO_HOLE)
    )
    np.testing.assert_array_equal(one.draws.gold.values, other.draws.gold.values)
    np.testing.assert_array_equal(one.draws.gold.own, other.draws.gold.own)


def _mean_of_density_over_xi(name, num_particles, log_density, num=20_000):
    r"""Law 5: mean and standard error of $h(x)/\xi$ over runs, 1 for a normalised $h$."""

    def one(key):
        x, log_xi = algorithm.simulate(key)
        return x, jnp.exp(log_density(x) - log_xi)

    with jax.enable_x64(True):
        algorithm = BUILD[name](lambda x: RAYLEIGH(x) + 0.0 * jnp.sqrt(x), num_particles)
        x, terms = jax.jit(jax.vmap(one))(jax.random.split(KEY, num))
    assert (np.asarray(x) > 0).all()
    terms = np.asarray(terms)
    return float(terms.mean()), float(terms.std() / np.sqrt(num))


@pytest.mark.parametrize(
    ("name", "num"),
    [("walk", 2), ("hmc", 2), ("hmc", 1)]
    + [FULL(name, num) for name in BUILD for num in (1, 2, 3)],
)
def test_laws_hold_with_nan_as_impossible(name, num):
    """Gradients are NaN there too: a step that meets one is a rejection and poisons nothing."""
    mean, error = _mean_of_density_over_xi(name, num, NO_HOLE)
    assert abs(mean - 1.0) < Z_MAX * error, (mean, error)
    # A control: a density with half of its mass where the algorithm has none.
    wrong, error = _mean_of_density_over_xi(name, num, Normal(0.0, 1.0).log_prob)
    assert abs(wrong - 1.0) > 2 * Z_MAX * error, (wrong, error)


@pytest.mark.full
def test_the_rule_passes_the_check_of_algorithms():
    """Swaps of runs and regenerations, at 1, 2 and 3 particles."""
    small = aide.check(KEY, smc(RAYLEIGH, WALK, 3), num_runs=2000, progress=False)
    assert small.passed, small


def test_strict_makes_it_an_error():
    chain = aide.mcmc(
        gaussian(1.0, 0.1), aide.algorithms.strict(RAYLEIGH), kernel=WALK, num_steps=3
    )
    with pytest.raises(ValueError, match=r"log_xi = nan for \d+ of 50 runs.*never nan"):
        run(chain, TARGET, 50, 1)


def test_at_outputs_of_others_nan_stays_an_error():
    """No density where another algorithm's output lies: not a divergence of infinity, a mistake."""
    with pytest.raises(ValueError, match=r"regenerate of the gold algorithm .*gave log_xi = nan"):
        run(smc(RAYLEIGH, WALK, 2), gaussian(0.4, 1.2), 50, 1)


def test_chains_stay_where_the_density_has_a_value():
    with jax.enable_x64(True):
        start, kernel = gaussian(1.0, 0.1), aide.kernels.Mala(1.5)
        chain = aide.mcmc(start, RAYLEIGH, kernel=kernel, num_steps=30)
        ends = eqx.filter_jit(jax.vmap(lambda key: chain.simulate(key)))(jax.random.split(KEY, 500))
    assert np.isfinite(ends.value).all()
    assert (np.asarray(ends.value) > 0).all()
    assert np.isfinite(ends.log_xi).all()
