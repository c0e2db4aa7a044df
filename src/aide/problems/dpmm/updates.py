r"""The state of every lane, and its updates: clusters of data, hyperparameters.

Given the other data, datum $y$ joins cluster $k$ with probability proportional to
$w_k\,p(y \mid \text{data of } k)$, where $w_k = N_k$, or $\alpha$ for a new cluster (the Chinese
restaurant process). A new cluster takes the first empty slot.

Hyperparameters have Metropolis–Hastings updates that propose from their prior:
$\alpha, r, \nu, s \sim \mathrm{Gamma}(1, 1)$, which is Exp(1), and $m \sim N(0, 1)$. A proposal
from the prior is accepted with the ratio of likelihoods: of the partition for $\alpha$, of the data
for $m, r, \nu, s$. Each update is reversible.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from aide._core.random import derive, normal_quantile, standard_uniform
from aide._core.types import Key, Value
from aide.problems.dpmm.clusters import (
    Clusters,
    Hyper,
    Labels,
    Parts,
    Row,
    Slots,
    Table,
    add_datum,
    choose,
    find_rows,
    log,
    log_gamma,
    log_likelihood,
    log_predictive,
    over_slots,
    remove_datum,
    row_of,
    sum_scale,
    sum_shape,
    with_row,
)


class Setting(NamedTuple):
    """Facts that all lanes share; traced, so that a new value compiles nothing.

    Attributes:
        data: All data.
        num_seen: Number of data $t$ that are in clusters so far.
        num_sweeps: Number of sweeps before the next datum.
        optimal: Whether the next datum's cluster is drawn given that datum.
        frozen: Whether hyperparameters are fixed.
    """

    data: Float[Array, " data"]
    num_seen: Int[Array, ""]
    num_sweeps: Int[Array, ""]
    optimal: Bool[Array, ""]
    frozen: Bool[Array, ""]


class State(NamedTuple):
    """Partition and hyperparameters of every lane.

    Attributes:
        labels: The slot of each datum; arbitrary for later data.
        hyper: Hyperparameters.
        clusters: Statistics of the slots.
        number: Number of clusters.
        top: At least one more than the highest slot in use in any lane.
    """

    labels: Labels
    hyper: Hyper
    clusters: Clusters
    number: Row
    top: Int[Array, ""]


def make_state(labels: Labels, hyper: Hyper, clusters: Clusters) -> State:
    """Count clusters and find the highest slot."""
    used = clusters.size > 0
    ends = jnp.arange(1, used.shape[0] + 1, dtype=jnp.int32)[:, None]
    number = jnp.sum(used, axis=0).astype(clusters.size.dtype)
    return State(labels, hyper, clusters, number, jnp.max(jnp.where(used, ends, 0)))


class Change(NamedTuple):
    """New statistics for one slot per lane."""

    slots: Slots
    rows: Clusters

    def apply(self, slots: Array, rows: Clusters) -> Clusters:
        """The rows of `slots`, with those of changed slots replaced."""
        return choose(self.slots == slots, self.rows, rows)


def gibbs_step(uniform: Row, state: State, i: Array | int, y: Array | float) -> State:
    """Draw the cluster of datum $i$ from its conditional distribution; reversible."""
    labels, hyper, clusters, number, top = state
    reach = jnp.minimum(top + 1, labels.shape[0])
    before = row_of(labels, i)
    left = Change(before, remove_datum(find_rows(clusters, before, top), y))
    log_prior, log_likelihood = weigh_slots(hyper, clusters, left, y, reach)
    after, _ = draw_slots(uniform, log_prior, log_likelihood, reach)
    joined = Change(after, add_datum(left.apply(after, find_rows(clusters, after, reach)), y))

    def write(slot: Array, clusters: Clusters) -> Clusters:
        return with_row(
            clusters, slot, joined.apply(slot, left.apply(slot, row_of(clusters, slot)))
        )

    clusters = over_slots(reach, write, clusters)
    opened = jnp.where(joined.rows.size < 1.5, 1.0, 0.0)
    closed = jnp.where(left.rows.size < 0.5, 1.0, 0.0)
    top = jnp.maximum(top, jnp.max(after) + 1)
    vacant = jnp.max(row_of(clusters.size, top - 1)) < 0.5
    top = jnp.where(vacant, top - 1, top)
    return State(with_row(labels, i, after), hyper, clusters, number + (opened - closed), top)


def weigh_slots(
    hyper: Hyper, clusters: Clusters, left: Change | None, y: Array | float, top: Array | int
) -> tuple[Table, Table]:
    r"""$\log w_k$, $-\infty$ for empty slots except the first, and $\log p(y \mid k)$."""

    def weigh(slot: Array, carry: Any) -> Any:
        tables, is_first = carry
        row = row_of(clusters, slot)
        row = row if left is None else left.apply(slot, row)
        used = row.size > 0.0
        log_prior = log(jnp.where(used, row.size, hyper.alpha))
        log_prior = jnp.where(used | is_first, log_prior, -jnp.inf)
        tables = with_row(tables, slot, (log_prior, log_predictive(hyper, row, y)))
        return tables, is_first & used

    blank = jnp.zeros_like(clusters.size)
    start = ((blank, blank), jnp.ones(hyper.nu.shape, bool))
    return over_slots(top, weigh, start)[0]


def draw_slots(
    uniform: Row, log_prior: Table, log_likelihood: Any, top: Array | int
) -> tuple[Slots, Row]:
    r"""Draw a slot with probability $e^{l_k}/\sum_j e^{l_j}$; also return $\log\sum_j e^{l_j}$.

    $l_k$ is the sum of the two tables.
    """

    def logit(slot: Array) -> Row:
        return row_of(log_prior, slot) + row_of(log_likelihood, slot)

    lowest = jnp.full_like(uniform, -jnp.inf)
    peak = over_slots(top, lambda slot, peak: jnp.maximum(peak, logit(slot)), lowest)

    def add_up(slot: Array, carry: tuple[Table, Row]) -> tuple[Table, Row]:
        cumulative, total = carry
        total = total + jnp.exp(logit(slot) - peak)
        return with_row(cumulative, slot, total), total

    zero = jnp.zeros_like(uniform)
    cumulative, total = over_slots(top, add_up, (jnp.zeros_like(log_prior), zero))
    point = uniform * total

    def pass_by(slot: Array, slots: Slots) -> Slots:
        return slots + (row_of(cumulative, slot) <= point).astype(slots.dtype)

    slots = over_slots(top, pass_by, jnp.zeros(uniform.shape, jnp.int32))
    return slots, peak + log(total)


NAMES = ("alpha", "m", "r", "nu", "s")
"""Names of the five hyperparameters, in the order of `Hyper`."""
NUM_BLOCKS = 5
r"""Number of updates of the clusters' prior: 1 is $(m, r, \nu, s)$ jointly, 2 to 5 each alone."""
NU_ALONE = 4
r"""Index of the update of $\nu$ alone, the only one that changes just one of the four sums."""
NUM_UNIFORMS = 1 + (1 + NUM_BLOCKS) + 1 + 4 + 4
"""Uniform numbers of one step: Gibbs, decisions to accept, alpha, joint draws, single draws."""


