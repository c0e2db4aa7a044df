r"""A rough $\log\hat Z$ from the last states of pilot chains.

It only balances the kernel's component against the Gaussians: any value leaves the bound valid.
"""

from collections.abc import Callable

import jax
import numpy as np

from aide._core.flat_states import FlatLayout
from aide._core.numerics import as_log
from aide._core.types import LogDensity, Value

TRIMMED = 0.02
"""The pilots with the lowest log densities, which may be stuck, do not count."""
ENOUGH = 100.0
"""Effective draws with which importance sampling is trusted."""


def estimate_log_z(
    seed: int,
    last: np.ndarray,
    log_density: np.ndarray,
    evaluate: Callable[[np.ndarray], np.ndarray],
) -> float:
    r"""Importance sampling from a t distribution fitted to `last`; if that fails, a bridge.

    The bridge of Meng & Wong (1996) between the fitted distribution and the pilots' last states
    needs less overlap, but takes the pilots for draws from $\gamma$.

    Args:
        seed: For the draws.
        last: Last states of the pilots, [n, d].
        log_density: Their log densities.
        evaluate: The log density of many states.
    """
    from scipy import stats

    keep = log_density >= np.quantile(log_density, TRIMMED, method="lower")
    keep &= np.isfinite(log_density)
    if keep.sum() < 2:
        raise ValueError(
            f"log_density is -inf at the end of {np.sum(~np.isfinite(log_density))} of "
            f"{len(log_density)} pilot chains: the chains do not reach the posterior. Give them "
            "more steps or another start."
        )
    states, log_gamma = last[keep], log_density[keep]
    spread = np.cov(states.T).reshape((states.shape[1],) * 2)
    spread = spread + np.diag(1e-8 * np.diag(spread) + 1e-300)
    fitted = stats.multivariate_t(states.mean(axis=0), spread, df=10, allow_singular=True)
    draws = np.reshape(fitted.rvs(len(last), random_state=seed), last.shape)
    log_ratio = evaluate(draws) - fitted.logpdf(draws)
    peak = log_ratio.max()
    weights = np.exp(log_ratio - peak)
    if weights.sum() ** 2 > ENOUGH * (weights**2).sum():
        return float(peak + np.log(weights.mean()))
    return _bridge(log_ratio, log_gamma - fitted.logpdf(states))


def _bridge(at_draws: np.ndarray, at_states: np.ndarray) -> float:
    r"""The $\log Z$ at which a logistic classifier with these log ratios is calibrated."""
    from scipy import optimize

    balance = np.log(len(at_states) / len(at_draws))

    def excess(log_z: float) -> float:
        wrong = np.logaddexp.reduce(-np.logaddexp(0.0, -(at_draws - log_z + balance)))
        missed = np.logaddexp.reduce(-np.logaddexp(0.0, at_states - log_z + balance))
        return float(wrong - missed)

    finite = np.concatenate([at_draws[np.isfinite(at_draws)], at_states])
    found = optimize.root_scalar(excess, bracket=(finite.min() - 50.0, finite.max() + 50.0))
    return float(found.root)


def evaluate_log_density(log_density: LogDensity, example: Value, states: np.ndarray) -> np.ndarray:
    """The log density of many flat states; NaN is an error."""
    with jax.enable_x64(True):
        layout = FlatLayout(example)
        evaluate = lambda x: as_log(log_density(layout.unravel(x)))
        values = np.asarray(jax.jit(jax.vmap(evaluate))(states))
    if np.isnan(values).any():
        worst = states[np.isnan(values)][0]
        raise ValueError(
            f"log_density is NaN at {worst}. It must be a number, or -inf where there is no mass."
        )
    return values
