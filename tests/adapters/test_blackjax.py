r"""BlackJAX: kernels that are reversible, approximations that can be scored."""

from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from blackjax.vi.fullrank_vi import FRVIState, generate_fullrank_logdensity
from blackjax.vi.meanfield_vi import MFVIState, generate_meanfield_logdensity
from blackjax.vi.multipathfinder import MultipathfinderState
from blackjax.vi.pathfinder import PathfinderState
from jax.scipy.stats import norm
from support import Z_MAX

import aide
from aide.adapters import blackjax as adapter
from aide.adapters.gaussian import Gaussian
from aide.problems.distributions import Normal

KEY = jax.random.key(5)
METRIC = np.array([1.0, 0.25])
START = Normal(np.full(2, 0.5), np.full(2, 1.2))


def log_density(x):
    return -0.5 * jnp.sum((x - 1.0) ** 2 * jnp.array([1.0, 4.0])) - 0.1 * jnp.sum(x**4)


def shifted(key, x):
    """An asymmetric proposal."""
    return x + 0.2 + 0.7 * jax.random.normal(key, x.shape, x.dtype)


def log_shifted(old, new):
    return jnp.sum(norm.logpdf(new.position, old.position + 0.2, 0.7))


def independent(key):
    return 1.5 * jax.random.normal(key, (2,), float)


def log_independent(old, new):
    return jnp.sum(norm.logpdf(new.position, 0.0, 1.5))


SETTINGS: dict[str, dict[str, Any]] = {
    "rmh": {"proposal_generator": shifted, "proposal_logdensity_fn": log_shifted},
    "irmh": {
        "proposal_distribution": independent,
        "proposal_logdensity_fn": log_independent,
    },
    "additive_step_random_walk": {
        "random_step": blackjax.mcmc.random_walk.normal(jnp.array([1.0, 0.25]))
    },
    "normal_random_walk": {"sigma": METRIC},
    "mala": {"step_size": 0.3},
    "barker": {"step_size": 0.5},
    "hmc": {"step_size": 0.3, "inverse_mass_matrix": METRIC, "num_integration_steps": 4},
    "nuts": {"step_size": 0.3, "inverse_mass_matrix": METRIC},
}


def _kernel(name, **settings):
    return adapter.kernel(getattr(blackjax, name), **{**SETTINGS[name], **settings})


def test_every_reversible_algorithm_is_listed_here():
    assert set(SETTINGS) == set(adapter.REVERSIBLE)
    for name in (*adapter.REVERSIBLE, *adapter.REFUSED):
        assert hasattr(blackjax, name)


@pytest.mark.parametrize("name", ["rmh", "mala", "hmc"])
def test_a_step_is_that_of_the_algorithm(name, x64):
    x = jnp.array([0.3, -0.2])
    algorithm = getattr(blackjax, name)(log_density, **SETTINGS[name])
    state, info = algorithm.step(KEY, algorithm.init(x))
    y, accepted = _kernel(name).observe_step(KEY, log_density, x)
    np.testing.assert_array_equal(y, state.position)
    assert accepted.tolist() == [float(info.is_accepted)]


@pytest.mark.parametrize("name", sorted(adapter.REFUSED))
def test_what_is_not_reversible_is_refused_by_name(name):
    with pytest.raises(ValueError, match=f"blackjax.{name} .*Take one of rmh"):
        adapter.kernel(getattr(blackjax, name))


def test_what_is_unknown_is_refused_with_the_test_for_it():
    with pytest.raises(ValueError, match=r"aide\.check_kernel"):
        adapter.kernel(blackjax.slice_sampling)
    with pytest.raises(ValueError, match="independent ones are not"):
        adapter.kernel(blackjax.irmh, proposal_distribution=independent)
    with pytest.raises(TypeError, match="blackjax.mala.*step_length"):
        adapter.kernel(blackjax.mala, step_length=0.1)


def test_kernels_with_other_numbers_can_be_stacked():
    stacked = aide.kernels.stack_kernels([_kernel("mala", step_size=h) for h in (0.1, 0.2)])
    assert stacked.num_kernels == 2


