"""Random numbers: keys of runs and particles; uniforms, normals and drawn indices."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from aide._core.jax_compat import threefry_is_partitionable
from aide._core.numerics import computed_once
from aide._core.process import check_not_forked
from aide._core.types import Key
from aide._core.validate import check_concrete

SIMULATE = 0
"""Purpose, as a part of a key: the random numbers of the run itself."""
OWN_META = 1
"""Purpose, as a part of a key: meta-inference of the algorithm that made the run."""
CROSS_META = 2
"""Purpose, as a part of a key: meta-inference of the other algorithm."""


def as_key(key: Any) -> Key:
    """Return a Threefry key from a key, an old `PRNGKey` array or an integer seed.

    Raises:
        TypeError: The argument is none of them.
    """
    check_not_forked()
    check_concrete("this function", key)
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return _as_threefry(jax.random.key(int(key)))
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    if dtype == jnp.uint32 and shape in ((2,), (4,)):
        implementation = "threefry2x32" if shape == (2,) else "rbg"
        return _as_threefry(jax.random.wrap_key_data(jnp.asarray(key), impl=implementation))
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and not shape:
        return _as_threefry(key)
    raise TypeError(
        f"key must be a single JAX key such as jax.random.key(0), or an integer seed, got {key!r}."
    )


def _as_threefry(key: Key) -> Key:
    """Return a Threefry key made of any key.

    `jax.vmap` does not vectorise other generators run by run: chunks would change their numbers.
    """
    if str(jax.random.key_impl(key)) == "threefry2x32":
        return key
    threefry = jax.random.key(0, impl="threefry2x32")
    for word in jax.random.key_data(key).ravel():
        threefry = jax.random.fold_in(threefry, word)
    return threefry


def stream_key(key: Key, role: int, purpose: int) -> Key:
    """Return the key from which all runs of one role and purpose are derived."""
    return jax.random.fold_in(jax.random.fold_in(key, role), purpose)


def run_key(stream: Key, run: ArrayLike, meta: ArrayLike) -> Key:
    """Return the key of one run or meta-run, a function of (key, role, purpose, run, meta) alone.

    Batch size, order, device and the other algorithm cannot change it, so that runs can be
    shared, extended, resumed and distributed.
    """
    return _fold_in(_fold_in(stream, run), meta)


def _fold_in(key: Key, number: ArrayLike) -> Key:
    """Return the key of `jax.random.fold_in` without its loop, which XLA is slow to compile."""
    plain = jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and jnp.shape(number) == ()
    if not plain or key.shape != () or str(jax.random.key_impl(key)) != "threefry2x32":
        return jax.random.fold_in(key, number)
    words, number = jax.random.key_data(key), jnp.asarray(number, jnp.uint32)
    data = jnp.stack(_threefry(words[0], words[1], jnp.zeros_like(number), number))
    return jax.random.wrap_key_data(data, impl="threefry2x32")


def derive(key: Key, index: ArrayLike) -> Key:
    """Return a new key for each index, like `jax.random.fold_in` at a tenth of its cost.

    Threefry is a keyed permutation, so keys need to be different, not random: hashing a key with
    Threefry before using it, as `split` and `fold_in` do, doubles the work of a small random draw.
    Here the second word is mixed with the index by a bijection (the finaliser of MurmurHash3) and
    then into the first. For one key, different indices never collide; nesting does not commute.
    As with `fold_in`, do not use `key` itself for anything else.

    Args:
        key: One key.
        index: An integer or an array of them; the result has its shape.
    """
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    index = jnp.asarray(index).astype(jnp.uint32)
    if str(jax.random.key_impl(key)) != "threefry2x32":
        folded = jax.vmap(lambda i: jax.random.fold_in(key, i))(index.ravel())
        return folded.reshape(index.shape)
    return jax.random.wrap_key_data(_mix(jax.random.key_data(key), index), impl="threefry2x32")


def derive_keys(key: Key, num: int) -> Key:
    """Return `num` keys, like `jax.random.split` at a tenth of its cost; see `derive`."""
    return derive(key, jnp.arange(num, dtype=jnp.uint32))


def zero_of(key: Key) -> Array:
    """Return 0.0 computed from the key, so that `jax.vmap` over keys gives every run its own zero.

    A loop that starts from a plain 0 is traced twice under `vmap`: JAX finds out only after the
    first time that the numbers of the loop differ between runs. XLA sees a 0 in both cases.
    """
    data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return (data[0] & np.uint32(0)).astype(float)


def standard_uniform(key: Key, shape: tuple[int, ...] = (), dtype: Any = float) -> Array:
    """Return the numbers of `jax.random.uniform` in [0, 1), three times faster on CPU.

    On CPU JAX computes Threefry in a loop, which XLA can neither fuse nor vectorise: 7 ns a number.
    Without the loop a number costs 2 ns.
    """
    dtype = jnp.dtype(jax.dtypes.canonicalize_dtype(dtype))
    partitionable = threefry_is_partitionable()
    plain = partitionable and dtype in (jnp.float32, jnp.float64)
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    size = math.prod(shape)
    if not plain or str(jax.random.key_impl(key)) != "threefry2x32" or size >= 2**32:
        return jax.random.uniform(key, shape, dtype)
    words = jax.random.key_data(key)
    counter = jnp.arange(size, dtype=jnp.uint32).reshape(shape)
    high, low = _threefry(words[0], words[1], jnp.zeros_like(counter), counter)
    if dtype == jnp.float32:
        pattern = ((high ^ low) >> np.uint32(9)) | np.uint32(0x3F800000)
    else:
        pattern = (high.astype(jnp.uint64) << np.uint64(32)) | low.astype(jnp.uint64)
        pattern = (pattern >> np.uint64(12)) | np.uint64(0x3FF0000000000000)
    return jax.lax.bitcast_convert_type(pattern, dtype) - jnp.ones((), dtype)


def random_index(key: Key, num: int) -> Array:
    """Return the number of `jax.random.randint(key, (), 0, num, jnp.int32)` by a shorter program.

    JAX hashes twice to split the key and twice for bits, each time in a loop of its own, which XLA
    compiles for longer than a whole step of SMC. Here each pair of hashes is one hash of two
    counters, without a loop: a tenth of the program.
    """
    partitionable = threefry_is_partitionable()
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    if not partitionable or str(jax.random.key_impl(key)) != "threefry2x32":
        return jax.random.randint(key, (), 0, num, jnp.int32)
    words = jax.random.key_data(key)
    counter = np.arange(2, dtype=np.uint32)
    split = _threefry(words[0], words[1], jnp.zeros(2, jnp.uint32), jnp.asarray(counter))
    first, second = _threefry(*split, jnp.zeros(2, jnp.uint32), jnp.zeros(2, jnp.uint32))
    bits, span = first ^ second, np.uint32(num)
    # 2^32 modulo num, as JAX computes it: in 32 bits.
    factor = np.uint32((pow(2, 16, num) ** 2 % 2**32) % num)
    high, low = bits[0] % span, bits[1] % span
    return ((high * factor + low) % span).astype(jnp.int32)


@jax.jit  # traced and lowered once, however often a program calls it; XLA sees no difference
def _mix(words: Array, index: Array) -> Array:
    """Return the two words of each key that is derived from a key (its words) and an index."""
    mixed = words[1] ^ (index * np.uint32(0x9E3779B9) + np.uint32(0x7F4A7C15))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    mixed = mixed ^ (mixed >> np.uint32(16))
    first = words[0] ^ (mixed * np.uint32(0xCC9E2D51))
    return jnp.stack([first, mixed], axis=-1)


@jax.jit  # traced and lowered once, as _mix is
def _threefry(key_0: Array, key_1: Array, x_0: Array, x_1: Array) -> tuple[Array, Array]:
    """Return the hash of two counters by Threefry-2x32, 20 rounds (Salmon et al., 2011)."""
    schedule = (key_0, key_1, key_0 ^ key_1 ^ np.uint32(0x1BD11BDA))
    x_0, x_1 = x_0 + key_0, x_1 + key_1
    for group in range(5):
        for shift in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x_0 = x_0 + x_1
            x_1 = x_0 ^ ((x_1 << np.uint32(shift)) | (x_1 >> np.uint32(32 - shift)))
        x_0 = x_0 + schedule[(group + 1) % 3]
        x_1 = x_1 + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x_0, x_1


# Numerators and denominators of Wichura (1988), Algorithm AS 241 (PPND16), Applied Statistics 37:
# 477-484; highest power first. The relative error of the quantile is about 1e-16.
_CENTRE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
_TAIL = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
     1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
     4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
     0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
     2.05319162663775882187, 1.0),
)  # fmt: skip
_FAR_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
     0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358,
     5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
     7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
     0.59983220655588793769, 1.0),
)  # fmt: skip


def standard_normal(key: Key, shape: tuple[int, ...] = (), dtype: Any = float) -> Array:
    r"""Draw independent standard normals $\Phi^{-1}(U)$, $U$ uniform on a grid inside $(0, 1)$."""
    points = standard_uniform(key, shape, dtype)
    # standard_uniform includes 0 but not 1; half a step to the right makes the grid symmetric.
    return normal_quantile(points + 0.5 * jnp.finfo(points.dtype).eps)


@jax.jit  # traced and lowered once, however often a program calls it
def normal_quantile(probability: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\Phi^{-1}(p)$ for $0 < p < 1$, without branches."""
    centred = probability - 0.5
    distance = jnp.sqrt(-jnp.log(jnp.minimum(probability, 1.0 - probability)))
    is_centre, is_tail = jnp.abs(centred) <= 0.425, distance <= 5.0
    inside, near, far = 0.180625 - centred * centred, distance - 1.6, distance - 5.0
    # One division for all three cases: it costs as much as a polynomial.
    top, bottom = (
        jnp.where(
            is_centre,
            _horner(_CENTRE[part], inside),
            jnp.where(is_tail, _horner(_TAIL[part], near), _horner(_FAR_TAIL[part], far)),
        )
        for part in range(2)
    )
    quantile = jnp.where(is_centre, centred, jnp.sign(centred)) * (top / bottom)
    return computed_once(quantile)


