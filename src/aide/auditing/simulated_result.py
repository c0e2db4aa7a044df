r"""What simulated data say about an algorithm."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aide._numerics import row_log_mean_exp
from aide.auditing.simulated_runs import Pieces
from aide.estimation.report import show
from aide.estimation.summary import Mean, mean_of, total_variation_bound
from aide.estimation.tails import HEAVY_TAIL, MIN_RUNS, pareto_shape

FALSE_ALARM = 1e-4


@dataclass(frozen=True, repr=False, eq=False)
class Simulated:
    r"""AIDE against the exact posterior, averaged over simulated data sets.

    Attributes:
        pieces: $\log p$ and $\log\xi$ per data set.
        log_z: What the algorithm claims about $\log Z$.
        name: The algorithm.
        why_slow: Why data sets were run one by one instead of compiled; empty if they were not.
    """

    pieces: Pieces
    log_z: float | None
    name: str
    why_slow: str = ""

    @property
    def num_datasets(self) -> int:
        """Number of data sets."""
        return self.pieces.exact_log_joint.size

    @property
    def num_meta(self) -> int:
        """M."""
        return self.pieces.exact_log_xi.shape[1]

    @cached_property
    def upper_terms(self) -> np.ndarray:
        r"""$\log p(x, y) - \log\hat\xi(x)$ at the exact draws: on average above $\log p(y)$."""
        pieces = self.pieces
        return pieces.exact_log_joint - row_log_mean_exp(pieces.exact_log_xi)

    @cached_property
    def lower_terms(self) -> np.ndarray:
        r"""$\log p(x', y) - \log\hat\xi(x')$ at the outputs: on average below $\log p(y)$."""
        pieces = self.pieces
        return pieces.own_log_joint - row_log_mean_exp(pieces.own_log_xi[:, : self.num_meta])

    @property
    def terms(self) -> np.ndarray:
        """Their difference, per data set."""
        return self.upper_terms - self.lower_terms

    @property
    def value(self) -> float:
        """Upper bound on the symmetrised KL divergence from the posterior, on average over data."""
        return mean_of(self.terms).value

    @property
    def std_error(self) -> float:
        """Standard error of `value`: data sets are independent, the two terms of one are not."""
        return mean_of(self.terms).std_error

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval for the expectation of `value` (Student's t)."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level}.")
        if not np.isfinite(self.value):
            return self.value, self.value
        from scipy import special

        reach = float(special.stdtrit(self.num_datasets - 1, 0.5 + level / 2)) * self.std_error
        return self.value - reach, self.value + reach

    @property
    def log_evidence(self) -> tuple[Mean, Mean] | None:
        r"""Lower and upper bound on $E_y[\log p(y)]$; `None` if $\log Z$ is unknown."""
        if self.log_z is None:
            return None
        bounds = (mean_of(self.lower_terms), mean_of(self.upper_terms))
        low, high = (Mean(bound.value + self.log_z, bound.std_error) for bound in bounds)
        return low, high

    @property
    def looseness(self) -> Mean:
        """At most this much of `value` comes from meta-inference, at the algorithm's outputs."""
        own, num = self.pieces.own_log_xi, self.num_meta
        return mean_of(row_log_mean_exp(own[:, :num]) - row_log_mean_exp(own[:, 1:]))

    @cached_property
    def consistency(self) -> float | None:
        """P-value of the hypothesis that sampler, density and algorithm belong together.

        See `aide.auditing.exchange`; `None` if there are too few data sets to judge.
        """
        from aide.auditing.exchange import exchange_p_value

        return exchange_p_value(self.pieces)

    @property
    def consistent(self) -> bool:
        """Whether `consistency` gives no reason for doubt, at a false-alarm rate of 1e-4."""
        return self.consistency is None or self.consistency >= FALSE_ALARM

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to keep in mind about these numbers."""
        found = []
        if self.why_slow:
            found.append(
                "Data sets were run one by one, not compiled, because JAX could not trace them: "
                f"{self.why_slow}"
            )
        if not self.consistent:
            found.append(
                f"Exact draws and outputs do not exchange as they must (p = {self.consistency:.1g})"
                ": sample_joint and log_joint describe different models, or simulate and "
                "regenerate are not a pair (see aide.check)."
            )
        num_infinite = int(np.isinf(self.terms).sum())
        if num_infinite:
            found.append(
                f"In {num_infinite} of {self.num_datasets} data sets the posterior draw has no "
                "mass under the algorithm, or its output none under the model: the bound is +inf."
            )
        elif self.num_datasets >= MIN_RUNS and self.terms.std() > 1e-9:
            shape = pareto_shape(self.terms)
            if shape > HEAVY_TAIL:
                found.append(
                    f"The terms are heavy-tailed (Pareto k = {shape:.2f} > {HEAVY_TAIL}): a few "
                    "data sets dominate, and the standard error is too small."
                )
        return tuple(found)

    def rows(self) -> list[tuple[str, str]]:
        """Name and text of every line below the headline."""
        found = []
        if self.log_evidence is not None:
            low, high = map(show, self.log_evidence)
            found.append(("log evidence", f"{low} to {high} on average over data sets"))
        if max(abs(self.looseness.value), self.looseness.std_error) > 1e-9:
            text = f"at most {show(self.looseness)} nats from meta-inference of the algorithm"
            found.append(("looseness", text))
        off = total_variation_bound(self.interval(0.9)[1])  # concave: it holds for the average
        text = f"averaged over simulated data sets, any probability is off by at most {off:.2g}"
        found.append(("reading", f"{text}; real data may differ"))
        return found + [("note", text) for text in self.warnings]

    @property
    def headline(self) -> str:
        """One line."""
        low, high = self.interval()
        value = show(Mean(self.value, self.std_error))
        size = f"{self.num_datasets} data sets, M = {self.num_meta}"
        return (
            f"Symmetrised KL(posterior, algorithm) ≤ {value} nats   95%: {low:.3g} to {high:.3g}"
            f"   {size}"
        )

    def __repr__(self) -> str:
        return "\n".join([self.headline, *(f"  {a:<13} {b}" for a, b in self.rows())])

    def __rich__(self) -> Any:
        from aide.auditing.table import two_columns

        return two_columns(f"{self.name} on simulated data", [("", self.headline), *self.rows()])