@pytest.mark.full
def test_variational_fits_have_the_density_of_the_library(x64):
    x, mean = jnp.array([0.4, -0.3]), jnp.array([0.1, 0.9])
    state = MFVIState(mean, jnp.array([-0.5, 0.3]), ())
    expected = generate_meanfield_logdensity(state.mu, state.rho)(x)
    found = adapter.approximation(state).log_density(x)
    assert float(found) == pytest.approx(float(expected), abs=1e-10)
    full = FRVIState(mean, jnp.array([-0.5, 0.3, 0.8]), ())
    expected = generate_fullrank_logdensity(full.mu, full.chol_params)(x)
    found = adapter.approximation(full).log_density(x)
    assert float(found) == pytest.approx(float(expected), abs=1e-10)


def _path(scale):
    """What Pathfinder keeps of an iteration, made up: an inverse Hessian of rank one and more."""
    position = {"b": jnp.array([0.3, 0.1]), "a": jnp.array(-1.0)}
    gradient = {"b": jnp.array([0.2, -0.4]), "a": jnp.array(0.5)}
    beta = scale * jnp.array([[0.3, 0.1], [-0.2, 0.4], [0.5, 0.0]])
    gamma = jnp.array([[0.7, 0.1], [0.1, 0.9]])
    alpha = jnp.array([0.5, 1.0, 2.0])
    return PathfinderState(jnp.zeros(()), position, gradient, alpha, beta, gamma)


@pytest.mark.full
def test_pathfinder_has_the_density_of_the_library(x64):
    """Its own draws come with their log density."""
    paths = _path(1.0), _path(0.3)
    draws, log_q = blackjax.pathfinder.sample(KEY, paths[0], 3)
    single = adapter.approximation(paths[0])
    found = jax.vmap(single.log_density)(draws)
    np.testing.assert_allclose(found, log_q, atol=1e-10)
    one = jax.tree.map(lambda leaf: leaf[0], draws)

    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), *paths)
    mixture = adapter.approximation(MultipathfinderState(both, (), jnp.zeros(2), jnp.zeros(2)))
    parts = [float(adapter.approximation(path).log_density(one)) for path in paths]
    found = float(mixture.log_density(one))
    assert found == pytest.approx(np.logaddexp(parts[0], parts[1]) - np.log(2.0), abs=1e-10)
    assert jax.tree.structure(mixture.sample(KEY)) == jax.tree.structure(one)


@pytest.mark.full
def test_fits_of_a_gaussian_are_exact(x64):
    """Pathfinder and the full-rank fit find a Gaussian; the mean-field one cannot."""
    covariance = np.array([[1.0, 0.6], [0.6, 2.0]])
    factor = np.linalg.cholesky(covariance)
    gold = aide.Tractable.of(Gaussian(np.array([1.0, -1.0]), factor))
    sizes = {"num_gold": 1000, "num_target": 1000}
    state, _ = blackjax.pathfinder.approximate(KEY, gold.log_density, jnp.zeros(2))
    found = aide.estimate(KEY, gold, adapter.approximation(state), **sizes)
    assert found.value < 1e-3
    values = {}
    for kind in ("meanfield_vi", "fullrank_vi"):
        algorithm = getattr(blackjax, kind)(
            gold.log_density, optax.adam(optax.cosine_decay_schedule(0.1, 800))
        )
        fit = algorithm.init(jnp.zeros(2))
        step = jax.jit(algorithm.step)
        for key in jax.random.split(KEY, 800):
            fit, _ = step(key, fit)
        values[kind] = aide.estimate(KEY, gold, adapter.approximation(fit), **sizes)
    assert values["fullrank_vi"].value < 1e-3
    # Standard deviations of the mean-field optimum are those of the conditionals; the two means of
    # log ratios add up to half of tr(P S) + tr(S^-1 C) - 2 d, where P S has ones on its diagonal.
    spread = 1 / np.diag(np.linalg.inv(covariance))
    closed = 0.5 * (2 + np.sum(np.diag(covariance) / spread) - 4)
    found = values["meanfield_vi"]
    assert abs(found.value - closed) < Z_MAX * found.std_error + 1e-2


def test_other_results_are_refused():
    with pytest.raises(TypeError, match="reference_draws"):
        adapter.approximation(jnp.zeros(2))  # pyrefly: ignore[bad-argument-type]


class States(NamedTuple):
    """What matters of a stacked `HMCState`."""

    position: np.ndarray
    logdensity: np.ndarray


def _states(sign=1.0):
    """Draws of a standard normal in single precision, their densities up to a constant."""
    x = np.random.default_rng(0).normal(size=(3, 50, 2)).astype(np.float32)
    return States(x, (3.0 - sign * 0.5 * np.sum(x**2, axis=-1)).astype(np.float32))


