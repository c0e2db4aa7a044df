"""Every name of JAX that another version may drop does what the library needs of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aide._core.jax_compat import (
    compile_with,
    custom_vmap,
    default_device,
    inner_jaxprs,
    is_traced,
    jaxpr_function,
    node_children,
    setting,
    threefry_is_partitionable,
    user_context,
)
from aide.engine.programs.programs import CPU_OPTIONS, QUICK_OPTIONS, SPEED_OPTIONS


def test_traced_values_are_told_from_known_ones():
    seen = []
    jax.jit(lambda x: seen.append(is_traced(x)))(1.0)
    jax.vmap(lambda x: seen.append(is_traced(x)))(jnp.ones(2))
    jax.grad(lambda x: (seen.append(is_traced(x)), x)[1])(1.0)
    assert seen == [True, True, True]
    assert not any(is_traced(known) for known in (1.0, np.ones(2), jnp.ones(2), "text"))


def test_settings_follow_jax():
    for chosen in (True, False):
        with jax.enable_x64(chosen):
            assert setting("jax_enable_x64") is chosen
    assert setting("jax_no_such_setting", "absent") == "absent"


def test_partitionable_bits_do_not_depend_on_the_number_drawn():
    draw = lambda num: np.asarray(jax.random.bits(jax.random.key(3), (num,)))
    assert threefry_is_partitionable() == np.array_equal(draw(5), draw(10)[:5])


def test_the_default_device_is_the_one_that_computes():
    assert default_device() in jnp.zeros(()).devices()
    with jax.default_device(jax.devices()[0]):
        assert default_device() == jax.devices()[0]


def test_one_level_of_a_pytree():
    children, keys = node_children({"b": (1, 2), "a": 3})
    assert children == [3, (1, 2)]
    assert list(keys) == ["a", "b"]


def test_a_program_runs_again_and_shows_its_loops():
    def loop(x):
        return jax.lax.fori_loop(0, 3, lambda i, y: y * np.float64(2.0) + i, x)

    traced = jax.make_jaxpr(loop)(1.5)
    again = jaxpr_function(traced)
    assert float(again(1.5)[0]) == float(loop(1.5))
    inner = [body for equation in traced.eqns for body in inner_jaxprs(equation.params)]
    assert inner
    assert all(body.eqns is not None for body in inner)


def test_a_batching_rule_of_our_own():
    @custom_vmap
    def twice(x):
        return 2 * x

    @twice.def_vmap
    def _(size, batched, x):
        return 3 * x, True

    assert float(twice(1.0)) == 2.0
    np.testing.assert_array_equal(jax.vmap(twice)(jnp.ones(2)), [3.0, 3.0])


@pytest.mark.parametrize("unknown", [{}, {"xla_no_such_option": 1}])
def test_an_unknown_option_of_the_compiler_leaves_the_others_alone(unknown):
    given = []

    class Lowered:
        """Notes with which options it is compiled."""

        def compile(self, compiler_options):
            given.append(compiler_options)
            return jax.jit(lambda x: 2 * x).lower(1.0).compile(compiler_options)

    known = {"xla_backend_optimization_level": 1}
    assert float(compile_with(Lowered(), {**known, **unknown})(1.0)) == 2.0
    assert given[-1] == known


def test_the_compiler_knows_all_options_that_the_library_states():
    """Another version of XLA that drops one shows here; elsewhere `compile_with` leaves it out."""
    for options in (SPEED_OPTIONS, CPU_OPTIONS, QUICK_OPTIONS):
        assert float(jax.jit(lambda x: 2 * x, compiler_options=options)(1.0)) == 2.0


def test_an_error_of_the_compiler_is_not_blamed_on_options():
    class Failing:
        """A program that cannot be compiled."""

        def compile(self, compiler_options):
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED")

    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        compile_with(Failing(), {"xla_backend_optimization_level": 1})


def test_another_context_traces_again():
    traced, context = [], user_context()
    program = jax.jit(lambda x: (traced.append(1), x)[1])
    for value in (1, 1, 2):
        with context(value):
            program(1.0)
    assert len(traced) == 2
