r"""Runs, each regenerated once: what looseness is measured on.

With $l = \log\xi_2 - \log\xi_1$ of a run and its regeneration, given $|l|$ the sign is known
(law 2), so that the looseness $-E[l]$ is $E[|l|\tanh(|l|/2)]$: terms that are never negative, of
relative error $\sqrt{2/n}$ however small it is.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from aide._core.roles import Role
from aide._core.types import Key
from aide.running.choose import runner_of
from aide.running.chunks import Chunk
from aide.running.map_runs import ignore
from aide.running.runner import MetaRuns

RARE = 0.1
"""The median of the terms relative to their mean, 0.45 where gaps are normal."""


class Pairs(NamedTuple):
    r"""Runs, each regenerated once.

    Attributes:
        log_xi: Of the runs.
        regenerated: Of one regeneration of each.
    """

    log_xi: Float[np.ndarray, " n"]
    regenerated: Float[np.ndarray, " n"]

    @property
    def terms(self) -> Float[np.ndarray, " n"]:
        r"""$|l|\tanh(|l|/2)$, whose mean is the looseness."""
        gap = np.abs(self.regenerated - self.log_xi)
        return np.where(np.isfinite(gap), gap * np.tanh(np.minimum(gap, 100.0) / 2), np.inf)

    @property
    def looseness(self) -> float:
        """Their mean."""
        return float(np.mean(self.terms))

    @property
    def is_rare(self) -> bool:
        """Whether few outputs cause it: then the median is far below the mean."""
        return bool(np.median(self.terms) < RARE * self.looseness)

    @property
    def std_error(self) -> float:
        """Standard error of the looseness."""
        return float(np.std(self.terms, ddof=1) / np.sqrt(len(self.terms)))


def run_pairs(key: Key, algorithm: Any, role: Role, num: int) -> Pairs:
    """Run and regenerate so many times, by the programs that estimates use."""
    runner, runs, chunk = runner_of(algorithm), np.arange(num), Chunk(num)
    values, log_xi = runner.simulate(key, role, runs, chunk, ignore)
    asked = MetaRuns(role, values, runs, np.ones(1, int), own=True)
    return Pairs(log_xi, runner.regenerate(key, asked, chunk, ignore)[:, 0])
