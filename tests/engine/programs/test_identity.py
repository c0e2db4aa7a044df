"""Identities: the same for what computes the same, in any process; another for anything else."""

import os
import subprocess
import sys
from functools import partial
from typing import Any

import jax
import jax.custom_batching
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from support.pairs import gaussian

import aide
from aide.engine.programs.identity import digest_of_program, stated_identity
from aide.engine.runners.choose import identity_of
from aide.problems.distributions import Normal

DATA = np.array([0.3, -0.4])


def log_joint(x):
    return jnp.sum(-0.5 * (x - DATA) ** 2)


def build(scale=0.3, resampler: Any = None):
    """One of everything: a library's distribution, a user's function, settings, arrays."""
    return aide.tempered_smc(
        dist.Normal(0.0, 2.0),
        log_joint,
        kernel=aide.kernels.Cycle(aide.kernels.RandomWalk(scale), aide.kernels.Hmc(0.1, 2)),
        num_particles=3,
        temperatures=[0.5, 1.0],
        resampler=resampler or aide.smc.EssBelow(0.5, aide.smc.Systematic()),
    )


def test_equal_algorithms_are_the_same():
    one, other = identity_of(build()), identity_of(build())
    assert one.digest == other.digest
    assert one.differences(other) == ""
    assert not one.unseen


@pytest.mark.full
def test_another_process_agrees():
    script = "from test_identity import build, identity_of\nprint(identity_of(build()).digest)"
    found = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
                "PYTHONHASHSEED": seed,
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1] != ""


def test_what_changed_is_named():
    before = identity_of(build())
    assert "kernel" in before.differences(identity_of(build(scale=0.4)))
    others = build(resampler=aide.smc.Systematic())
    assert "what simulate computes" in before.differences(identity_of(others))
    assert before.differences(identity_of(gaussian(0.0, 1.0))) == "its class (Smc, now Tractable)"


def _digest(function, *arguments):
    return digest_of_program(jax.make_jaxpr(function)(*arguments))


def _body(x):
    return jnp.sin(x) * 2.0


def _renamed(y):
    return jnp.sin(y) * 2.0


SAME = {
    "another name": (_body, _renamed),
    "jitted under another name": (jax.jit(_body), jax.jit(_renamed)),
    "called once and twice before": (lambda x: _body(x), lambda x: _body(x)),
}
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "a scalar": (lambda x: x * 2.0, lambda x: x * 3.0),
    "an array": (lambda x: x + DATA, lambda x: x + (DATA + 1.0)),
    "an array in a loop": (
        lambda x: jax.lax.fori_loop(0, 3, lambda _, c: c + DATA, x),
        lambda x: jax.lax.fori_loop(0, 3, lambda _, c: c + (DATA + 1.0), x),
    ),
    "a scalar in a branch": (
        lambda x: jax.lax.cond(x[0] > 0, lambda: x, lambda: x + 1.0),
        lambda x: jax.lax.cond(x[0] > 0, lambda: x, lambda: x + 2.0),
    ),
    "the order of arguments": (lambda x: x[0] - x[1], lambda x: x[1] - x[0]),
    "a parameter": (lambda x: jnp.cumsum(x), lambda x: jax.lax.cumsum(x, reverse=True)),
    "the number of steps": (
        lambda x: jax.lax.scan(lambda c, _: (c * 2, None), x, None, length=2)[0],
        lambda x: jax.lax.scan(lambda c, _: (c * 2, None), x, None, length=3)[0],
    ),
    "a sign of zero": (lambda x: x / 0.0, lambda x: x / -0.0),
    "one use of a function or two": (lambda x: _body(x), lambda x: _body(_body(x))),
}


@pytest.mark.parametrize("name", SAME)
def test_programs_that_compute_the_same(name):
    one, other = SAME[name]
    assert _digest(one, DATA).digest == _digest(other, DATA).digest


@pytest.mark.parametrize("name", DIFFERENT)
def test_programs_that_differ(name):
    one, other = DIFFERENT[name]
    assert _digest(one, DATA).digest != _digest(other, DATA).digest


def test_a_function_that_jax_has_traced_before_has_the_same_digest():
    """Whether JAX shares the trace of an inner function must not matter."""

    def twice(x):
        return jax.jit(_body)(x) + jax.jit(_body)(x)

    def shared(x):
        inner = jax.jit(_body)
        return inner(x) + inner(x)

    assert _digest(twice, DATA).digest == _digest(shared, DATA).digest


def test_a_callback_is_opaque_unless_it_states_what_it_is():
    class Model:
        aide_identity = "version 1"

        def value(self, x):
            return np.asarray(x)

    def calls(function):
        like = jax.ShapeDtypeStruct((2,), np.float32)
        return lambda x: jax.pure_callback(function, like, x, vmap_method="sequential")

    plain = lambda x: np.asarray(x)
    assert _digest(calls(plain), DATA).opaque
    stated = _digest(calls(Model().value), DATA)
    assert not stated.opaque
    assert stated.digest == _digest(calls(Model().value), DATA).digest
    Model.aide_identity = "version 2"
    assert stated.digest != _digest(calls(Model().value), DATA).digest


def test_a_rule_for_batches_is_part_of_the_program():
    """Runs are made in batches, where an operation may have a rule that one run does not show."""

    def algorithm(factor):
        @jax.custom_batching.custom_vmap
        def doubled(x):
            return 2.0 * x

        @doubled.def_vmap
        def _(size, is_batched, x):
            return factor * x, True

        return aide.Tractable(lambda key: doubled(jax.random.normal(key)), lambda x: -x * x)

    one, same, other = (identity_of(algorithm(factor)) for factor in (2.0, 2.0, 3.0))
    assert one.digest == same.digest
    assert not one.unseen
    assert "numbers in simulate" in one.differences(other)


def test_printing_while_tracing_changes_nothing():
    def loud(x):
        jax.debug.print("x = {}", x)
        return x * 2.0

    one = _digest(loud, DATA)
    assert not one.opaque
    assert one.digest == _digest(lambda x: loud(x), DATA).digest


def test_a_stated_identity_is_found_behind_methods_and_partials():
    class Model:
        aide_identity = "a model"

        def value(self, x, y):
            return x

    assert stated_identity(Model()) == "a model"
    assert stated_identity(partial(Model().value, 1.0)) == "a model"
    assert stated_identity(lambda x: x) is None


def test_a_claim_about_log_z_is_part_of_an_algorithm():
    normal = Normal(0.1, 0.7)
    one, other = (aide.Tractable(normal.sample, normal.log_prob, log_z) for log_z in (0.0, None))
    assert "log_z" in identity_of(one).differences(identity_of(other))
