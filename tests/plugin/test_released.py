"""Released kernels of BlackJAX and cuthbert, and kernels with planted errors, in one suite.

Kernels that a test lists as wrong break a law in the release that is installed, or by design.
"""

from typing import Any

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc import integrators, random_walk
from blackjax.mcmc import slice as slicing
from cuthbertlib.resampling import killing, multinomial, systematic
from cuthbertlib.smc.smoothing import exact_sampling
from cuthbertlib.smc.smoothing import mcmc as backward_mcmc
from jax.scipy.stats import norm

import aide
from aide.problems import Categorical, Normal
from aide.smc.resampling import AbstractScheme
from aide_pytest import LawBroken

pytestmark = pytest.mark.full
ONE = jnp.ones(2)
DENSE = jnp.array([[1.0, 0.4], [0.4, 0.6]])
PROPOSAL_SCALE = 1.5


class Wide:
    """Where steps start: wider than the density."""

    def sample(self, key):
        return 2.0 * jax.random.normal(key, (2,))

    def log_prob(self, x):
        return norm.logpdf(x, 0.0, 2.0).sum()


def log_density(x):
    """Two modes of different shapes: no sign error hides behind a symmetry."""
    left = -0.5 * jnp.sum((x - 1.0) ** 2 * jnp.array([1.0, 3.0]))
    return jnp.logaddexp(left, -0.5 * jnp.sum((x + jnp.array([1.0, 0.5])) ** 2))


def log_likelihood(x):
    """With a standard normal prior: for samplers that take the prior apart."""
    return -0.5 * jnp.sum((x - jnp.array([1.0, -0.5])) ** 2 / jnp.array([0.5, 0.8]))


def log_posterior(x):
    return log_likelihood(x) - 0.5 * jnp.sum(x**2)


def skewed(key, x):
    """A proposal that is not symmetric: it drifts to the right."""
    return x + 0.4 + 0.7 * jax.random.normal(key, (2,))


def log_skewed(old, new):
    """BlackJAX asks for the log density of `old.position` given `new.position`."""
    return norm.logpdf(new.position, old.position + 0.4, 0.7).sum()


def independent(key):
    return PROPOSAL_SCALE * jax.random.normal(key, (2,))


def log_independent(old, new):
    return norm.logpdf(new.position, 0.0, PROPOSAL_SCALE).sum()


def keyed(algorithm):
    """Dynamic samplers: their state holds a key, drawn anew before every step."""

    def step(key, x):
        key_state, key_step = jax.random.split(key)
        return algorithm.step(key_step, algorithm.init(x, key_state))[0].position

    return step


def mass(x):
    """A mass matrix that changes with the position."""
    return jnp.diag(1.0 + 0.5 * jnp.tanh(x) ** 2)


D = log_density
REVERSIBLE: dict[str, Any] = {
    "normal random walk": lambda: random_walk.normal_random_walk(D, ONE),
    "additive step": lambda: blackjax.additive_step_random_walk(D, random_walk.normal(0.7 * ONE)),
    "rmh, symmetric": lambda: blackjax.rmh(D, lambda k, x: x + jax.random.normal(k, (2,))),
    "rmh, skewed": lambda: blackjax.rmh(D, skewed, log_skewed),
    "irmh": lambda: blackjax.irmh(D, independent, log_independent),
    "mala": lambda: blackjax.mala(D, 0.3),
    "barker": lambda: blackjax.barker(D, 0.7),
    "barker, dense": lambda: blackjax.barker(D, 0.7, DENSE),
    "hmc": lambda: blackjax.hmc(D, 0.5, ONE, 4),
    "hmc, dense": lambda: blackjax.hmc(D, 0.5, DENSE, 4),
    "hmc, McLachlan": lambda: blackjax.hmc(D, 0.9, ONE, 2, integrator=integrators.mclachlan),
    "hmc, Yoshida": lambda: blackjax.hmc(D, 0.9, ONE, 2, integrator=integrators.yoshida),
    "nuts": lambda: blackjax.nuts(D, 0.5, ONE),
    "nuts, dense": lambda: blackjax.nuts(D, 0.5, DENSE),
    "nuts, 2 doublings": lambda: blackjax.nuts(D, 0.3, ONE, max_num_doublings=2),
    "dynamic hmc": lambda: keyed(blackjax.dynamic_hmc(D, 0.5, ONE)),
    "adjusted mclmc": lambda: blackjax.adjusted_mclmc(D, 0.6, num_integration_steps=3),
    "adjusted mclmc, dynamic": lambda: keyed(blackjax.adjusted_mclmc_dynamic(D, 0.6)),
    "rmhmc": lambda: blackjax.rmhmc(D, 0.4, mass, 3),
    "slice, doubling": lambda: blackjax.slice_sampling(D),
    "slice, stepping out": lambda: blackjax.slice_sampling(D, interval=slicing.stepping_out),
    "gist step size": lambda: blackjax.gist_step_size(D, ONE, 0.5),
    "gist length": lambda: blackjax.gist_trajectory_length(D, ONE, 0.4),
}
INVARIANT: dict[str, Any] = {
    "ghmc": lambda: blackjax.ghmc(D, 0.5, ONE, 0.5, 0.2),
    "coordinate slice": lambda: blackjax.coordinate_slice(D),
    "coordinate slice, fixed": lambda: blackjax.coordinate_slice(
        D, coordinate_order=slicing.fixed_order
    ),
}
WITH_PRIOR: dict[str, Any] = {
    "elliptical slice": lambda: blackjax.elliptical_slice(
        log_likelihood, mean=jnp.zeros(2), cov=jnp.eye(2)
    ),
    "marginal latent Gaussian": lambda: blackjax.mgrad_gaussian(
        log_likelihood, covariance=jnp.eye(2), step_size=0.8
    ),
}
WRONG: dict[str, Any] = {
    "unadjusted Langevin": lambda: (
        lambda k, x: x + 0.3 * jax.grad(D)(x) + jnp.sqrt(0.6) * jax.random.normal(k, (2,))
    ),
    "skewed, without its density": lambda: blackjax.rmh(D, skewed),
    "another temperature": lambda: blackjax.hmc(lambda x: 0.8 * D(x), 0.5, ONE, 4),
    "independent, taken for symmetric": lambda: blackjax.irmh(D, independent),
    "a factor left out": lambda: blackjax.mala(lambda x: D(x) + 0.25 * jnp.sum(x**2), 0.3),
    "mclmc (unadjusted by design)": lambda: blackjax.mclmc(D, L=2.0, step_size=2.5),
}


