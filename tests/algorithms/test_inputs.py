r"""Starts, proposals, bounds, sizes and densities that would give silent wrong numbers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pairs import KEY, gaussian, run, unnormalised

import aide
from aide._core.validate import check_memory
from aide.problems import HiddenMarkovModel
from aide.problems.distributions import Normal

NORMAL = Normal(0.1, 0.7)
WALK = aide.kernels.RandomWalk(0.5)
STARTS = {
    "sir": lambda start: aide.sir(start, NORMAL.log_prob, num_particles=3),
    "ais": lambda start: aide.ais(start, NORMAL.log_prob, kernel=WALK, num_temperatures=2),
    "tempered_smc": lambda start: aide.tempered_smc(
        start, NORMAL.log_prob, kernel=WALK, num_particles=2, num_temperatures=2
    ),
    "mcmc": lambda start: aide.mcmc(start, NORMAL.log_prob, kernel=WALK, num_steps=2),
    "Independence": lambda start: aide.kernels.Independence(start),
    "RejectionSampler": lambda start: aide.RejectionSampler(start, NORMAL.log_prob, 3.0),
    "Tractable.of": lambda start: aide.Tractable.of(start),
    "StateSpaceModel": lambda start: aide.StateSpaceModel(
        start, lambda x, t: Normal(x, 1.0), lambda x, t: Normal(x, 1.0), [0.1, 0.2]
    ),
    "with_start": lambda start: aide.sir(NORMAL, NORMAL.log_prob, num_particles=1).with_start(
        start
    ),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_start_without_its_constant_is_refused(name):
    with pytest.raises(ValueError, match=r"must have a normalised density, but log_z .* None"):
        STARTS[name](unnormalised(0.0, 1.0, None, 5.0))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "name",
    ["sir", "RejectionSampler", "Tractable.of", pytest.param("ais", marks=pytest.mark.full)],
)
@pytest.mark.full
def test_the_constant_of_a_start_is_taken_off(name):
    """Log density + 5 with log_z = 5 is the same start, to rounding."""
    plain, shifted = (STARTS[name](unnormalised(0.0, 1.0, z, z)) for z in (0.0, 5.0))
    both = eqx.filter_jit(lambda a: (a.simulate(KEY), a.regenerate(KEY, jnp.asarray(0.3))))
    one, other = (np.array(jax.tree.leaves(both(algorithm))) for algorithm in (plain, shifted))
    np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("log_z", [float("nan"), float("inf"), "1", np.zeros(2)])
def test_a_bad_constant_is_found_at_construction(log_z):
    with pytest.raises(ValueError, match="log_z of Tractable must be a finite number"):
        aide.Tractable(NORMAL.sample, NORMAL.log_prob, log_z)


def test_rejection_with_an_undefined_bound_or_proposal():
    for bound in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"log_bound must be finite, got {bound}"):
            aide.RejectionSampler(NORMAL, NORMAL.log_prob, bound)
    holes = lambda x: jnp.where(x > 0.0, jnp.nan, Normal(0.0, 1.0).log_prob(x))
    proposal = aide.Tractable(Normal(0.0, 1.0).sample, holes)
    sampler = aide.RejectionSampler(proposal, NORMAL.log_prob, 3.0)
    with pytest.raises(ValueError, match="acceptance probability of RejectionSampler is NaN"):
        run(sampler, gaussian(0.1, 0.7))


def _complex(x: Any) -> Any:
    return NORMAL.log_prob(x) + 1j * x


class ComplexPython:
    """Plain Python code with a complex log density."""

    def simulate(self, rng):
        """One run."""
        return rng.normal(), 1j

    def regenerate(self, rng, value):
        """Meta-inference."""
        return 1j


COMPLEX = {
    "Tractable": aide.Tractable(NORMAL.sample, _complex),
    "sir": aide.sir(NORMAL, _complex, num_particles=2),
    "mcmc": aide.mcmc(NORMAL, _complex, kernel=aide.kernels.Mala(0.3), num_steps=1),
    "rejection": aide.RejectionSampler(NORMAL, _complex, 1.0),
    "ForwardReverse": aide.ForwardReverse(
        lambda key: (NORMAL.sample(key), 1j), lambda key, x: 1j, NORMAL.log_prob
    ),
    "PythonAlgorithm": aide.PythonAlgorithm(ComplexPython()),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_a_complex_log_density_is_refused(name):
    with pytest.raises(TypeError, match="must (be|return a) real"):
        run(COMPLEX[name], gaussian(0.1, 0.7))


def test_a_path_the_optimal_proposal_cannot_make_has_density_zero(x64):
    """State 1 never emits symbol 0, so the optimal proposal never goes there."""
    model = HiddenMarkovModel(
        np.array([0.5, 0.5]), np.full((2, 2), 0.5), np.array([[0.5, 0.5], [0.0, 1.0]]), [0, 0]
    )
    smc = aide.ParticleFilter(model.state_space(), 2, model.optimal_proposal())
    paths = jnp.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    log_xi = jax.jit(jax.vmap(lambda path: smc.regenerate(KEY, path)))(paths)
    assert np.isfinite(log_xi[0])
    np.testing.assert_array_equal(log_xi[1:], -np.inf)


HUGE = 2**40
NOTHING: Any = (None, None, None)
SIZES = {
    "num_particles": lambda: aide.sir(NORMAL, NORMAL.log_prob, num_particles=HUGE),
    "num_steps": lambda: aide.mcmc(NORMAL, NORMAL.log_prob, kernel=WALK, num_steps=HUGE),
    "num_temperatures": lambda: aide.ais(
        NORMAL, NORMAL.log_prob, kernel=WALK, num_temperatures=HUGE
    ),
    "num_leapfrog": lambda: aide.kernels.Hmc(0.1, HUGE),
    "num_times": lambda: aide.kernels.Repeat(WALK, HUGE),
    "num_datasets": lambda: aide.audit_simulated(KEY, *NOTHING, num_datasets=HUGE),
    "num_pilots": lambda: aide.refine(KEY, STARTS["mcmc"](NORMAL), num_pilots=HUGE),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_checked_up_front(name):
    with pytest.raises(ValueError, match=rf"{name} must be at most 2147483647, got .* 8\.8 TB"):
        SIZES[name]()


def test_a_chunk_that_does_not_fit_says_so(monkeypatch):
    from aide.engine.programs.programs import Program

    def exhausted(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 51 bytes.")

    monkeypatch.setattr(Program, "compiled", lambda self, size: exhausted)
    with pytest.raises(MemoryError, match=r"do not fit into memory.*51 bytes.*fewer particles"):
        aide.estimate(KEY, aide.Tractable.of(Normal(0.1, 1.3)), aide.Tractable.of(Normal(0.0, 1.0)))


def test_memory_is_named():
    check_memory("nothing", 0)
    with pytest.raises(ValueError, match=r"runs would take 1\.15e\+03 PB|runs would take 1\.15 EB"):
        check_memory("runs", 2**60)


@pytest.mark.parametrize("name", ["ais", "mcmc", "Cycle"])
def test_a_class_in_the_place_of_a_kernel(name):
    build: dict[str, Any] = {
        "ais": lambda k: aide.ais(NORMAL, NORMAL.log_prob, kernel=k, num_temperatures=2),
        "mcmc": lambda k: aide.mcmc(NORMAL, NORMAL.log_prob, kernel=k, num_steps=2),
        "Cycle": lambda k: aide.kernels.Cycle(k),
    }
    with pytest.raises(TypeError, match=r"kernel must be an instance, got the class Hmc: .*Hmc\("):
        build[name](aide.kernels.Hmc)


def test_resamplers_by_name():
    schemes = (aide.smc.Multinomial, aide.smc.Stratified, aide.smc.Systematic, aide.smc.Residual)
    for scheme in schemes:
        name = scheme.__name__.lower()
        smc = aide.tempered_smc(
            NORMAL,
            NORMAL.log_prob,
            kernel=WALK,
            num_particles=2,
            num_temperatures=2,
            resampler=name,
        )
        assert smc.resampler == aide.smc.EveryStep(scheme())
        assert aide.smc.EssBelow(0.5, name) == aide.smc.EssBelow(0.5, scheme())
    for wrong in ("random", 3, aide.smc.Systematic):
        with pytest.raises(TypeError, match="systematic"):
            aide.smc.Smc(NORMAL, (), NORMAL.log_prob, 2, resampler=wrong)


def test_algorithms_say_in_one_line_what_they_are():
    """Their fields may hold data sets, networks and bound methods: none of them is shown."""
    fit = aide.Tractable.of(Normal(jnp.zeros(100), 1.0), label="mean field")
    assert repr(fit) == "Tractable: mean field, a sampler with its normalised density"
    bare = aide.Tractable(fit.sample, fit.log_density, log_z=None)
    assert repr(bare) == "Tractable, a sampler with its density up to a constant"
    shifted = aide.Tractable(fit.sample, fit.log_density, log_z=2.0)
    assert repr(shifted).endswith("its density times exp(2.0)")
    smc = aide.sir(Normal(0.0, 1.0), lambda x: -0.5 * x**2, num_particles=3)
    assert "\n" not in repr(smc)
    assert len(repr(smc)) < 80
