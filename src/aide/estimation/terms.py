r"""The terms of the estimate and their means, computed here and nowhere else.

At an output $x$ of one algorithm the term is $\log\hat\xi_{own}(x) - \log\hat\xi_{other}(x)$, where
$\hat\xi$ averages $\xi$ over M traces; the algorithm's own average includes the trace of the run
that made $x$. AIDE's estimate is the mean of the terms at the gold standard's outputs plus the mean
of the terms at the target's outputs.
"""

from typing import NamedTuple

import numpy as np

from aide._core.chains import mean_variance, split_rhat
from aide._core.types import GOLD, TARGET, Role
from aide.engine.draws import Draws
from aide.reporting.numbers import with_error

Sequences = tuple[np.ndarray, ...]
"""Rows of terms that depend on each other: one array per chain, in the order of the chain."""


class Mean(NamedTuple):
    """A mean and its standard error (NaN for a single run, infinite for infinite terms)."""

    value: float
    std_error: float

    def __str__(self) -> str:
        """Such as `0.213 ± 0.012`."""
        return with_error(self.value, self.std_error)


class Worth(NamedTuple):
    """The effective sample size of terms at a fixed list of draws, and their R-hat.

    Attributes:
        effective: Number of independent terms with the same standard error.
        rhat: Split R-hat of the terms between chains; NaN where it is not defined.
    """

    effective: float
    rhat: float


class Bracket(NamedTuple):
    """A two-sided bound, in expectation: the mean of `lower` is below, that of `upper` above."""

    lower: Mean
    upper: Mean


def mean_of(terms: np.ndarray, sequences: Sequences | None = None) -> Mean:
    """Mean and standard error; an infinite term makes both infinite.

    Args:
        terms: One number per run.
        sequences: How runs depend on each other; `None` if they do not.
    """
    if np.isinf(terms).any():
        return Mean(float(terms[np.isinf(terms)][0]), np.inf)
    if sequences is not None and terms.size > 1:
        found = mean_variance([terms[rows] for rows in sequences])
        return Mean(float(terms.mean()), float(np.sqrt(found.variance)))
    error = terms.std(ddof=1) / np.sqrt(terms.size) if terms.size > 1 else np.nan
    return Mean(float(terms.mean()), float(error))


def worth_of(terms: np.ndarray, sequences: Sequences | None) -> Worth | None:
    """Effective size and R-hat of terms that depend on each other; `None` for independent terms."""
    if sequences is None:
        return None
    parts = [terms[rows] for rows in sequences]
    if not np.isfinite(terms).all():
        return Worth(np.nan, np.nan)
    return Worth(mean_variance(parts).effective, split_rhat(parts))


ROUNDING = 1e-9
"""Relative difference between two log xi below which they count as equal."""
MOST_ROUNDING = 1e-4
"""Nats above which a relative difference no longer counts as rounding, however large log xi is."""
UNITS = 16.0
"""Units in the last place up to which two log xi count as equal: what double precision resolves."""


class Scores(NamedTuple):
    r"""$\log\hat\xi$ at the outputs of one algorithm: by itself, and by the other algorithm."""

    own: np.ndarray
    other: np.ndarray


class Terms(NamedTuple):
    """One number per run, at the gold standard's outputs and at the target's."""

    gold: np.ndarray
    target: np.ndarray

    def at(self, role: Role) -> np.ndarray:
        """The terms at the outputs of one algorithm."""
        return self[role]


class Metas(NamedTuple):
    """Numbers of meta-inference runs, M, of gold standard and target."""

    gold: int
    target: int


def metas_of(draws: Draws) -> Metas:
    """M of both algorithms."""
    return Metas(draws.gold.num_meta, draws.target.num_meta)


def scores_at(draws: Draws, role: Role, metas: Metas | None = None) -> Scores:
    r"""$\log\hat\xi$ of both algorithms at the outputs of one, from the first M traces of each."""
    number, side = metas or metas_of(draws), draws.side(role)
    return Scores(side.kept(number[role]), side.scored(number[role.other]))


def terms_of(draws: Draws, metas: Metas | None = None) -> Terms:
    r"""AIDE's own terms: $\log\hat\xi_{own} - \log\hat\xi_{other}$ at gold and target outputs."""
    scores = [scores_at(draws, role, metas) for role in (GOLD, TARGET)]
    gold, target = (one.own - one.other for one in scores)
    return Terms(gold, target)


def log_z_shift(draws: Draws, role: Role) -> float | None:
    r"""$\log Z_{other} - \log Z_{own}$: added to a term it gives a log ratio of densities.

    `None` if a $Z$ is unknown.
    """
    own, other = draws.side(role).log_z, draws.side(role.other).log_z
    return None if own is None or other is None else other - own


def is_tractable(draws: Draws, role: Role) -> bool:
    r"""Whether $\xi$ of the algorithm is a function of the output: $\xi = Z q(x)$.

    Either the algorithm says so, or its runs show it: at every output of both algorithms there are
    two or more scores, and they are equal up to rounding. A $\xi$ that is random at a share of
    outputs above `unseen_share` would have varied. One score per output shows nothing.
    """
    own, cross = draws.side(role).own, draws.side(role.other).cross
    if not draws.side(role).tractable and min(own.shape[1], cross.shape[1]) < 2:
        return False
    return all(
        bool((_distances(scores, scores[:, :1]) <= rounding_of(abs(scores[:, :1]))).all())
        for scores in (own, cross)
    )


def are_tractable(draws: Draws) -> bool:
    """Whether both algorithms are tractable."""
    return all(is_tractable(draws, role) for role in Role)


def rests_on_one_density(draws: Draws) -> bool:
    r"""Whether two different algorithms state the same $\log\xi$ at every output, up to a constant.

    Then every term is the same number: the estimate is 0 however the outputs are distributed.
    """
    if draws.same_algorithm:
        return False
    signed, sizes = [], []
    for role, sign in ((GOLD, 1.0), (TARGET, -1.0)):
        own, other = scores_at(draws, role)
        if not (np.isfinite(own).all() and np.isfinite(other).all()):
            return False
        signed.append(sign * (own - other))
        sizes.append(np.maximum(abs(own), abs(other)))
    terms, size = np.concatenate(signed), np.concatenate(sizes)
    return bool(terms.size and (abs(terms - terms[0]) <= rounding_of(size)).all())


def rounding_of(size: np.ndarray) -> np.ndarray:
    """Nats by which two log xi of this size may differ by rounding alone.

    Even with an offset of 1e12 in a log density, double precision resolves 1e-4 nats, so that two
    different densities still count as different.
    """
    with np.errstate(invalid="ignore"):
        units = UNITS * np.spacing(np.where(np.isfinite(size), size, 1.0))
    relative = np.minimum(ROUNDING * np.maximum(size, 1.0), MOST_ROUNDING)
    return np.maximum(relative, units)


def _distances(scores: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Distances from the first score; equal infinities have the distance 0."""
    with np.errstate(invalid="ignore"):
        return np.where(scores == first, 0.0, np.nan_to_num(abs(scores - first), nan=np.inf))
