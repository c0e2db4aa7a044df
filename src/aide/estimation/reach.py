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

from typing import NamedTuple

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

NUM_RUNS = 8
"""Extra runs, looked at step by step."""


class CloserLook:
    """The two algorithms of an estimate and a key, to look closer if that is asked for.

    Args:
        key: A JAX key; the runs are others than those of the estimate.
        algorithms: The gold standard and the target.
    """

    def __init__(self, key: Key, algorithms: tuple[InferenceAlgorithm, InferenceAlgorithm]):
        self._key, self._algorithms = key, algorithms

    def words(self, role: Role) -> tuple[str, ...]:
        """What would make an expert stop: kernels that hardly accept, populations of one ancestor.

        Nothing for an algorithm that does not describe its steps.
        """
        key = jax.random.fold_in(jax.random.fold_in(self._key, int(role)), 0xC105E2)
        try:
            found = diagnose(key, self._algorithms[role], num_runs=NUM_RUNS)
        except NoSuchVersion:
            return ()
        return found.step_notes

    def draw(self, role: Role, num_runs: int, num_meta: int) -> Draws:
        """Other runs of both algorithms, with more meta-runs of one of them."""
        key = jax.random.fold_in(jax.random.fold_in(self._key, int(role)), 0x2EAC4)
        return draw(
            key,
            *self._algorithms,
            num_gold=num_runs,
            num_target=num_runs,
            num_meta_gold=num_meta if role is Role.GOLD else 1,
            num_meta_target=num_meta if role is Role.TARGET else 1,
        )


FAR = 2.0
r"""Nats between meta-runs at one output from which on they do not agree: a factor of 7 in $\xi$."""
MORE = 3.0
"""As many times more outputs than of its own, for it to be about the other's outputs."""
LEAST_SHARE = 0.01
"""Fewer outputs of which meta-runs disagree are not worth a word."""


class Reach(NamedTuple):
    r"""Meta-inference of one algorithm at the other's outputs, from M meta-runs at each.

    Attributes:
        role: Whose meta-inference.
        num_meta: 1, 2, 4, …, M.
        rises: $E[\log\hat\xi_m - \log\hat\xi_1]$ for each of them: what meta-inference with one
            meta-run adds to the bound at these outputs is at least that, in expectation.
        slope: The rise of the last doubling of M; far above 0, the curve has not ended.
        far_share: Share of the outputs at which meta-runs differ by more than `FAR` nats.
        own_share: The same share at the algorithm's own outputs, the real trace among the M.
        difference: Nats between the highest and the lowest meta-run, the median over such outputs.
        carrying: The smallest share of outputs that carries nine tenths of the rise.
        shape: Pareto $\hat k$ of $\xi$, relative to its median at the same output; above 0.7, a
            larger M still changes averages. NaN where runs are too few to tell.
        missed: Whether it hardly reaches a part of these outputs, and does reach its own.
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
        """From one meta-run to all M."""
        return self.rises[-1]


def reach_of(draws: Draws, role: Role) -> Reach | None:
    """The meter of one algorithm; `None` with M = 1, which shows nothing."""
    num = draws.side(role).num_meta
    slope = fall_at_other(draws, role)
    if slope is None:
        return None
    cross, own = draws.side(role.other).cross[:, :num], draws.side(role).own[:, :num]
    cross = cross[(cross > -np.inf).any(axis=1)]  # the others have a note of their own
    if not len(cross):
        return None
    rows = draws.sequences(role.other) if len(cross) == draws.side(role.other).num_runs else None
    sizes = [2**k for k in range(num.bit_length()) if 2**k < num] + [num]
    rises = tuple(_rise(cross, size, rows) for size in sizes)
    differences, own_far = _differences(cross), _differences(own) > FAR
    far = differences > FAR
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
    """The meter from the draws, or from other runs with more meta-runs where M = 1."""
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
    """Between the highest and the lowest of a row; 0 where none explains the output."""
    high, low = scores.max(axis=1), scores.min(axis=1)
    return np.where(high == -np.inf, 0.0, high - np.where(high == -np.inf, 0.0, low))


def _rise(cross: np.ndarray, size: int, rows: Sequences | None) -> Mean:
    r"""$E[\log\hat\xi_m - \log\xi]$, blocks of m meta-runs averaged."""
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
    """Whether meta-runs disagree at more of the other's outputs than chance explains.

    By Fisher's exact test at `FALSE_ALARM`, at `LEAST_SHARE` of them or more, and `MORE` times as
    often as at its own: where both are many, meta-inference is loose everywhere, which the
    looseness says.
    """
    from scipy import stats

    share, own_share = far.mean(), own_far.mean()
    if share < max(LEAST_SHARE, MORE * own_share):
        return False
    total = far.size + own_far.size
    chance = stats.hypergeom.sf(far.sum() - 1, total, far.sum() + own_far.sum(), far.size)
    return bool(chance < FALSE_ALARM)
