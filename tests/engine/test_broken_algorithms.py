r"""Algorithms that fail while they run, or return the wrong thing: errors in words.

The message names the algorithm, its role and what to do; a runtime error inside compiled code must
not arrive as a trace of callbacks.
"""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pairs import KEY, NumpyGaussian, gaussian, run

import aide
from aide.problems.distributions import Normal

NORMAL = gaussian(0.1, 0.7)
NOWHERE = aide.sir(NORMAL, lambda x: jnp.where(x > 100.0, 0.0, -jnp.inf), num_particles=2)
HOPELESS = aide.RejectionSampler(NORMAL, Normal(0.1, 0.7).log_prob, -0.7)
IMPATIENT = aide.RejectionSampler(NORMAL, lambda x: NORMAL.log_density(x) - 60.0, 0.0, 5)
RUNTIME = {
    "all weights zero": (NOWHERE, "all particle weights are zero.*more particles"),
    "bound too low": (HOPELESS, "log_bound of RejectionSampler proved too low.*Raise log_bound"),
    "gave up": (IMPATIENT, "accepted none of max_tries proposals.*raise max_tries"),
}


QUICK = {("all weights zero", "target"), ("bound too low", "gold"), ("gave up", "gold")}
"""Every message, and both roles; the others run in `make test-full`."""


def some_quick(cases, quick):
    return [pytest.param(*c, marks=() if c in quick else pytest.mark.full) for c in cases]


@pytest.mark.parametrize(
    ("name", "role"), some_quick(itertools.product(RUNTIME, ("gold", "target")), QUICK)
)
def test_errors_of_a_run_come_in_words(name, role):
    """A plain error that starts with the reason, not one that buries it in a trace of callbacks."""
    algorithm, words = RUNTIME[name]
    pair = (algorithm, NORMAL) if role == "gold" else (NORMAL, algorithm)
    with pytest.raises((ValueError, RuntimeError), match=f"(?s){words}") as caught:
        run(*pair)
    assert "Traceback" not in str(caught.value)
    assert role in str(caught.value)


@pytest.mark.parametrize("name", some_quick(zip(RUNTIME), {("all weights zero",)}))
@pytest.mark.usefixtures("x64")
def test_errors_of_a_direct_call(name):
    algorithm, words = RUNTIME[name]
    with pytest.raises(RuntimeError, match=f"(?s){words}"):
        eqx.filter_jit(algorithm.simulate)(KEY)


@pytest.mark.usefixtures("x64")
def test_outputs_that_cannot_be_have_density_zero():
    regenerate = eqx.filter_jit(NOWHERE.regenerate)
    assert regenerate(KEY, jnp.asarray(0.3)) == -jnp.inf
    assert regenerate(KEY, jnp.asarray(101.0)) > -jnp.inf


SIMULATE = {
    "no pair": (lambda self, rng: 1.0, r"simulate must return \(value, log_xi\), got float"),
    "vector": (lambda self, rng: (0.0, np.zeros(2)), r"scalar log_xi, got shape \(2,\)"),
    "nothing": (lambda self, rng: (0.0, None), "simulate.*log_xi.*None"),
    "zero": (lambda self, rng: (0.0, -np.inf), "density zero.*disagree"),
    "ragged": (lambda self, rng: (np.zeros(rng.integers(1, 4)), 0.0), "same (structure|shape)"),
}
REGENERATE = {
    "nothing": (lambda self, rng, value: None, "regenerate.*log_xi.*None"),
    "words": (lambda self, rng, value: "low", "regenerate.*log_xi.*'low'"),
    "nan": (lambda self, rng, value: np.nan, r"nan for \d+ of \d+ runs, first at x = "),
}


def _check_message(words, **methods):
    """A Gaussian with one method replaced fails with these words and its own name."""
    algorithm = aide.PythonAlgorithm(type("Broken", (NumpyGaussian,), methods)())
    with pytest.raises((TypeError, ValueError), match=words) as caught:
        run(algorithm, algorithm)
    assert "Broken" in str(caught.value)


@pytest.mark.parametrize("name", SIMULATE)
def test_wrapped_code_that_simulates_the_wrong_thing(name):
    function, words = SIMULATE[name]
    _check_message(words, simulate=function)


@pytest.mark.parametrize("name", REGENERATE)
def test_wrapped_code_that_regenerates_the_wrong_thing(name):
    function, words = REGENERATE[name]
    _check_message(words, regenerate=function)


def test_wrapping_what_has_no_methods():
    with pytest.raises(TypeError, match=r"float has no method simulate.*simulate\(rng\)"):
        aide.PythonAlgorithm(3.0)  # pyrefly: ignore[bad-argument-type]


@pytest.mark.parametrize("part", ["simulate", "regenerate"])
def test_jax_code_that_returns_nothing(part):
    class Forgetful:
        def simulate(self, key):
            x = jax.random.normal(key)
            return x, None if part == "simulate" else -0.5 * x * x

        def regenerate(self, key, value):
            return None

    with pytest.raises((TypeError, ValueError), match=f"Forgetful: {part}.*log_xi.*None"):
        run(Forgetful(), NORMAL)
