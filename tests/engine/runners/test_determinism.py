r"""How a run is computed never changes its numbers.

Chunk size, compilation, batching, process, precision setting: every log xi is a function of
(key, role, run, meta index) and the algorithm, to rounding; in a fresh process, to the bit.
"""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pairs import KEY, NoisyGaussian, assert_same, gaussian, run

import aide
from aide._core.random import CROSS_META, OWN_META, SIMULATE, run_key, stream_key
from aide._core.types import GOLD, TARGET
from aide.problems import LocalLevelModel

TOLERANCE = 1e-9


def _log_joint(x):
    return -0.5 * (x - 0.8) ** 2 / 0.3 + 0.5 * jnp.tanh(x)


EXACT = gaussian(0.7, 0.6)
SIR = aide.sir(gaussian(0.2, 1.1), _log_joint, num_particles=3)


@pytest.fixture(scope="module")
def reference():
    """Chosen chunks; 21 and 10 are no multiples of any chunk size below."""
    return run(EXACT, SIR, 21, 10, num_meta_gold=2, num_meta_target=2, keep_values=True).draws


@pytest.mark.parametrize(
    "chunk_size", [1, *(pytest.param(n, marks=pytest.mark.full) for n in (3, 7, 64))]
)
def test_chunks_change_nothing(chunk_size):
    pair = NoisyGaussian(0.3, 0.8, 0.5), NoisyGaussian(-0.4, 0.5, 0.9)
    options = {"num_meta_gold": 2, "num_meta_target": 3}
    chosen = run(*pair, 21, 10, **options).draws
    assert_same(run(*pair, 21, 10, chunk_size=chunk_size, **options).draws, chosen, TOLERANCE)


@pytest.mark.parametrize("chunk_size", [pytest.param(1, marks=pytest.mark.full), 7])
def test_chunks_change_nothing_with_resampling(reference, chunk_size):
    options = {"num_meta_gold": 2, "num_meta_target": 2, "chunk_size": chunk_size}
    assert_same(run(EXACT, SIR, 21, 10, **options).draws, reference, TOLERANCE)


def test_chunks_may_be_larger_than_the_work():
    """Nothing is computed, and no memory reserved, for runs that nobody asked for."""
    pair = gaussian(0.1, 0.7), gaussian(0.3, 1.3)
    assert_same(run(*pair, chunk_size=10**13).draws, run(*pair).draws, TOLERANCE)


@pytest.mark.parametrize(
    "impl",
    ["rbg", *(pytest.param(i, marks=pytest.mark.full) for i in ("threefry2x32", "unsafe_rbg"))],
)
def test_chunks_change_nothing_for_any_kind_of_key(impl):
    key = jax.random.key(3, impl=impl)
    pair = gaussian(0.1, 0.7), gaussian(0.3, 1.3)
    one, other = (run(*pair, 7, 7, key=key, chunk_size=size).draws for size in (1, 4))
    assert_same(one, other, TOLERANCE)


@pytest.mark.usefixtures("x64")
@pytest.mark.full
def test_draws_are_the_two_operations_run_one_by_one(reference):
    """No engine: eager calls of the methods, with the documented keys."""
    for role, algorithm, other, side in (
        (GOLD, EXACT, SIR, reference.gold),
        (TARGET, SIR, EXACT, reference.target),
    ):
        for index in (0, 8):
            draw = algorithm.simulate(run_key(stream_key(KEY, role, SIMULATE), index, 0))
            np.testing.assert_allclose(draw.value, side.values[index], rtol=TOLERANCE)
            np.testing.assert_allclose(draw.log_xi, side.own[index, 0], rtol=TOLERANCE)
            key_own = run_key(stream_key(KEY, role, OWN_META), index, 2)
            own = algorithm.regenerate(key_own, draw.value)
            np.testing.assert_allclose(own, side.own[index, 2], rtol=TOLERANCE)
            key_cross = run_key(stream_key(KEY, role, CROSS_META), index, 1)
            cross = other.regenerate(key_cross, draw.value)
            np.testing.assert_allclose(cross, side.cross[index, 1], rtol=TOLERANCE)


@pytest.mark.usefixtures("x64")
def test_vmap_is_a_loop(reference):
    stream = stream_key(KEY, TARGET, SIMULATE)
    simulate = jax.jit(jax.vmap(lambda index: SIR.simulate(run_key(stream, index, 0))))
    batch = simulate(jnp.arange(10))
    np.testing.assert_allclose(batch.log_xi, reference.target.own[:, 0], rtol=TOLERANCE)
    np.testing.assert_allclose(batch.value, reference.target.values, rtol=TOLERANCE)


@pytest.mark.full
@pytest.mark.usefixtures("x64")
def test_without_compilation_nothing_changes(reference):
    """`jax.disable_jit()` is how people debug: every loop in Python, every number concrete."""
    key = run_key(stream_key(KEY, TARGET, SIMULATE), 4, 0)
    with jax.disable_jit():
        draw = SIR.simulate(key)
    np.testing.assert_allclose(draw.value, reference.target.values[4], rtol=TOLERANCE)
    np.testing.assert_allclose(draw.log_xi, reference.target.own[4, 0], rtol=TOLERANCE)


@pytest.mark.full
@pytest.mark.parametrize("chunk_size", [1, 3, 7, 64])
def test_chunks_change_nothing_in_a_particle_filter(chunk_size):
    model = LocalLevelModel([0.3, -1.0, 0.5, 2.0, 0.1], 0.8, 0.5)
    pair = model.posterior(), aide.ParticleFilter(model.state_space(), 7)
    options = {"num_meta_target": 2, "keep_values": True}
    chosen = run(*pair, 21, 10, **options).draws
    assert_same(run(*pair, 21, 10, chunk_size=chunk_size, **options).draws, chosen, TOLERANCE)


SCRIPT = """
import jax, aide
from aide.problems.distributions import Normal
target = aide.sir(Normal(0.2, 1.1), Normal(0.8, 0.5).log_prob, num_particles=3)
counts = dict(num_gold=21, num_target=10, num_meta_target=2)
gold = aide.Tractable.of(Normal(0.7, 0.6))
result = aide.estimate(jax.random.key(3), gold, target, **counts)
print(result.value.hex(), result.std_error.hex(), result.looseness.target.value.hex())
"""


@pytest.mark.full
def test_a_fresh_process_gives_the_same_bits():
    """Even with double precision switched on for everything there, and off for everything here."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = []
    exec(SCRIPT, {"print": lambda *parts: lines.append(" ".join(parts) + "\n")})
    assert [done.stdout] == lines