def standard(x):
    return -0.5 * jnp.sum(x**2)


def test_states_of_a_sampler_are_reference_draws():
    states = _states()
    gold = adapter.reference_draws(states, standard, chain_axis=0)
    assert gold.draws.dtype == np.float64
    turned = States(states.position.swapaxes(0, 1), states.logdensity.swapaxes(0, 1))
    again = adapter.reference_draws(turned, standard, chain_axis=1)
    np.testing.assert_array_equal(gold.draws, again.draws)


def test_states_of_another_density_are_refused():
    with pytest.raises(ValueError, match="not by a constant"):
        adapter.reference_draws(_states(sign=-1.0), standard, chain_axis=0)
    with pytest.raises(ValueError, match=r"chain_axis=1 for \(draw, chain\)"):
        adapter.reference_draws(_states(), standard)


@pytest.mark.full
def test_draws_of_nuts_are_a_gold_standard():
    """Against the exact distribution, of which they are draws: 0; against a shifted one: 1."""
    metric = np.ones(2)
    algorithm: Any = blackjax.nuts(standard, step_size=0.7, inverse_mass_matrix=metric)

    def one_chain(key):
        def step(state, key):
            state, _ = algorithm.step(key, state)
            return state, state

        return jax.lax.scan(step, algorithm.init(jnp.zeros(2)), jax.random.split(key, 600))[1]

    with jax.enable_x64(True):
        states = jax.jit(jax.vmap(one_chain))(jax.random.split(KEY, 4))
    kept = jax.tree.map(lambda a: a[:, 100:], states)
    gold = adapter.reference_draws(kept, standard, chain_axis=0)
    sizes = {"num_gold": 1000, "num_target": 1000}
    exact = aide.estimate(KEY, gold, aide.Tractable.of(Normal(np.zeros(2), np.ones(2))), **sizes)
    assert exact.value == pytest.approx(0.0, abs=1e-9)
    shift = aide.Tractable.of(Normal(np.array([1.0, 0.0]), np.ones(2)))
    found = aide.estimate(KEY, gold, shift, **sizes)
    assert abs(found.value - 1.0) < Z_MAX * found.std_error


def test_an_exact_fit_gives_zero_and_a_shifted_one_its_closed_form():
    gold = aide.Tractable.of(Normal(np.array([1.0, -2.0]), np.array([0.5, 2.0])))
    exact = MFVIState(jnp.array([1.0, -2.0]), jnp.log(jnp.array([0.5, 2.0])), ())
    shift = exact._replace(mu=jnp.array([1.5, -2.0]))
    sizes = {"num_gold": 400, "num_target": 400}
    same = aide.estimate(KEY, gold, adapter.approximation(exact), **sizes)
    assert same.value == pytest.approx(0.0, abs=1e-6)
    found = aide.estimate(KEY, gold, adapter.approximation(shift), **sizes)
    assert abs(found.value - 1.0) < Z_MAX * found.std_error


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_the_kernels_are_reversible(name):
    report = aide.check_kernel(KEY, _kernel(name), log_density, START, num_runs=100_000)
    assert report.passed


@pytest.mark.full
def test_wrong_ones_are_rejected():
    """A proposal density of the wrong state; and multinomial HMC, which `kernel` refuses."""
    swapped = _kernel("irmh", proposal_logdensity_fn=lambda old, new: log_independent(new, old))
    assert not aide.check_kernel(KEY, swapped, log_density, START).passed
    settings: dict[str, Any] = {
        "step_size": 1.2,
        "inverse_mass_matrix": METRIC,
        "num_integration_steps": 2,
    }

    def step(key, log_density, x):
        algorithm: Any = blackjax.mhmc(log_density, **settings)
        return algorithm.step(key, algorithm.init(x))[0].position

    forwards = aide.kernels.Kernel(step, reversible=True)
    assert not aide.check_kernel(KEY, forwards, log_density, START).passed


@pytest.mark.full
@pytest.mark.parametrize("name", ["normal_random_walk", "mala", "hmc", "nuts"])
def test_annealing_with_the_kernels_obeys_the_laws(name):
    sampler = aide.tempered_smc(
        START,
        log_density,
        kernel=_kernel(name),
        num_temperatures=3,
        num_particles=3,
    )
    assert aide.check(KEY, sampler, num_runs=6000).passed