class Noise(NamedTuple):
    r"""All random numbers of one Gibbs step and the updates after it.

    Attributes:
        gibbs: A uniform number.
        accept: Uniforms, one per update: of $\alpha$, then of the blocks.
        alpha: A draw from the prior.
        single: A draw of $m, r, \nu, s$, of which each update uses one.
        joint: A draw of $m, r, \nu, s$ for the joint update.
    """

    gibbs: Row
    accept: Float[Array, "updates lanes"]
    alpha: Row
    single: Float[Array, "4 lanes"]
    joint: Float[Array, "4 lanes"]


def draw_noise(keys: Key, step: Array, dtype: Any) -> Noise:
    """All numbers from one array of uniforms."""
    draw = lambda key: standard_uniform(derive(key, step), (NUM_UNIFORMS,), dtype)
    uniform = jax.vmap(draw, out_axes=1)(keys)
    # standard_uniform includes 0 but not 1; half a step to the right makes the grid symmetric.
    inside = uniform + 0.5 * jnp.finfo(dtype).eps
    normal = normal_quantile(inside[7:9])
    exponential = -log(inside[9:])
    single = jnp.concatenate([normal[:1], exponential[1:4]])
    joint = jnp.concatenate([normal[1:], exponential[4:]])
    return Noise(inside[0], inside[1:7], exponential[0], single, joint)


