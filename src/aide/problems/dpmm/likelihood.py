r"""Collapsed likelihood: normal clusters with precision and centre integrated out.

A cluster has precision $\tau \sim \mathrm{Gamma}(\nu/2, s/2)$ (shape, rate) and centre
$\mu \sim N(m, 1/(r\tau))$. With $N$ data of mean $\bar y$ and spread $S = \sum(y-\bar y)^2$, let
$r_N = r + N$, $\nu_N = \nu + N$ and $s_N = s + S + \frac{rN}{r+N}(\bar y - m)^2$. Then

$$p(y_{1:N}) = \pi^{-N/2}\,\frac{\Gamma(\nu_N/2)}{\Gamma(\nu/2)}\,
\frac{s^{\nu/2}}{s_N^{\nu_N/2}}\,\Bigl(\frac{r}{r_N}\Bigr)^{1/2}.$$
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from aide.problems.dpmm.clusters import Clusters, Row, over_slots, row_of
from aide.problems.dpmm.special import half_step, log, log_gamma


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
        """Twice its rate."""
        return self.cluster[3]


class Parts(NamedTuple):
    r"""The sums over clusters of which the log likelihood consists.

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
    """The parts that depend on $m$, $r$ and $s$: `scale`, `scale_by_size`, `centre`."""

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
    r"""The part that depends on $\nu$: `shape`."""

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
