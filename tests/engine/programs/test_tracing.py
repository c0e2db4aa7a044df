r"""Errors of the user's own code come as they are; advice about tracing only where it helps."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pairs import KEY, gaussian, run

import aide
from aide._core import process as _forked
from aide.problems.distributions import Normal

NORMAL = Normal(0.1, 0.7)
MISSPELT: Any = jnp
OWN: Any = {
    "a misspelt name": (lambda x: MISSPELT.lgo(x), AttributeError, "no attribute 'lgo'"),
    "wrong arity": ((lambda x, y: 0.0), TypeError, "missing 1 required positional"),
    "shapes": (lambda x: jnp.sum(jnp.ones(2) + jnp.ones(3)) * x, TypeError, "incompatible shapes"),
}


@pytest.mark.parametrize("name", OWN)
def test_own_errors_come_as_they_are(name):
    log_density, kind, words = OWN[name]
    with pytest.raises(kind, match=words) as caught:
        run(aide.Tractable(NORMAL.sample, log_density), gaussian(0.1, 0.7))
    assert "PythonAlgorithm" not in str(caught.value)
    assert any("simulate" in note for note in caught.value.__notes__)


def test_code_that_is_not_traceable_hears_both():
    branching = lambda x: 0.0 if x > 0 else -1.0
    with pytest.raises(TypeError, match=r"It said: .*boolean.*aide\.PythonAlgorithm"):
        run(aide.Tractable(NORMAL.sample, branching), gaussian(0.1, 0.7))


def test_inside_of_a_transformation():
    def value(mean: Any) -> Any:
        return aide.estimate(KEY, aide.Tractable.of(Normal(mean, 0.7)), gaussian(0.1, 0.7)).value

    words = r"inside jax\.jit, jax\.grad or jax\.vmap"
    for transformed in (jax.jit(value), jax.grad(value)):
        with pytest.raises(TypeError, match=words):
            transformed(jnp.asarray(0.1))
    with pytest.raises(TypeError, match=words):
        jax.jit(lambda: aide.estimate(KEY, gaussian(0.1, 0.7), gaussian(0.2, 0.7)).value)()


def _simulated(log_joint, algorithm_for, **options):
    def sample_joint(key):
        key_x, key_y = jax.random.split(key)
        x = jax.random.normal(key_x)
        return x, x + jax.random.normal(key_y)

    return aide.audit_simulated(
        KEY, sample_joint, log_joint, algorithm_for, num_datasets=3, **options
    )


def _log_joint(x, y):
    return Normal(0.0, 1.0).log_prob(x) + Normal(x, 1.0).log_prob(y)


def test_simulated_does_not_hide_a_type_error():
    wrong = lambda x, y: _log_joint(x, y) + jnp.sum(jnp.ones(2) + jnp.ones(3))
    with pytest.raises(TypeError, match="incompatible shapes"):
        _simulated(wrong, lambda y: aide.Tractable.of(Normal(y / 2, 0.5**0.5)))


def test_simulated_says_why_it_is_slow():
    slow = _simulated(
        _log_joint, lambda y: aide.Tractable.of(Normal(np.asarray(y) / 2, np.sqrt(0.5)))
    )
    assert any("one by one" in note for note in slow.notes)
    quick = _simulated(_log_joint, lambda y: aide.Tractable.of(Normal(y / 2, 0.5**0.5)))
    assert not quick.why_slow
    np.testing.assert_allclose(quick.terms, 0.0, atol=1e-9)


def test_a_fork_after_use_is_an_error(monkeypatch):
    monkeypatch.setattr(_forked, "_first_process", None)
    estimate = lambda: run(gaussian(0.1, 0.7), gaussian(0.2, 0.7))
    estimate()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match=r"forked.*spawn"):
        estimate()