def _horner(coefficients: tuple[float, ...], x: Array) -> Array:
    """Evaluate a polynomial, whose coefficients begin with that of the highest power."""
    total = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


MAX_COMPARED = 64
"""Number of weights up to which `invert_cdf` compares each point with all of them.

A choice: up to about 64 weights comparing with all is as fast on a CPU as a binary search, and
compiles in two thirds of the time.
"""


def invert_cdf(
    cumulative: Float[Array, " num"], points: Float[Array, " *shape"]
) -> Int[Array, " *shape"]:
    r"""Return, for each point $v$, the first index $i$ with $C_i > v$.

    Points at or above the total $C_n$ are moved just below it, so that an index with
    $C_i = C_{i-1}$ is never returned unless all are equal. (The rounding of a long `jnp.cumsum` may
    leave a weight of zero a step of $10^{-16}$.) The search is a branchless binary search in a
    `fori_loop`, 4 times faster on CPU than `jnp.searchsorted` under `vmap`; among
    `MAX_COMPARED` weights or fewer, the index is the number of $C_i$ at or below the point.
    """
    num = cumulative.shape[0]
    if num <= MAX_COMPARED:
        points = jnp.minimum(points, jnp.nextafter(cumulative[-1], -jnp.inf))
        below = jnp.sum(cumulative <= points[..., None], axis=-1, dtype=jnp.int32)
        return jnp.minimum(below, num - 1)
    num_levels = max(num - 1, 0).bit_length()
    padding = jnp.full((2**num_levels - num,), jnp.inf, cumulative.dtype)
    table = jnp.concatenate([cumulative, padding])
    points = jnp.minimum(points, jnp.nextafter(cumulative[-1], -jnp.inf))

    def halve(level: Array, index: Array) -> Array:
        half = jnp.int32(1) << (num_levels - 1 - jnp.asarray(level)).astype(jnp.int32)
        candidate = index + half
        below = table.at[candidate - 1].get(mode="promise_in_bounds") <= points
        return jnp.where(below, candidate, index)

    index = jax.lax.fori_loop(0, num_levels, halve, jnp.zeros(points.shape, jnp.int32))
    return jnp.minimum(index, num - 1)


def draw_index(key: Array, weights: Float[Array, " num"]) -> Int[Array, ""]:
    r"""Draw one index $i$ with probability $w_i / \sum_j w_j$."""
    cumulative = jnp.cumsum(jnp.asarray(weights))
    uniform = standard_uniform(key, (), cumulative.dtype)
    return invert_cdf(cumulative, uniform * cumulative[-1])
