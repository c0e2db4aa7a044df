"""The estimate against the number of meta-inference runs."""

from typing import NamedTuple

import numpy as np

from aide._core.numerics import running_log_mean_exp
from aide._core.types import Role
from aide.engine.draws import Draws
from aide.estimation.means import mean_of
from aide.estimation.terms import scores_at


class MetaCurve(NamedTuple):
    """The estimate for every smaller number of meta-inference runs of one algorithm."""

    num_meta: np.ndarray
    value: np.ndarray
    std_error: np.ndarray


def meta_curve_of(draws: Draws, role: Role) -> MetaCurve:
    """The estimate for M = 1, 2, … of `role`, from the same draws, own trace always kept."""
    mine, theirs = draws.side(role), draws.side(role.other)
    num = mine.num_meta
    own = running_log_mean_exp(mine.own[:, :num]) - scores_at(draws, role).other[:, None]
    cross = running_log_mean_exp(theirs.cross[:, :num])
    cross = scores_at(draws, role.other).own[:, None] - cross
    rows = draws.sequences(role), draws.sequences(role.other)
    columns = [(mean_of(own[:, m], rows[0]), mean_of(cross[:, m], rows[1])) for m in range(num)]
    value = np.array([a.value + b.value for a, b in columns])
    std_error = np.array([np.hypot(a.std_error, b.std_error) for a, b in columns])
    return MetaCurve(np.arange(1, num + 1), value, std_error)
