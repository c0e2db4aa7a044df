r"""Wrong arguments and wrong outputs: the message names the value, the place and the fix."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pairs import KEY, NumpyGaussian, gaussian, run

import aide
from aide.problems.distributions import Normal

GOLD, TARGET = gaussian(0.1, 0.7), gaussian(0.3, 1.3)
COUNTS = ["num_gold", "num_target", "num_meta_gold", "num_meta_target", "chunk_size"]


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("count", [0, -3, 2.0, True, "5"])
def test_counts_of_the_estimator(name, count):
    with pytest.raises(
        ValueError, match=rf"{name} must be an integer of at least 1, got {count!r}"
    ):
        aide.estimate(KEY, GOLD, TARGET, **{name: count})


@pytest.mark.parametrize("count", [-1, 0.0, False])
def test_first_run(count):
    with pytest.raises(
        ValueError, match=rf"first_run must be an integer of at least 0, got {count}"
    ):
        aide.estimate(KEY, GOLD, TARGET, first_run=count)


@pytest.mark.parametrize("key", [0.5, True, None, jax.random.split(KEY), np.zeros(3), "seed"])
def test_not_a_key(key):
    with pytest.raises(TypeError, match=r"key must be a single JAX key such as jax\.random\.key"):
        aide.estimate(key, GOLD, TARGET)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.5, float("nan")])
def test_level(level):
    result = run(GOLD, TARGET)
    for method in (result.interval, result.total_variation):
        with pytest.raises(
            ValueError, match=f"level must lie strictly between 0 and 1, got {level}"
        ):
            method(level)


@pytest.mark.parametrize("thing", [Normal(0.0, 1.0), aide.Tractable, 3.0, lambda key: 0.0])
def test_not_an_algorithm(thing):
    with pytest.raises(TypeError, match=r"gold must be .* simulate.*regenerate.*Tractable\.of"):
        run(thing, TARGET)
    with pytest.raises(TypeError, match="target must be"):
        run(TARGET, thing)


def _constant(value):
    return aide.Tractable(lambda key: value, lambda x: jnp.zeros(()))


FLOAT = jnp.zeros(3)
DIFFERENT = {
    "structure": ((FLOAT, FLOAT), {"a": FLOAT, "b": FLOAT}, "same structure.*'a'"),
    "names": ({"a": FLOAT}, {"b": FLOAT}, "same structure.*'a'.*'b'"),
    "length": ((FLOAT, FLOAT), (FLOAT,), "same structure"),
    "shape": (FLOAT, jnp.zeros(4), r"shape and kind.*\(3,\) from gold.*\(4,\) from target"),
    "rank": (jnp.zeros(()), jnp.zeros(1), r"\(\) from gold.*\(1,\) from target"),
    "kind": (FLOAT, jnp.zeros(3, int), "real.*from gold.*integer.*from target"),
    "boolean": (jnp.zeros(3, bool), jnp.zeros(3, int), "boolean.*integer"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_outputs_that_cannot_be_compared(name):
    gold, target, words = DIFFERENT[name]
    with pytest.raises(ValueError, match=words):
        run(_constant(gold), _constant(target))


@pytest.mark.parametrize("narrow", ["gold", "target"])
def test_precision_alone_is_promoted(narrow):
    single = aide.Tractable(lambda key: jax.random.normal(key, (), jnp.float32), GOLD.log_density)
    pair = (single, TARGET) if narrow == "gold" else (TARGET, single)
    result = run(*pair, keep_values=True)
    assert np.asarray(result.draws.gold.values).dtype == np.float64
    assert np.asarray(result.draws.target.values).dtype == np.float64
    side = result.draws.gold if narrow == "gold" else result.draws.target
    np.testing.assert_allclose(side.own[:, 0], side.own[:, 1], rtol=1e-6)


@pytest.mark.parametrize("log_z", [float("nan"), float("inf")])
def test_claims_about_the_constant(log_z):
    with pytest.raises(ValueError, match=f"log_z.*{log_z}"):
        run(aide.Tractable(GOLD.sample, GOLD.log_density, log_z), TARGET)


def test_numpy_code_must_be_wrapped():
    """Whatever NumPy or Python trips over first, the advice is the same."""

    class Indexing(NumpyGaussian):
        def simulate(self, rng) -> Any:
            return np.random.default_rng(rng).normal(), 0.0

    class Branching(NumpyGaussian):
        def simulate(self, rng) -> Any:
            x = jax.random.normal(rng)
            return (x, 0.0) if x > 0 else (-x, 0.0)

    class Converting(NumpyGaussian):
        def simulate(self, rng) -> Any:
            return np.asarray(jax.random.normal(rng)).item(), 0.0

    for algorithm in (NumpyGaussian(), Indexing(), Branching(), Converting()):
        with pytest.raises(TypeError, match=r"simulate.*aide\.PythonAlgorithm"):
            run(algorithm, TARGET)
