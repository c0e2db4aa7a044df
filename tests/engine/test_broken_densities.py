r"""NaN and infinite densities at outputs are errors with a count and a place.

$-\infty$ is an answer. Kernels do what the density they are given says: NaN is entered and reaches
the caller. Algorithms give them one that is $-\infty$ there (`tests/algorithms/test_undefined.py`),
unless it is strict.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pairs import KEY, gaussian, run

import aide
from aide.problems.distributions import Normal

NORMAL = gaussian(0.1, 0.7)
COUNT_AND_PLACE = r"log_xi = nan for \d+ of \d+ runs, first at x = .*may be -inf.*never nan"


def test_nan_in_a_tractable_target():
    target = aide.Tractable(NORMAL.sample, jnp.log)
    expected = int((run(NORMAL, NORMAL, 20, 5, keep_values=True).draws.gold.values < 0).sum())
    words = rf"regenerate of the target algorithm \(Tractable\).*nan for {expected} of 20 runs"
    with pytest.raises(ValueError, match=words):
        run(NORMAL, target, 20, 5)
    with pytest.raises(ValueError, match=COUNT_AND_PLACE):
        run(target, NORMAL)


LOG = lambda x: -0.5 * x * x + jnp.log(x)
ROOT = lambda x: -0.5 * x * x + jnp.sqrt(x)
"""NaN for x < 0, where the gradient of LOG is finite and that of ROOT is NaN, too."""
KERNELS = {
    "random walk": (aide.kernels.RandomWalk(1.0), ROOT),
    "mala": (aide.kernels.Mala(1.0), ROOT),
    "hmc": (aide.kernels.Hmc(0.6, 3), ROOT),
    "hmc, finite gradient": (aide.kernels.Hmc(0.6, 3), LOG),
    "independence": (aide.kernels.Independence(gaussian(0.0, 1.0)), LOG),
}


def _after(kernel, log_density):
    """The log density after one step of 200 chains from 0.4, where it is finite."""
    step = lambda key: log_density(kernel.step(key, log_density, jnp.asarray(0.4)))
    return jax.jit(jax.vmap(step))(jax.random.split(KEY, 200))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full) if n == "mala" else n for n in KERNELS]
)
@pytest.mark.usefixtures("x64")
def test_nan_at_a_proposal_is_entered(name):
    """So that it reaches log xi; a rejection would hide it."""
    assert jnp.isnan(_after(*KERNELS[name])).any()


@pytest.mark.parametrize("name", ["mala", pytest.param("hmc", marks=pytest.mark.full)])
@pytest.mark.usefixtures("x64")
def test_zero_density_at_a_proposal_is_a_rejection(name):
    """Control: -inf is no error, even where the gradient is NaN (as that of `jnp.where`)."""
    bounded = lambda x: jnp.where(x > 0, ROOT(x), -jnp.inf)
    assert jnp.isfinite(_after(KERNELS[name][0], bounded)).all()


@pytest.mark.full
def test_nan_inside_tempered_smc():
    smc = aide.tempered_smc(
        NORMAL,
        aide.algorithms.strict(lambda x: LOG(x + 1.0)),
        kernel=KERNELS["random walk"][0],
        num_particles=2,
        num_temperatures=2,
    )
    with pytest.raises(ValueError, match=COUNT_AND_PLACE):
        run(smc, NORMAL, 200, 1)


@pytest.mark.full
def test_nan_inside_gibbs_sweeps():
    fair = aide.Tractable(
        lambda key: jax.random.bernoulli(key, 0.5, (3,)).astype(int), lambda x: jnp.log(0.125)
    )
    log_density = lambda x: jnp.log(2.5 - jnp.sum(x))
    sweep = aide.kernels.GibbsSites([0, 1, 2], 2)
    chain = aide.mcmc(fair, aide.algorithms.strict(log_density), kernel=sweep, num_steps=1)
    with pytest.raises(ValueError, match=r"first at x = \[1 1 1\]"):
        run(chain, fair, 20, 1)


def test_infinite_density():
    target = aide.Tractable(NORMAL.sample, lambda x: jnp.where(x > 0, jnp.inf, 0.0))
    with pytest.raises(ValueError, match=r"log_xi = inf for \d+ of 20 runs.*must be finite"):
        run(NORMAL, target)


@pytest.mark.parametrize("cut", [pytest.param(0.0, marks=pytest.mark.full), 20.0])
def test_infinite_density_in_sir(cut):
    """At 20 only outputs of the gold standard reach the pole: no mass would be a wrong answer."""
    log_joint = lambda x: jnp.where(x > cut, jnp.inf, 0.0)
    target = aide.sir(NORMAL, log_joint, num_particles=2)
    with pytest.raises(ValueError, match="nan|inf"):
        run(gaussian(cut + 1.0, 0.7), target)


VECTOR = aide.Tractable.of(Normal(np.zeros(3), 1.0))
ELEMENTWISE = lambda x: -0.5 * x**2
UNSUMMED = {
    "tractable": lambda: aide.Tractable(VECTOR.sample, ELEMENTWISE),
    "sir": lambda: aide.sir(VECTOR, ELEMENTWISE, num_particles=2),
    "tempered": lambda: aide.tempered_smc(
        VECTOR,
        ELEMENTWISE,
        kernel=aide.kernels.RandomWalk(0.5),
        num_particles=2,
        num_temperatures=2,
    ),
    "mcmc": lambda: aide.mcmc(VECTOR, ELEMENTWISE, kernel=aide.kernels.Hmc(0.5, 2), num_steps=2),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full) if n == "tempered" else n for n in UNSUMMED]
)
def test_density_of_the_wrong_shape(name):
    with pytest.raises(ValueError, match=r"\(3,\).*summed over its components"):
        run(UNSUMMED[name](), VECTOR)
