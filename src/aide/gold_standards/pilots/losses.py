r"""Where pilots met a log density without a value (NaN or $+\infty$): counts, words, errors.

Such points count as impossible (`aide._core.distribution`). That does no harm if the points are far
from the posterior, and gives a wrong posterior if they are not. Three rules:

- *The start's bulk*: points without a value among the start's draws. If they are more than half,
  the start or the log density is not the intended one: an error.
- *Next to the posterior*: of the points that trajectories of pilots at temperature 1 visit within
  one standard deviation of a draw (root mean square over coordinates, in the metric of the
  kernels), more than 1% have no value: an error. Fewer are reported.
- *Outputs*: tests of the gold standard score outputs by the log density as it was written.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from aide._core.numerics import flat_reals
from aide._core.types import Key, Value
from aide.algorithms.draw_arrays import column_names
from aide.engine.programs.map_runs import map_runs
from aide.gold_standards.pilots.population import Path, unraveller
from aide.gold_standards.pilots.walking import Met

MOST_AT_START = 0.5
"""Largest accepted share of the start's draws without a value: a choice."""
MOST_NEAR = 0.01
"""Largest accepted share of the points next to the posterior without a value: a choice."""
FEWEST_NEAR = 3
"""Least number of points without a value, next to the posterior, that can be an error: a choice."""
MOST_NAMED = 4
"""Largest number of coordinates that a message names."""
ADVICE = (
    "Common causes: the log of a negative number, inf - inf, a solver that fails. Write the model "
    "so that it has a value there, or return -inf where the state is impossible."
)
"""Ends every error on a log density without a value."""


class StartError(ValueError):
    """Error: most draws of the start have no log density, or the posterior has density 0 at all."""


class Losses(NamedTuple):
    r"""Numbers of evaluations of a log density by pilots, and of evaluations without a value.

    Attributes:
        num_seen: Evaluations that were counted.
        num_lost: Evaluations that were NaN or $+\infty$.
        num_near: Evaluations next to the posterior.
        num_near_lost: Evaluations next to the posterior that were NaN or $+\infty$.
        place: A point without a value, flat; one next to the posterior if there is such a point.
    """

    num_seen: int = 0
    num_lost: int = 0
    num_near: int = 0
    num_near_lost: int = 0
    place: np.ndarray | None = None

    def joined(self, other: "Losses") -> "Losses":
        """The counts of both together."""
        first = other.place if other.num_near_lost or self.place is None else self.place
        return Losses(
            self.num_seen + other.num_seen,
            self.num_lost + other.num_lost,
            self.num_near + other.num_near,
            self.num_near_lost + other.num_near_lost,
            first,
        )

    def far(self) -> "Losses":
        """The same counts at a temperature below 1, where no point is next to the posterior."""
        return self._replace(num_near=0, num_near_lost=0)

    @property
    def words(self) -> str:
        """A sentence for a record; empty if every evaluation had a value."""
        if not self.num_lost:
            return ""
        text = (
            f"log_joint was NaN or +inf at {_share(self.num_lost, self.num_seen)} of "
            f"{self.num_seen:,} evaluations that were counted, "
        )
        if not self.num_near:
            return f"{text}in steps towards the posterior; such points count as impossible."
        if not self.num_near_lost:
            return (
                f"{text}all far outside: none of {self.num_near:,} within one standard deviation "
                "of a draw from the posterior; such points count as impossible."
            )
        near = _share(self.num_near_lost, self.num_near)
        return (
            f"{text}{near} of those within one standard deviation of a draw from the posterior; "
            "such points count as impossible."
        )


def losses_of_trial(met: Met) -> Losses:
    """The losses of trajectories."""
    lost, seen = np.asarray(met.lost), np.asarray(met.seen)
    near = seen & np.asarray(met.near)
    rows = np.flatnonzero((lost & near).any(axis=1) if (lost & near).any() else lost.any(axis=1))
    place = np.asarray(met.place)[rows[0]] if len(rows) else None
    count = lambda part: int(np.sum(part))
    return Losses(count(seen), count(lost), count(near), count(lost & near), place)


def losses_near(key: Key, path: Path, states: Value, factor: np.ndarray) -> Losses:
    """The losses at points $x + L v$, $v$ uniform in the cube of side 2, about the final pilots."""
    num = len(jax.tree.leaves(states)[0])
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    noise = rng.uniform(-1.0, 1.0, size=(num, factor.shape[0]))
    shift = noise @ factor.T if factor.ndim == 2 else noise * factor
    lost, place = map_runs(_evaluate_beside, path, key, (states, shift), what="log_joint")
    rows = np.flatnonzero(lost)
    where = place[rows[0]] if len(rows) else None
    return Losses(num, len(rows), num, len(rows), where)


def _evaluate_beside(path: Path, key: Key, x: Value, shift: np.ndarray) -> tuple[object, object]:
    """Whether the log density has no value at a point beside a state, as an engine operation."""
    flat = flat_reals(x) + shift
    return path.log_ratio_and_lost(unraveller(x)(flat))[1], flat


def check_near(losses: Losses, path: Path, states: Value) -> None:
    """Raise if the log density has no value at too many points next to the posterior."""
    if losses.num_near_lost < max(FEWEST_NEAR, MOST_NEAR * losses.num_near):
        return
    raise ValueError(
        f"log_joint is NaN or +inf at {_share(losses.num_near_lost, losses.num_near)} of the "
        "points within one standard deviation of the posterior's draws (pilots of the gold "
        f"standard, temperature 1), for example at {place_words(losses.place, path, states)}. "
        "Far outside such points would count as impossible; next to the posterior they would make "
        f"the posterior another one. {ADVICE}"
    )


def check_start(lost: np.ndarray, flat: np.ndarray, path: Path, states: Value) -> Losses:
    """Count draws of the start without a log density; raise if they are more than half."""
    rows = np.flatnonzero(lost)
    if len(rows) > MOST_AT_START * len(lost):
        raise StartError(
            f"log_joint is NaN or +inf at {_share(len(rows), len(lost))} of {len(lost):,} draws of "
            f"the start (pilots of the gold standard), first at "
            f"{place_words(flat[rows[0]], path, states)}. A share of up to "
            f"{100 * MOST_AT_START:.0f}% would count as impossible. Pass a start that covers the "
            f"posterior more closely. {ADVICE}"
        )
    return Losses(len(lost), len(rows), place=flat[rows[0]] if len(rows) else None)


def place_words(flat: np.ndarray | None, path: Path, states: Value) -> str:
    """`alpha = -2.7e+03, tau = 12, …`: coordinates of a point, those farthest from 0 first."""
    if flat is None:
        return "an unknown point"
    names: Sequence[str] | None = path.names.content
    if names is None or len(names) != len(flat):
        names = column_names(jax.tree.map(lambda leaf: np.asarray(leaf)[None], states))
    order = np.argsort(-np.abs(np.nan_to_num(flat, nan=np.inf)), kind="stable")
    shown = [f"{names[i]} = {flat[i]:.4g}" for i in order[:MOST_NAMED]]
    more = len(flat) - len(shown)
    return ", ".join(shown) + (f" ({more} other coordinates are nearer to 0)" if more else "")


def _share(num: int, total: int) -> str:
    """A percentage with two digits."""
    return f"{100 * num / max(total, 1):.2g}%"
