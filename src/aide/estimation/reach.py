r"""Does meta-inference reach the other algorithm's outputs? And extra runs that look closer.

`Looseness` meters meta-inference at an algorithm's own outputs; `Reach` meters it at the other's.
At an output $x$ of the other algorithm, $E[\log\hat\xi_M]$ rises with M towards $\log Zq(x)$ and
never beyond. So the rise from 1 to M is a lower bound on what meta-inference adds to the estimate
there. Where an algorithm hardly ever produces outputs like $x$ (a mode that its start misses),
`regenerate` has to find a rare path to $x$, and most attempts fail, each in another way: $\log\xi$
differs by nats between meta-inference runs at one output, while it agrees at the algorithm's own
outputs. The note about missed regions looks for that pattern; the rise itself may be a small part
of what is missing.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.numerics import row_log_mean_exp
from aide._core.types import Key, Role
from aide._core.versions import NoSuchVersion
from aide.diagnosing.diagnose import diagnose
from aide.engine.draw import draw
from aide.engine.draws import Draws
from aide.estimation.interval import FALSE_ALARM, MIN_TERMS_FOR_TAIL, importance_shape
from aide.estimation.looseness import fall_at_other
from aide.estimation.terms import Mean, Sequences, mean_of
from aide.reporting.figures import PanelGrid, panels_of

NUM_RUNS = 8
"""Extra runs of an algorithm whose steps are diagnosed for a note."""
DISAGREEMENT_NATS = 2.0
r"""Nats between meta-inference runs at one output that count as disagreement: a factor of 7."""
TIMES_AS_FREQUENT = 3.0
"""Report a missed region only if disagreement is at least this many times as frequent at the other
algorithm's outputs as at its own: otherwise meta-inference is loose everywhere."""
LEAST_SHARE = 0.01
"""Least share of outputs with disagreement for a missed region to be reported."""


class CloserLook:
    """The two algorithms of an estimate, for extra runs when a note or `Estimate.reach` needs them.

    Args:
        key: A JAX key; the extra runs are not those of the estimate.
        algorithms: The gold standard and the target.
    """

    def __init__(self, key: Key, algorithms: tuple[InferenceAlgorithm, InferenceAlgorithm]):
        self._key, self._algorithms = key, algorithms

    def words(self, role: Role) -> tuple[str, ...]:
        """Problems of an algorithm's steps, such as kernels that hardly accept a proposal.

        Empty for an algorithm that does not describe its steps.
        """
        key = jax.random.fold_in(jax.random.fold_in(self._key, int(role)), 0xC105E2)
        try:
            found = diagnose(key, self._algorithms[role], num_runs=NUM_RUNS)
        except NoSuchVersion:
            return ()
        return found.step_notes

    def draw(self, role: Role, num_runs: int, num_meta: int) -> Draws:
        """Extra runs of both algorithms, with `num_meta` meta-inference runs of one of them."""
        key = jax.random.fold_in(jax.random.fold_in(self._key, int(role)), 0x2EAC4)
        return draw(
            key,
            *self._algorithms,
            num_gold=num_runs,
            num_target=num_runs,
            num_meta_gold=num_meta if role is Role.GOLD else 1,
            num_meta_target=num_meta if role is Role.TARGET else 1,
        )


class Reach(NamedTuple):
    r"""Meta-inference of one algorithm at the other's outputs, from M meta-inference runs at each.

    Attributes:
        role: The algorithm whose meta-inference is metered.
        num_meta: 1, 2, 4, …, M.
        rises: $E[\log\hat\xi_m - \log\hat\xi_1]$ for each m of `num_meta`: in expectation a lower
            bound on what meta-inference with M = 1 adds to the estimate at these outputs.
        slope: The rise of the last doubling of M; far above 0, a larger M would add more.
        far_share: Share of the outputs at which meta-inference runs differ by more than
            `DISAGREEMENT_NATS`.
        own_share: The same share at the algorithm's own outputs.
        difference: Nats between the highest and the lowest $\log\xi$ at one output; the median over
            the outputs with disagreement.
        carrying: The smallest share of outputs that makes up nine tenths of the rise.
        shape: Pareto $\hat k$ of $\xi$, relative to its median at the same output; above 0.7, a
            larger M still changes averages. NaN with too few runs.
        missed: Whether meta-inference hardly reaches some of these outputs but reaches its own.
    """

    role: Role
    num_meta: tuple[int, ...]
    rises: tuple[Mean, ...]
    slope: Mean
    far_share: float
    own_share: float
    difference: float
    carrying: float
    shape: float
    missed: bool

    @property
    def rise(self) -> Mean:
        """The rise from 1 meta-inference run to all M."""
        return self.rises[-1]

    def plot(self, axes: Any = None, label: str = "") -> Any:
        """Plot the rises against m on the given matplotlib axes or a new figure; return the figure.

        Args:
            axes: The axes; several meters on the same ones can be told apart by their labels.
            label: A name in the legend.
        """
        [panel] = panels_of(axes, PanelGrid())
        places = range(len(self.num_meta))
        values, errors = (
            [float(number) for number in row] for row in zip(*self.rises, strict=True)
        )
        panel.errorbar(places, values, np.multiply(2, errors), fmt="o-", ms=4, lw=1.5, label=label)
        panel.set_xticks(places, [f"{num}" for num in self.num_meta])
        panel.set_xlabel(f"m, meta-inference runs of the {self.role.word} per output")
        panel.set_ylabel("rise of the mean log score (nats)")
        if label:
            panel.legend(frameon=False, loc="upper left")
        return panel.figure


