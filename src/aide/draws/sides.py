r"""Runs of one algorithm, every $\log\xi$ at its outputs, and what the algorithm is."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import jax
import numpy as np
from jaxtyping import Float

from aide._core.chains import Chains
from aide._core.identity import Identity
from aide._core.numerics import row_log_mean_exp
from aide._core.roles import Role
from aide._core.types import Value


@dataclass(frozen=True)
class Runs:
    r"""N runs of one algorithm, scored by both, M meta-inference runs each.

    Attributes:
        own: $\log\xi$ of the algorithm that made the output, shape (N, 1 + K): column 0 belongs
            to the trace it really used, the others to `regenerate`. K is M, or M - 1 if looseness
            was not asked for.
        cross: $\log\xi$ of the other algorithm at the same outputs, shape (N, M_other).
        values: The outputs, stacked, or `None`.
        first: The output of the first run, by which an algorithm is recognised, or `None`.
        fingerprints: A number per run that equal outputs share; `None` unless all are reals.
    """

    own: Float[np.ndarray, "N K"]
    cross: Float[np.ndarray, "N M"]
    values: Value = None
    first: Value = None
    fingerprints: np.ndarray | None = None

    @property
    def num_runs(self) -> int:
        """N."""
        return self.own.shape[0]


@dataclass(frozen=True)
class Side(Runs):
    r"""The runs of one of the two algorithms of an estimate, and the facts about it.

    Attributes:
        role: The part it plays.
        num_meta: Its meta-inference runs per output, M.
        name: What it is called.
        log_z: What it claims about $\log Z$ (`None`: nothing).
        tractable: Whether it states that $\xi$ depends on its output alone.
        provenance: How it was made and tested, in words, if it says so.
        doubts: What its tests found against it, in words; `None`: it was not tested.
        chains: Of a fixed list of draws, how they lie: its runs depend on each other.
        identity: What it is; see `aide._core.identity`.
    """

    role: Role = field(kw_only=True)
    num_meta: int = field(default=1, kw_only=True)
    name: str = field(default="", kw_only=True)
    log_z: float | None = field(default=None, kw_only=True)
    tractable: bool = field(default=False, kw_only=True)
    provenance: str = field(default="", kw_only=True)
    doubts: tuple[str, ...] | None = field(default=None, kw_only=True)
    chains: Chains | None = field(default=None, kw_only=True)
    identity: Identity | None = field(default=None, kw_only=True)

    def kept(self, num_meta: int | None = None) -> np.ndarray:
        r"""Per run, $\log\frac1M\sum_m\xi_m$ with its own trace among the M: high on average."""
        return row_log_mean_exp(self.own[:, : self.num_meta if num_meta is None else num_meta])

    def fresh(self, num_meta: int | None = None) -> np.ndarray | None:
        """The same from `regenerate` alone: low on average. `None` if it was not drawn."""
        number = self.num_meta if num_meta is None else num_meta
        if self.own.shape[1] <= number:
            return None
        return row_log_mean_exp(self.own[:, 1 : number + 1])

    def scored(self, num_meta: int) -> np.ndarray:
        r"""Per run, $\log\frac1M\sum_m\xi_m$ of the other algorithm, whose M it is."""
        return row_log_mean_exp(self.cross[:, :num_meta])

    def take(self, rows: slice) -> "Side":
        """Some of the runs."""
        values = None if self.values is None else jax.tree.map(lambda a: a[rows], self.values)
        prints = None if self.fingerprints is None else self.fingerprints[rows]
        runs = Runs(self.own[rows], self.cross[rows], values, self.first, prints)
        return self.with_runs(runs)

    def with_runs(self, runs: Runs) -> "Side":
        """The same algorithm with other runs."""
        facts = {name: getattr(self, name) for name in _FACTS}
        return Side(runs.own, runs.cross, runs.values, runs.first, runs.fingerprints, **facts)


_FACTS = tuple(one.name for one in fields(Side) if one.kw_only)


def join(parts: Sequence[Runs]) -> Runs:
    """Runs of the same algorithms, one after another; the fewest own columns win."""
    columns = min(part.own.shape[1] for part in parts)
    values = [part.values for part in parts]
    joined = None
    prints = [part.fingerprints for part in parts if part.fingerprints is not None]
    if all(value is not None for value in values):
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *values)
    return Runs(
        np.concatenate([part.own[:, :columns] for part in parts]),
        np.concatenate([part.cross for part in parts]),
        joined,
        parts[0].first,
        np.concatenate(prints) if len(prints) == len(parts) else None,
    )
