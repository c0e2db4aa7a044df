r"""What happens around the library in a session: objects change, data are shared, threads run.

Programs are kept between calls. They must never answer for an object that has changed since, and
what they keep must not disturb other JAX code of the user.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pairs import assert_same, gaussian, run

import aide
from aide.problems.distributions import Normal

TARGET = gaussian(0.5, 1.2)


class Adjustable:
    """A plain object with attributes that anybody may set."""

    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def simulate(self, key):
        x = Normal(self.mean, self.std).sample(key)
        return aide.Draw(x, self.regenerate(key, x))

    def regenerate(self, key, value):
        return Normal(self.mean, self.std).log_prob(value)


def test_a_changed_attribute_is_seen():
    """Plain objects can change; results must follow, not the program compiled before."""
    algorithm = Adjustable(0.25, 0.75)
    run(algorithm, TARGET)
    algorithm.mean = 2.0
    assert_same(run(algorithm, TARGET).draws, run(Adjustable(2.0, 0.75), TARGET).draws, 1e-9)


def test_a_density_may_close_over_numpy_data():
    """Also if the same function is used without double precision afterwards, and before."""
    data = np.array([0.3, -0.4, 1.1])
    log_joint = lambda x: jnp.sum(-0.5 * (x - data) ** 2) - 0.5 * x * x
    slope = lambda: float(jax.jit(jax.grad(lambda x: log_joint(x)))(1.0))
    assert slope() == pytest.approx(-3.0, abs=1e-6)
    target = aide.sir(gaussian(0.2, 0.8), lambda x: log_joint(x), num_particles=2)
    first = run(gaussian(0.25, 0.5), target)
    assert slope() == pytest.approx(-3.0, abs=1e-6)
    assert float(jnp.ones((2, 3))[0] @ data) == pytest.approx(1.0, abs=1e-6)
    assert_same(run(gaussian(0.25, 0.5), target).draws, first.draws)


def test_other_functions_trace_again():
    """Control: a new lambda is a new program, and its result is used."""
    values = []
    for mean in (0.0, 2.0):
        log_density = lambda x, mean=mean: -0.5 * (x - mean) ** 2
        normal = Normal(mean, 1.0)
        values.append(run(gaussian(0.1, 0.7), aide.Tractable(normal.sample, log_density)).value)
    assert values[1] - values[0] > 1.0


def test_precision_settings_are_left_alone():
    before: Any = gaussian(jnp.asarray(0.5), 1.0)
    run(before, TARGET)
    assert jnp.asarray(1.0).dtype == jnp.float32
    assert before.sample.distribution.mean.dtype == jnp.float32


def test_integer_data_and_flags_are_told_apart():
    """Integers are compiled in: 1 and True, or 0 and 0.0, must not share a program."""

    def describe(algorithm):
        return run(algorithm, algorithm, 3, 3, keep_values=True).draws.gold.values.dtype

    log_density = lambda x: jnp.zeros(())
    made = [aide.Tractable(Fixed(value), log_density) for value in (1, True, 1.0)]
    assert [describe(algorithm).kind for algorithm in made] == ["i", "b", "f"]


class Fixed(eqx.Module):
    """Returns its value, or one that is larger by an integer."""

    value: Any

    def __call__(self, key):
        value = jnp.asarray(self.value)
        return value + jax.random.randint(key, (), 0, 10**6).astype(value.dtype)


def test_estimates_in_threads():
    means = [0.1, 0.4, 0.9, 1.6]
    one_by_one = [run(gaussian(mean, 0.7), TARGET).value for mean in means]
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda mean: run(gaussian(mean, 0.7), TARGET).value, means))
    assert at_once == one_by_one