def reach_of(draws: Draws, role: Role) -> Reach | None:
    """Meter one algorithm's meta-inference; `None` with M = 1, which shows nothing."""
    num = draws.side(role).num_meta
    slope = fall_at_other(draws, role)
    if slope is None:
        return None
    cross, own = draws.side(role.other).cross[:, :num], draws.side(role).own[:, :num]
    cross = cross[
        (cross > -np.inf).any(axis=1)
    ]  # outputs without any finite score have their own note
    if not len(cross):
        return None
    rows = draws.sequences(role.other) if len(cross) == draws.side(role.other).num_runs else None
    sizes = [2**k for k in range(num.bit_length()) if 2**k < num] + [num]
    rises = tuple(_rise(cross, size, rows) for size in sizes)
    differences, own_far = _differences(cross), _differences(own) > DISAGREEMENT_NATS
    far = differences > DISAGREEMENT_NATS
    return Reach(
        role,
        tuple(sizes),
        rises,
        slope,
        float(far.mean()),
        float(own_far.mean()),
        float(np.median(differences[far])) if far.any() else 0.0,
        _carrying(row_log_mean_exp(cross) - _mean_log(cross)),
        _shape(cross),
        _is_missed(far, own_far),
    )


def find_reach(
    draws: Draws, role: Role, closer: CloserLook | None, num_runs: int, num_meta: int
) -> Reach:
    """Meter from the draws, or from extra runs with `num_meta` meta-inference runs where M = 1."""
    word, found = role.word, reach_of(draws, role)
    if found is None and draws.side(role).num_meta == 1:
        if closer is None:
            raise ValueError(
                f"one meta-run of the {word} per output does not show whether another agrees with "
                f"it: estimate with num_meta_{word}=2 or more."
            )
        found = reach_of(closer.draw(role, num_runs, num_meta), role)
    if found is None:
        raise ValueError(
            f"no meta-run of the {word} explains any output of the {role.other.word} (log xi = "
            "-inf everywhere): there is nothing to compare."
        )
    return found


def _differences(scores: np.ndarray) -> np.ndarray:
    """Nats between the highest and the lowest score of a row; 0 where all are -inf."""
    high, low = scores.max(axis=1), scores.min(axis=1)
    return np.where(high == -np.inf, 0.0, high - np.where(high == -np.inf, 0.0, low))


def _rise(cross: np.ndarray, size: int, rows: Sequences | None) -> Mean:
    r"""$E[\log\hat\xi_m - \log\xi]$ over blocks of m meta-inference runs."""
    blocks = [cross[:, b : b + size] for b in range(0, cross.shape[1] - size + 1, size)]
    with np.errstate(invalid="ignore"):
        means = np.mean([row_log_mean_exp(block) for block in blocks], axis=0) - _mean_log(cross)
    return mean_of(np.where(np.isnan(means), np.inf, means), rows)


def _mean_log(cross: np.ndarray) -> np.ndarray:
    return cross.mean(axis=1)


def _carrying(rises: np.ndarray) -> float:
    ordered = np.sort(rises[np.isfinite(rises)])[::-1]
    if not ordered.size or ordered.sum() <= 0.0:
        return 0.0
    return float((np.searchsorted(np.cumsum(ordered), 0.9 * ordered.sum()) + 1) / len(rises))


def _shape(cross: np.ndarray) -> float:
    finite = cross[np.isfinite(cross).all(axis=1)]
    if finite.size < MIN_TERMS_FOR_TAIL:
        return np.nan
    return importance_shape((finite - np.median(finite, axis=1, keepdims=True)).ravel())


def _is_missed(far: np.ndarray, own_far: np.ndarray) -> bool:
    """Whether disagreement is more frequent at the other algorithm's outputs than chance explains.

    It must occur at `LEAST_SHARE` of these outputs or more, `TIMES_AS_FREQUENT` times as often as
    at the algorithm's own outputs, and be significant at `FALSE_ALARM` by Fisher's exact test.
    Where it is frequent at both, the looseness says that meta-inference is loose everywhere.
    """
    from scipy import stats

    share, own_share = far.mean(), own_far.mean()
    if share < max(LEAST_SHARE, TIMES_AS_FREQUENT * own_share):
        return False
    total = far.size + own_far.size
    chance = stats.hypergeom.sf(far.sum() - 1, total, far.sum() + own_far.sum(), far.size)
    return bool(chance < FALSE_ALARM)
