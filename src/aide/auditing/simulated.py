r"""An algorithm against exact posteriors, on data simulated from its model.

A draw $(x, y)$ from the joint distribution makes $x$ an exact draw of the posterior given $y$, so
that no gold standard is needed (Grosse, Ancha & Roy, 2016, *Measuring the reliability of MCMC
inference with bidirectional Monte Carlo*).
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import ArrayLike

from aide._core.algorithm import InferenceAlgorithm, describe, log_z_of
from aide._core.keywords import keywords
from aide._core.numerics import row_log_mean_exp
from aide._core.random import as_key
from aide._core.types import Key, Value
from aide._core.validate import check_size
from aide.auditing.simulated_runs import (
    Pieces,
    SimulatedStudy,
    exchange_p_value,
    first_data_set,
    run_study,
)
from aide.engine.outputs import check_algorithm
from aide.engine.programs.map_runs import in_double
from aide.engine.programs.sharing import Client, shared_out
from aide.engine.programs.tracing import one_call
from aide.estimation.interval import (
    HEAVY_TAIL,
    MIN_TERMS_FOR_TAIL,
    check_level,
    confidence_limit,
    pareto_shape,
    total_variation_bound,
    unseen_share,
)
from aide.estimation.terms import Mean, mean_of
from aide.reporting.numbers import interval, with_error
from aide.reporting.result import Result

FALSE_ALARM = 1e-4
"""P-value below which sampler, density and algorithm count as not belonging together."""


@dataclass(frozen=True, repr=False, eq=False)
class Simulated(Result):
    r"""AIDE against the exact posterior, averaged over simulated data sets.

    Attributes:
        pieces: $\log p$ and $\log\xi$ per data set.
        log_z: The algorithm's claim about $\log Z$.
        name: The algorithm.
        why_slow: The reason why data sets were run one by one; empty if they were compiled.

    Example:
        >>> def sample_joint(key):
        ...     x, noise = jax.random.normal(key, 2)
        ...     return x, x + noise
        ...
        >>> log_joint = lambda x, y: Normal(0.0, 1.0).log_prob(x) + Normal(x, 1.0).log_prob(y)
        >>> wrong = lambda y: aide.Tractable.of(Normal(0.0, 1.0))  # the prior, whatever the data
        >>> found = aide.audit_simulated(0, sample_joint, log_joint, wrong, num_datasets=100)
        >>> bool(found.interval()[0] > 0.5), bool(found.consistent)
        (True, True)
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
        """Meta-inference runs per output, M."""
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
        """Upper terms minus lower terms, per data set."""
        return self.upper_terms - self.lower_terms

    @property
    def value(self) -> float:
        """Upper bound on the symmetrised KL divergence from the posterior, on average over data."""
        return mean_of(self.terms).value

    @property
    def std_error(self) -> float:
        """Standard error of `value`, whose terms are independent between data sets."""
        return mean_of(self.terms).std_error

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval for the expectation of `value`; see `confidence_limit`.

        Law: with probability `level` it holds the mean of the terms, not counting some data sets of
        mass at most `unseen(level)`.
        """
        check_level(level)
        low, high = (confidence_limit((self.terms,), 0.5 + sign * level / 2) for sign in (-1, 1))
        return low, high

    def unseen(self, level: float = 0.95) -> float:
        """Largest share of data sets, draws and outputs that no run may have shown."""
        check_level(level)
        return unseen_share(self.num_datasets, level)

    def total_variation(self, level: float = 0.95) -> float:
        r"""Averaged over data, any probability differs from the posterior's by at most this much.

        Law: holds with probability `level`. $V + \varepsilon$ as for `Estimate.total_variation`:
        $E_y[TV(p_y, q_y)]$ is the total variation between the laws of $(x, y)$ and $(x', y)$, and
        `value` bounds their symmetrised KL divergence.
        """
        seen = total_variation_bound(self.interval(level)[1])
        return min(seen + self.unseen(level), 1.0)

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
        """Mean gap of two estimates of the log density, at the algorithm's own outputs.

        It bounds what meta-inference adds there; at the exact draws no meter exists.
        """
        own, num = self.pieces.own_log_xi, self.num_meta
        return mean_of(row_log_mean_exp(own[:, :num]) - row_log_mean_exp(own[:, 1:]))

    @cached_property
    def consistency(self) -> float | None:
        """P-value of the hypothesis that sampler, density and algorithm belong together.

        See `aide.auditing.simulated_runs`; `None` with too few data sets for a test.
        """
        return exchange_p_value(self.pieces)

    @property
    def consistent(self) -> bool:
        """Whether the test of `consistency` passes, at a false-alarm rate of 1e-4."""
        return self.consistency is None or self.consistency >= FALSE_ALARM

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats about these numbers."""
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
        elif self.num_datasets >= MIN_TERMS_FOR_TAIL and self.terms.std() > 1e-9:
            shape = pareto_shape(self.terms)
            if shape > HEAVY_TAIL:
                found.append(
                    f"The terms are heavy-tailed (Pareto k = {shape:.2f} > {HEAVY_TAIL}): a few "
                    "data sets dominate, and the standard error is too small."
                )
        return tuple(found)

    def rows(self) -> list[tuple[str, str]]:
        """Name and text of every line below the headline, notes apart."""
        found = []
        if self.log_evidence is not None:
            low, high = (with_error(*bound) for bound in self.log_evidence)
            found.append(("log evidence", f"{low} to {high}, on average over data sets"))
        if max(abs(self.looseness.value), self.looseness.std_error) > 1e-9:
            text = (
                f"Meta-inference adds {with_error(*self.looseness)} nats at the algorithm's own "
                "outputs."
            )
            found.append(("looseness", text))
        text = (
            "Averaged over simulated data sets, any probability differs from the exact posterior's "
            f"by at most {self.total_variation():.2g} (95%); real data may differ."
        )
        found.append(("reading", text))
        share = f"Data sets, draws or outputs rarer than {100 * self.unseen():.2g}% may be missing"
        return [*found, ("unseen", f"{share}; they could add any number of nats.")]

    @property
    def headline(self) -> str:
        """The bound, its interval and the number of data sets on one line."""
        low, high = self.interval()
        value = with_error(self.value, self.std_error)
        size = f"{self.num_datasets} data sets, M = {self.num_meta}"
        return (
            f"Divergence from the exact posterior: at most {value} nats on average over data "
            f"(95% interval {interval(low, high)}; {size})"
        )

    @property
    def subject(self) -> str:
        """The algorithm and the kind of data."""
        return f"{self.name} on simulated data"

    def numbers(self) -> dict[str, Any]:
        """The numbers, by name; limits at 95%."""
        return {
            "value": self.value,
            "std_error": self.std_error,
            "interval": self.interval(),
            "total_variation": self.total_variation(),
            "unseen": self.unseen(),
            "looseness": self.looseness,
            "log_evidence": self.log_evidence,
            "consistency": self.consistency,
            "num_datasets": self.num_datasets,
            "num_meta": self.num_meta,
        }

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot a histogram of the terms, one per data set."""
        finite = self.terms[np.isfinite(self.terms)]
        panels[0].hist(finite, bins=40 if np.ptp(finite) > 1e-9 else 1, color="#1f6fb4", alpha=0.5)
        panels[0].axvline(self.value if np.isfinite(self.value) else 0.0, color="black", lw=1)
        panels[0].set(xlabel="upper less lower bound on log p(y) (nats)", ylabel="data sets")


@keywords("aide.audit_simulated")
@one_call()
def audit_simulated(
    key: Key | int,
    sample_joint: Callable[[Key], tuple[Value, Value]],
    log_joint: Callable[[Value, Value], ArrayLike],
    algorithm_for: Callable[[Value], InferenceAlgorithm],
    *,
    num_datasets: int = 500,
    num_meta: int = 1,
    executor: Executor | Client | None = None,
) -> Simulated:
    r"""How far an algorithm is from the *exact* posterior, on data simulated from the model.

    For each data set, $(x, y) \sim p$ and $x' , \xi'$ from the algorithm for $y$:

    $$E\big[\log\tfrac{p(x, y)}{\hat\xi(x)} - \log\tfrac{p(x', y)}{\hat\xi(x')}\big]
      \ge E_y\big[KL(p(\cdot|y) \| q(\cdot; y)) + KL(q(\cdot; y) \| p(\cdot|y))\big],$$

    with equality for a tractable algorithm; $\hat\xi$ averages M traces, at $x'$ the algorithm's
    own trace among them. Results hold for real data as far as the simulated data resemble them.

    Args:
        key: A JAX key, or an integer seed.
        sample_joint: `sample_joint(key) -> (x, y)`: parameters from the prior, data given them.
        log_joint: `log_joint(x, y)`, the log density of `sample_joint`, up to a constant.
        algorithm_for: `algorithm_for(y)`: the algorithm for one data set. A function of `jax.numpy`
            is compiled once for all data sets; otherwise they are run one by one, which takes far
            longer, and the result says so.
        num_datasets: Number of data sets.
        num_meta: Meta-inference runs per output, M.
        executor: Runs data sets elsewhere; see `aide.draw`.

    Returns:
        The bound with its interval, and what is shown of the log evidence and of calibration.

    Example:
        >>> prior, noise = Normal(0.0, 1.0), 1.0
        >>> def sample_joint(key):
        ...     key_x, key_y = jax.random.split(key)
        ...     x = prior.sample(key_x)
        ...     return x, x + noise * jax.random.normal(key_y)
        ...
        >>> log_joint = lambda x, y: prior.log_prob(x) + Normal(x, noise).log_prob(y)
        >>> right = lambda y: aide.Tractable.of(Normal(0.5 * y, 0.5**0.5))
        >>> found = aide.audit_simulated(0, sample_joint, log_joint, right, num_datasets=100)
        >>> abs(found.value) < 1e-4
        True
    """
    check_size("num_datasets", num_datasets, 2)
    check_size("num_meta", num_meta)
    key = as_key(key)
    study = SimulatedStudy(sample_joint, log_joint, algorithm_for, int(num_meta))
    _, y = first_data_set(study, key)
    algorithm = in_double(algorithm_for, y)
    check_algorithm("algorithm_for(y)", algorithm)
    name, log_z = describe(algorithm), log_z_of(algorithm)
    with shared_out(executor):
        pieces, why_slow = run_study(study, key, int(num_datasets))
    _refuse_broken(pieces)
    return Simulated(pieces, log_z, name, why_slow)


def _refuse_broken(pieces: Pieces) -> None:
    own = pieces.own_log_xi[:, 0]
    checks = (
        (
            "log_joint",
            pieces.exact_log_joint,
            True,
            "at an exact draw: sample_joint can produce "
            "what log_joint calls impossible, so they describe different models",
        ),
        ("log_joint", pieces.own_log_joint, False, "at an output of the algorithm"),
        ("log_xi of regenerate", pieces.exact_log_xi, False, "at an exact draw"),
        ("log_xi of simulate", own, True, "at the algorithm's own output"),
        ("log_xi of regenerate", pieces.own_log_xi, False, "at the algorithm's own output"),
    )
    for name, values, is_finite, where in checks:
        wrong = np.isnan(values) | (values == np.inf)
        wrong = wrong | ((values == -np.inf) & is_finite)
        if wrong.any():
            first = tuple(np.argwhere(wrong)[0])
            raise ValueError(
                f"{name} is {values[first]} for {int(wrong.sum())} of {wrong.size} values, first "
                f"in data set {first[0]}, {where}. A log density may be -inf outside its support, "
                "never nan."
            )
