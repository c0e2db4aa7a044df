r"""Clusters as slots: statistics, canonical labels, collapsed likelihood; many lanes at once.

All files of this folder but the model itself work on many *lanes* at once, the particles of all
runs side by side: arrays are [slots, lanes] or [data, lanes]. A row holds one slot in all lanes,
for the processor's vector units; `side_by_side` turns nested `vmap`s into one axis of
lanes. The number of slots is that of data, so no partition is ever truncated, but loops end at the
highest slot in use in any lane.

**The likelihood** is that of normal clusters with precision and centre integrated out. A cluster
has precision $\tau \sim \mathrm{Gamma}(\nu/2, s/2)$ (shape, rate) and centre
$\mu \sim N(m, 1/(r\tau))$. With $N$ data of mean $\bar y$ and spread $S = \sum(y-\bar y)^2$,
let $r_N = r + N$, $\nu_N = \nu + N$ and $s_N = s + S + \frac{rN}{r+N}(\bar y - m)^2$. Then

$$p(y_{1:N}) = \pi^{-N/2}\,\frac{\Gamma(\nu_N/2)}{\Gamma(\nu/2)}\,
\frac{s^{\nu/2}}{s_N^{\nu_N/2}}\,\Bigl(\frac{r}{r_N}\Bigr)^{1/2}.$$

**The special functions**: on CPU, XLA calls the C library for the logarithm of every single double
(6 ns) and iterates for `lgamma` (60 ns); the forms below are straight-line code (1 and 4 ns). All
arguments are positive and normal; the absolute error is a few units in the last place, and below
1e-13 for the gamma functions. Checked in `tests/problems/test_dpmm_parts.py`. Divisions come last
if possible: XLA repeats cheap operations for every use, and a division is the only operation here
that does not count as cheap.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from aide._core.jax_compat import custom_vmap

Row = Float[Array, " lanes"]
Slots = Int[Array, " lanes"]
Labels = Int[Array, "data lanes"]
Table = Float[Array, "slots lanes"]


class Clusters(NamedTuple):
    r"""Number $N$ of data, their mean and $\sum(y - \bar y)^2$: tables, or rows of them.

    All three are 0 where a slot is empty.
    """

    size: Array
    mean: Array
    spread: Array


def over_slots(top: Array | int, body: Callable[[Any, Any], Any], carry: Any) -> Any:
    """Run `body(slot, carry)` for the slots below `top`.

    A body reads tables or writes one row of each; if a body did both, XLA would copy the tables at
    every iteration.
    """
    return jax.lax.fori_loop(jnp.int32(0), jnp.asarray(top, jnp.int32), body, carry)


def row_of(tables: Any, index: Array | int) -> Any:
    """One row of every table of a tree."""
    take = lambda table: jax.lax.dynamic_index_in_dim(table, index, keepdims=False)
    return jax.tree.map(take, tables)


def with_row(tables: Any, index: Array | int, rows: Any) -> Any:
    """Replace one row of every table of a tree."""
    put = lambda table, row: jax.lax.dynamic_update_index_in_dim(table, row, index, 0)
    return jax.tree.map(put, tables, rows)


def find_rows(clusters: Clusters, slots: Slots, top: Array | int) -> Clusters:
    """The statistics of one slot per lane; zeros for slots at or above `top`."""

    def look(slot: Array, found: Clusters) -> Clusters:
        return choose(slots == slot, row_of(clusters, slot), found)

    zero = jnp.zeros_like(clusters.size[0])
    return over_slots(top, look, Clusters(zero, zero, zero))


def choose(here: Array, chosen: Clusters, others: Clusters) -> Clusters:
    """`chosen` where `here` is true, `others` elsewhere."""
    return Clusters(*(jnp.where(here, a, b) for a, b in zip(chosen, others, strict=True)))


def add_datum(cluster: Clusters, y: Array | float) -> Clusters:
    """The statistics with one more datum (Welford)."""
    size = cluster.size + 1.0
    deviation = y - cluster.mean
    mean = cluster.mean + deviation / size
    return Clusters(size, mean, cluster.spread + deviation * (y - mean))


def remove_datum(cluster: Clusters, y: Array | float) -> Clusters:
    """Undo `add_datum`; one datum gets spread 0 and none gets mean 0, without rounding errors."""
    size = cluster.size - 1.0
    deviation = y - cluster.mean
    mean = cluster.mean - deviation / jnp.maximum(size, 1.0)
    spread = jnp.maximum(cluster.spread - deviation * (y - mean), 0.0)
    return Clusters(size, jnp.where(size > 0.5, mean, 0.0), jnp.where(size > 1.5, spread, 0.0))


def gather_clusters(labels: Labels, data: Float[Array, " data"], num_data: Array | int) -> Clusters:
    """Statistics of the first `num_data` data, whose labels are slots."""
    slots = jnp.arange(data.shape[0], dtype=jnp.int32)[:, None]

    def add(i: Array | int, clusters: Clusters) -> Clusters:
        return choose(slots == row_of(labels, i), add_datum(clusters, data[i]), clusters)

    empty = jnp.zeros(labels.shape, data.dtype)
    return jax.lax.fori_loop(0, num_data, add, Clusters(empty, empty, empty))


def canonical_labels(labels: Labels, num_data: Array | int) -> Labels:
    """Number the clusters of the first `num_data` data by first appearance; -1 for other data."""
    known = jnp.arange(labels.shape[0], dtype=jnp.int32)[:, None] < num_data

    def number(i: Array | int, carry: tuple[Labels, Slots]) -> tuple[Labels, Slots]:
        numbered, next_number = carry
        new = row_of(numbered, i) < 0
        same = (labels == row_of(labels, i)) & new & known
        return jnp.where(same, next_number, numbered), next_number + new

    start = (jnp.full_like(labels, -1), jnp.zeros_like(labels[0]))
    return jax.lax.fori_loop(0, num_data, number, start)[0]


def side_by_side(function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Make `function(keys, lanes, shared)` merge every `vmap` around it into its lane axis.

    `keys` and all arrays of `lanes` and of the result have a leading lane axis; the result of one
    lane must depend on that lane and on `shared` only. Ordinary `vmap` would mask each run's loop
    bounds and branches. If `shared` differs between runs, the runs are made one after another.
    """
    call = custom_vmap(function)

    @call.def_vmap
    def merge(size: int, batched: Any, keys: Any, lanes: Any, shared: Any) -> Any:
        def fill(array: Any, is_batched: bool) -> Any:
            return array if is_batched else jnp.broadcast_to(array, (size, *array.shape))

        if any(jax.tree.leaves(batched[2])):
            everything = jax.tree.map(fill, (keys, lanes, shared), tuple(batched))
            result = jax.lax.map(lambda one: call(*one), everything)
        else:
            keys, lanes = jax.tree.map(fill, (keys, lanes), tuple(batched[:2]))
            flat = lambda a: a.reshape((a.shape[0] * a.shape[1], *a.shape[2:]))
            result = call(*jax.tree.map(flat, (keys, lanes)), shared)
            result = jax.tree.map(lambda a: a.reshape((size, -1, *a.shape[1:])), result)
        return result, jax.tree.map(lambda _: True, result)

    return call


