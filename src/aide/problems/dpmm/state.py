"""What a lane is between two updates, and what all lanes share."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from aide.problems.dpmm.clusters import Clusters, Labels, Row
from aide.problems.dpmm.likelihood import Hyper


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
