r"""The paper's other yardsticks, from the same runs: evidence estimates and probe functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.types import LogDensity
from aide._core.validate import is_tracing_error
from aide.engine.draws import Draws, Side
from aide.estimation.summary import Estimate
from aide.estimation.terms import Mean, mean_of
from aide.reporting.figures import as_label, plot_limits
from aide.reporting.numbers import with_error
from aide.reporting.result import Result


@dataclass(frozen=True, repr=False)
class Contrast(Result):
    """A quantity under the gold standard and under the target, with standard errors.

    Attributes:
        quantity: What it is.
        gold: Its mean over the gold standard's outputs.
        target: Its mean over the target's.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit, keep_values=True)
        >>> found = aide.compare_probe(estimate, lambda x: x)
        >>> found.target.value > found.gold.value
        True
    """

    quantity: str
    gold: Mean
    target: Mean

    @property
    def difference(self) -> Mean:
        """Target minus gold."""
        error = float(np.hypot(self.gold.std_error, self.target.std_error))
        return Mean(self.target.value - self.gold.value, error)

    @property
    def headline(self) -> str:
        """The difference."""
        return f"{self.quantity}: target minus gold {with_error(*self.difference)}"

    def rows(self) -> list[tuple[str, str]]:
        """Both means."""
        return [("gold", with_error(*self.gold)), ("target", with_error(*self.target))]

    def numbers(self) -> dict[str, Any]:
        """Both means, and their difference."""
        return {"gold": self.gold, "target": self.target, "difference": self.difference}

    def plot_on(self, panels: np.ndarray) -> None:
        """Both means, with two standard errors each way."""
        means = (self.gold, self.target)
        ends = [(m.value - 2 * m.std_error, m.value + 2 * m.std_error) for m in means]
        plot_limits(panels[0], ["gold", "target"], ends, [mean.value for mean in means])
        panels[0].set_xlabel(as_label(self.quantity))


def compare_probe(result: Estimate | Draws, probe: Callable[[Any], Any]) -> Contrast:
    r"""$E[f(x)]$ under both algorithms' outputs.

    A probe sees one projection only: agreement proves nothing about the rest of the distribution.

    Args:
        result: Draws made with `keep_values=True`.
        probe: A scalar function of one output, written with `jax.numpy` or NumPy.

    Returns:
        The averages of both algorithms, their difference, and its limits.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit, keep_values=True)
        >>> found = aide.compare_probe(estimate, lambda x: x > 0.0)
    """
    draws = _with_values(result)
    gold, target = (
        mean_of(_apply(probe, side), draws.sequences(side.role)) for side in draws.sides
    )
    return Contrast("mean of the probe", gold, target)


def compare_log_evidence(result: Estimate | Draws, log_joint: LogDensity) -> Contrast:
    r"""Mean estimates of $\log p(y)$: $\log p(x, y) - \log\xi$ for the run's own trace.

    For SMC and AIS this is the log marginal likelihood estimate $\log\hat p(y)$ of the run (for an
    undirected model, of the log partition function), for variational fits the term of the ELBO;
    each is a lower bound in expectation. An estimate that misses a mode of mass m is off by only
    $-\log(1-m)$.

    Args:
        result: Draws made with `keep_values=True`.
        log_joint: $\log p(x, y)$ of one output.

    Returns:
        The averages of both algorithms, their difference, and its limits.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> gold, coarse = (aide.sir(prior, log_joint, num_particles=n) for n in (1000, 5))
        >>> sizes = {"num_gold": 100, "num_target": 100, "keep_values": True}
        >>> estimate = aide.estimate(0, gold, coarse, **sizes)
        >>> found = aide.compare_log_evidence(estimate, log_joint)
    """
    draws = _with_values(result)
    means = []
    for side in draws.sides:
        if side.log_z is None:
            raise ValueError(
                f"the {side.role.word} algorithm makes no evidence estimate: its log_z is unknown "
                "(its xi may be p(x, y) itself). Evidence estimates need log_z on both sides."
            )
        terms = _apply(log_joint, side) - (side.own[:, 0] - side.log_z)
        means.append(mean_of(terms, draws.sequences(side.role)))
    return Contrast("log evidence", *means)


def _with_values(result: Estimate | Draws) -> Draws:
    draws = result.draws if isinstance(result, Estimate) else result
    if any(side.values is None for side in draws.sides):
        raise ValueError("the outputs were not kept: draw or estimate with keep_values=True.")
    return draws


def _apply(function: Callable[[Any], Any], side: Side) -> np.ndarray:
    with jax.enable_x64(True):
        try:
            result = np.asarray(jax.vmap(lambda x: jnp.asarray(function(x), float))(side.values))
        except Exception as error:
            if not is_tracing_error(error):
                raise
            rows = range(side.num_runs)
            result = np.array(
                [function(jax.tree.map(lambda a, i=i: a[i], side.values)) for i in rows]
            )
    if result.shape != (side.num_runs,):
        raise ValueError(
            f"the function must return one number per output, got shape {result.shape[1:]}."
        )
    if np.isnan(result).any():
        raise ValueError(f"the function returned nan for {int(np.isnan(result).sum())} outputs.")
    return result.astype(np.float64)