@pytest.mark.parametrize("name", REVERSIBLE)
def test_reversible_kernels_of_blackjax(aide_laws, name):
    aide_laws.kernel(REVERSIBLE[name](), log_density, Wide())


@pytest.mark.parametrize("name", INVARIANT)
def test_invariant_kernels_of_blackjax(aide_laws, name):
    aide_laws.kernel(INVARIANT[name](), log_density, Wide(), reversal=False)


@pytest.mark.parametrize("name", WITH_PRIOR)
def test_kernels_with_a_gaussian_prior(aide_laws, name):
    aide_laws.kernel(WITH_PRIOR[name](), log_posterior, Wide())


@pytest.mark.parametrize("name", WRONG)
def test_planted_errors_are_found(aide_laws, name):
    with pytest.raises(LawBroken, match="reversible|invariance"):
        aide_laws.kernel(WRONG[name](), log_density, Wide())


@pytest.fixture
def double():
    """Double precision in all threads: cuthbert calls back to NumPy from threads of XLA."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


BEFORE, WEIGHTS = jnp.array([-1.0, 0.2, 0.9, 2.0]), jnp.log(jnp.array([0.1, 0.4, 0.3, 0.2]))
AFTER = jnp.array([0.7])


def log_transition(x0, x1):
    return norm.logpdf(x1, 0.9 * x0, 0.6)


def log_backward(index):
    """The law of the ancestor in backward sampling."""
    return WEIGHTS[index] + log_transition(BEFORE[index], AFTER[0])


def backward_step(key, index):
    start = index[None].astype(int)  # the integers that the sampler itself makes
    found = backward_mcmc.simulate(key, BEFORE, AFTER, WEIGHTS, log_transition, start, 1)
    return found[1][0]


def exact_step(key, index):
    found = exact_sampling.simulate_single(key, BEFORE, AFTER[0], WEIGHTS, log_transition)
    return found[1]


@pytest.mark.parametrize("step", [backward_step, exact_step], ids=["mcmc", "exact"])
def test_backward_samplers_of_cuthbert(aide_laws, double, step):
    aide_laws.kernel(step, log_backward, Categorical(jnp.full(4, 0.25)))


class FromCuthbert(AbstractScheme):
    """A resampling scheme of cuthbert in random cyclic order, and its conditional twin."""

    module: Any = eqx.field(static=True)

    def ancestors(self, key, weights):
        key_draw, key_roll = jax.random.split(key)
        found = self._draw(key_draw, weights)
        return jnp.roll(found, jax.random.randint(key_roll, (), 0, weights.size))

    def conditional(self, key, weights, retained):
        key_draw, key_slot = jax.random.split(key)
        slot = jax.random.randint(key_slot, (), 0, weights.size)
        num = weights.size
        found, _, _ = self.module.conditional_resampling(
            key_draw, jnp.log(weights), jnp.zeros(num), num, slot, retained
        )
        return found, slot

    def _draw(self, key, weights):
        num = weights.size
        return self.module.resampling(key, jnp.log(weights), jnp.zeros(num), num)[0]


class Uniform(FromCuthbert):
    """A wrong scheme: ancestors are drawn without regard to the weights."""

    def ancestors(self, key, weights):
        return super().ancestors(key, jnp.ones_like(weights))

    def conditional(self, key, weights, retained):
        return super().conditional(key, jnp.ones_like(weights), retained)


def particle_filter(scheme):
    """Two particles, and weights that differ: where a wrong twin shows best."""
    model = aide.StateSpaceModel(
        initial=Normal(0.0, 1.0),
        transition=lambda x, t: Normal(0.8 * x, 0.7),
        observation=lambda x, t: Normal(x, 0.3),
        observations=np.array([0.8, -0.5, 1.9]),
    )
    return aide.ParticleFilter(model, 2, resampler=aide.smc.EveryStep(scheme))


@pytest.mark.parametrize("module", [multinomial, systematic, killing], ids=lambda m: m.__name__)
def test_resampling_of_cuthbert_and_its_twins(aide_laws, double, module):
    aide_laws.algorithm(particle_filter(FromCuthbert(module)), shrink=False)


def test_a_scheme_that_ignores_weights_is_found(aide_laws, double):
    with pytest.raises(LawBroken, match="law"):
        aide_laws.algorithm(particle_filter(Uniform(systematic)), shrink=False)
