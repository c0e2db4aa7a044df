r"""The state of every lane; which cluster a datum joins: Gibbs steps, the arrival of a datum.

Given the other data, datum $y$ joins cluster $k$ with probability proportional to
$w_k\,p(y \mid \text{data of } k)$, where $w_k = N_k$, or $\alpha$ for a new cluster (the Chinese
restaurant process). A new cluster takes the first empty slot.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from aide.problems.dpmm.clusters import (
    Clusters,
    Labels,
    Row,
    Slots,
    Table,
    add_datum,
    choose,
    find_rows,
    over_slots,
    remove_datum,
    row_of,
    with_row,
)
from aide.problems.dpmm.likelihood import Hyper, log, log_predictive


class Setting(NamedTuple):
    """What all lanes share; traced, so that no new value compiles anything.

    Attributes:
        data: All data.
        num_seen: Number of data $t$ that are in clusters so far.
        num_sweeps: Number of sweeps before the next datum.
        optimal: Whether the next datum's cluster is drawn given that datum.
        frozen: Whether hyperparameters stay as they are.
    """

    data: Float[Array, " data"]
    num_seen: Int[Array, ""]
    num_sweeps: Int[Array, ""]
    optimal: Bool[Array, ""]
    frozen: Bool[Array, ""]


class State(NamedTuple):
    """Partition and hyperparameters of every lane.

    Attributes:
        labels: The slot of each datum; anything for data not seen yet.
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
        """The rows of `slots`, changed where it is their turn."""
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
    r"""$\log w_k$, $-\infty$ for empty slots but the first, and $\log p(y \mid k)$."""

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