_LOG_2 = math.log(2.0)
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_BITS_OF_ROOT_HALF = 0x3FE6A09E667F3BCD
"""The double nearest to the square root of one half, as an integer."""
_NUM_ATANH_TERMS = 11
"""Terms of the series of artanh, which then ends below the rounding of a double."""
_SHIFT = 8
"""Amount by which arguments are raised before asymptotic series are used."""
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""Coefficients $B_{2k}/(2k(2k-1))$ of $x^{1-2k}$ in the series of $\\log\\Gamma(x)$."""
_EULER = (-1, 5, -61, 1385, -50521, 2702765)
"""Euler numbers $E_2, E_4, \\dots$"""
_HALF_STEP = tuple(-number / (k * 4 ** (2 * k + 1)) for k, number in enumerate(_EULER, 1))
"""Coefficients $-E_{2k}/(k\\,4^{2k+1})$ of $y^{-2k}$ in `half_step`."""


def log(x: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\log x$ for positive, normal, finite $x$.

    $x = 2^k m$ with $m \in [\sqrt{1/2}, \sqrt2)$, then
    $\log m = 2\,\mathrm{artanh}\,s$, $s = (m-1)/(m+1)$, by its power series.
    """
    if x.dtype != jnp.float64:
        return jnp.log(x)
    bits = jax.lax.bitcast_convert_type(x, jnp.int64)
    exponent = (bits - _BITS_OF_ROOT_HALF) >> 52
    mantissa = jax.lax.bitcast_convert_type(bits - (exponent << 52), jnp.float64)
    above, below = mantissa - 1.0, mantissa + 1.0
    s = above / below
    series = _horner([2 / (2 * k + 1) for k in range(_NUM_ATANH_TERMS)], s * s)
    return exponent.astype(x.dtype) * _LOG_2 + above * series / below