def update_alpha(
    noise: Noise, hyper: Hyper, number: Row, num_data: Array | int, frozen: Array
) -> Hyper:
    r"""Propose $\alpha$; $p(z \mid \alpha) \propto \alpha^K\,\Gamma(\alpha)/\Gamma(\alpha+n)$."""

    def log_partition(alpha: Row) -> Row:
        return number * log(alpha) + log_gamma(alpha) - log_gamma(alpha + num_data)

    log_ratio = log_partition(noise.alpha) - log_partition(hyper.alpha)
    accept = (noise.accept[0] < jnp.exp(log_ratio)) & ~frozen
    return hyper._replace(alpha=jnp.where(accept, noise.alpha, hyper.alpha))


def update_cluster_prior(noise: Noise, state: State, reverse: bool, frozen: Array) -> Hyper:
    r"""Propose $(m, r, \nu, s)$ jointly, then each alone; in reverse order if `reverse`.

    Round 0 proposes nothing and computes the current likelihood. The loop of a sum that a proposal
    does not change ends at slot 0.
    """

    def update(round_: Array, carry: tuple[Hyper, Parts, Row]) -> tuple[Hyper, Parts, Row]:
        hyper, parts, current = carry
        first = round_ == 0
        block = jnp.where(first, 0, NUM_BLOCKS + 1 - round_) if reverse else round_
        drawn = jnp.where(block == 1, noise.joint, noise.single)
        proposed = (block == 1) | (members == block - 2)
        new = hyper._replace(cluster=jnp.where(proposed, drawn, hyper.cluster))
        only_nu = block == NU_ALONE
        nu_changes = (block <= 1) | only_nu
        scale, scale_by_size, centre = sum_scale(new, clusters, jnp.where(only_nu, 0, top))
        shape = sum_shape(new, clusters, jnp.where(nu_changes, top, 0))
        new_parts = Parts(
            jnp.where(only_nu, parts.scale, scale),
            jnp.where(only_nu, parts.scale_by_size, scale_by_size),
            jnp.where(only_nu, parts.centre, centre),
            jnp.where(nu_changes, shape, parts.shape),
        )
        there = log_likelihood(new, new_parts, number)
        accept = first | (row_of(noise.accept, block) < jnp.exp(there - current))
        keep = lambda a, b: jnp.where(accept, a, b)
        return jax.tree.map(keep, (new, new_parts, there), (hyper, parts, current))

    clusters, number, top = state.clusters, state.number, state.top
    members = jnp.arange(4, dtype=jnp.int32)[:, None]
    zero = jnp.zeros_like(number)
    start = (state.hyper, Parts(zero, zero, zero, zero), zero)
    num_rounds = jnp.where(frozen, 0, NUM_BLOCKS + 1)
    return jax.lax.fori_loop(0, num_rounds, update, start)[0]


def sample_prior(key: Key) -> Hyper:
    """One draw from the prior."""
    uniform = standard_uniform(key, (5,), float)
    inside = uniform + 0.5 * jnp.finfo(uniform.dtype).eps
    exponential = -jnp.log(inside)
    return Hyper(exponential[0], exponential[1:].at[0].set(normal_quantile(inside[1])))


def log_prior(hyper: Hyper) -> Float[Array, ""]:
    r"""Log density with respect to Lebesgue measure; $-\infty$ unless $\alpha, r, \nu, s > 0$."""
    positive = jnp.stack([hyper.alpha, hyper.r, hyper.nu, hyper.s])
    total = -jnp.sum(positive) - 0.5 * hyper.m**2 - 0.5 * math.log(2 * math.pi)
    return jnp.where(jnp.any(positive <= 0), -jnp.inf, total)


def from_value(value: Value) -> Hyper:
    """The hyperparameters of a value."""
    alpha, *cluster = (jnp.asarray(value[name], float) for name in NAMES)
    return Hyper(alpha, jnp.stack(cluster))


def to_value(hyper: Hyper) -> dict[str, Array]:
    """Undo `from_value`."""
    return dict(zip(NAMES, (hyper.alpha, *hyper.cluster), strict=True))