def log_gamma(x: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\log\Gamma(x)$ for $x > 0$.

    $\Gamma(x) = \Gamma(x+8)/\prod_{j<8}(x+j)$, and Stirling's series at $x + 8$.
    """
    shifted = x + _SHIFT
    tail = _horner(_STIRLING, 1.0 / (shifted * shifted)) / shifted
    return (shifted - 0.5) * log(shifted) - shifted + (_HALF_LOG_TWO_PI + tail) - log(_rising(x))


def half_step(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    r"""$(a, b)$ with $\Gamma(x + \frac12)/\Gamma(x) = \sqrt{a}\,e^b$ for $x > 0$.

    With $y = x - \frac14$, $\log\Gamma(x+\frac12) - \log\Gamma(x) = \frac12\log y -
    \sum_k E_{2k}/(k\,4^{2k+1})\,y^{-2k}$ with the Euler numbers $E_{2k}$; applied at $x + 8$.
    """
    shifted = x + (_SHIFT - 0.25)
    inverse = 1.0 / (shifted * shifted)
    ratio = _rising(x) / _rising(x + 0.5)
    return shifted * ratio * ratio, inverse * _horner(_HALF_STEP, inverse)


def _rising(x: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\prod_{j<8}(x+j)$."""
    product = x
    for j in range(1, _SHIFT):
        product = product * (x + j)
    return product


def _horner(coefficients: "list[float] | tuple[float, ...]", x: Array) -> Array:
    """A polynomial, with coefficients from the lowest power on."""
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


class Hyper(NamedTuple):
    r"""Hyperparameters: concentration $\alpha$, and $m, r, \nu, s$ stacked along the first axis."""

    alpha: Array
    cluster: Array

    @property
    def m(self) -> Array:
        """Mean of the clusters' centres."""
        return self.cluster[0]

    @property
    def r(self) -> Array:
        """Precision of the centres, relative to that of the data."""
        return self.cluster[1]

    @property
    def nu(self) -> Array:
        """Twice the shape of the precisions' prior."""
        return self.cluster[2]

    @property
    def s(self) -> Array:
        """Twice the rate of the precisions' prior."""
        return self.cluster[3]


class Parts(NamedTuple):
    r"""The four sums over clusters in the log likelihood.

    Attributes:
        scale: $\sum \log s_N$.
        scale_by_size: $\sum N \log s_N$.
        centre: $\sum \log r_N$.
        shape: $\sum \log\Gamma(\nu_N/2)$.
    """

    scale: Row
    scale_by_size: Row
    centre: Row
    shape: Row


def log_likelihood(hyper: Hyper, parts: Parts, number: Row) -> Row:
    r"""$\log p(y \mid z, m, r, \nu, s) + \frac n2\log\pi$ for `number` clusters."""
    scale = number * log(hyper.s) - parts.scale
    centre = number * log(hyper.r) - parts.centre
    shape = parts.shape - number * log_gamma(0.5 * hyper.nu)
    return shape + 0.5 * (hyper.nu * scale - parts.scale_by_size + centre)


def sum_scale(hyper: Hyper, clusters: Clusters, top: Array | int) -> tuple[Row, Row, Row]:
    """The sums that depend on $m$, $r$ and $s$: `scale`, `scale_by_size`, `centre`."""

    def add(slot: Array, sums: tuple[Row, Row, Row]) -> tuple[Row, Row, Row]:
        row = row_of(clusters, slot)
        precision = hyper.r + row.size
        offset = row.mean - hyper.m
        share = hyper.r * row.size / precision
        log_s = log(hyper.s + row.spread + share * offset * offset)
        used = row.size > 0.0
        scale, scale_by_size, centre = sums
        scale = scale + jnp.where(used, log_s, 0.0)
        return (
            scale,
            scale_by_size + row.size * log_s,
            centre + jnp.where(used, log(precision), 0.0),
        )

    zero = jnp.zeros_like(hyper.nu)
    return over_slots(top, add, (zero, zero, zero))


def sum_shape(hyper: Hyper, clusters: Clusters, top: Array | int) -> Row:
    r"""The sum that depends on $\nu$: `shape`."""

    def add(slot: Array, shape: Row) -> Row:
        size = row_of(clusters.size, slot)
        return shape + jnp.where(size > 0.0, log_gamma(0.5 * (hyper.nu + size)), 0.0)

    return over_slots(top, add, jnp.zeros_like(hyper.nu))


def log_predictive(hyper: Hyper, cluster: Clusters, y: Array | float) -> Row:
    r"""$\log p(y \mid y_{1:N})$ for a cluster of $N \ge 0$ data: Student's t.

    With $m_N = (rm + N\bar y)/r_N$ and $q = \frac{r_N}{r_N+1}(y - m_N)^2$ it is
    $\frac{\Gamma((\nu_N+1)/2)}{\Gamma(\nu_N/2)}\sqrt{\frac{r_N}{(r_N+1)\pi s_N}}
    (1 + q/s_N)^{-(\nu_N+1)/2}$.
    """
    x = 0.5 * (hyper.nu + cluster.size)
    precision = hyper.r + cluster.size
    offset = cluster.mean - hyper.m
    share = cluster.size / precision
    s_n = hyper.s + cluster.spread + hyper.r * share * offset * offset
    ratio = precision / (precision + 1.0)
    error = (y - hyper.m) - share * offset
    square, rest = half_step(x)
    growth = log(1.0 + ratio * error * error / s_n)
    return 0.5 * log(square * ratio / (math.pi * s_n)) + rest - (x + 0.5) * growth
