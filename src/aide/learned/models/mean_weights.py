r"""The mean weight of a population, given the weight of the particle that survives.

SMC outputs the path $x_{0:T}$ with density $\Gamma(x_{0:T})\,E[\prod_t 1/\bar w_t]$, where
$\bar w_t$ is the mean weight of a population around the path. Under the law of runs that output the
path, $E[\bar w_t] = 1/E[1/\bar w_t]$ for each step, so $m_t(w) = E[\bar w_t \mid w_t = w]$, learned
from pilots, replaces the other particles. Alone ($P = 1$), $m = w$; among many particles $m$ does
not depend on $w$.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide.learned.models.joint import Stored

EDGES = (0.0, 0.01, 0.03, 0.08, 0.2, 0.4, 0.6, 0.8, 0.92, 0.97, 0.99, 1.0)
"""Quantiles of the pilots' weights between which they are binned, finer in both tails: a choice."""
NUM_OUTER = 3
"""Number of outer bins at each end that fit the slope of the extrapolation: a choice."""


class MeanWeights(eqx.Module):
    r"""$\log m_t$ as a piecewise linear function of $\log w_t$.

    One function, or several stacked along a leading axis.

    Attributes:
        log_own: Knots, values of $\log w_t$.
        log_mean: Values of $\log m_t$ at the knots.
        slopes: Slopes below and above all knots.
    """

    log_own: Stored
    log_mean: Stored
    slopes: Stored

    def __call__(self, log_w: Array) -> Array:
        r"""$\log m(w)$."""
        knots, values = jnp.asarray(self.log_own), jnp.asarray(self.log_mean)
        slopes = jnp.asarray(self.slopes)
        inside = jnp.clip(log_w, knots[0], knots[-1])
        beyond = jnp.where(log_w == inside, 0.0, log_w - inside)
        slope = jnp.where(beyond < 0.0, slopes[0], slopes[1])
        beyond = jnp.where(slope == 0.0, 0.0, beyond)  # 0 times infinity is 0 here
        return interpolate(inside, knots, values) + slope * beyond

    @staticmethod
    def none() -> "MeanWeights":
        """An empty stack, for a run without weights."""
        return MeanWeights(*[np.zeros((0, 0))] * 3)

    @staticmethod
    def learn(log_own: np.ndarray, log_mean: np.ndarray) -> "MeanWeights":
        """Learn from weights of the surviving path and of its population, [n, T + 1] of pilots."""
        fits = [_regress(*columns) for columns in zip(log_own.T, log_mean.T, strict=True)]
        return MeanWeights(*(np.stack(parts) for parts in zip(*fits, strict=True)))


def interpolate(x: Array, knots: Array, values: Array) -> Array:
    """The numbers of `jnp.interp`, in a fifth of its program.

    The result is the first value plus all rises up to `x`. With few knots, a sum over all of them
    costs less than a search and a gather.
    """
    width, ahead = knots[1:] - knots[:-1], x[..., None] - knots[:-1]
    flat = width <= jnp.spacing(jnp.finfo(width.dtype).eps)
    share = jnp.where(flat, ahead >= 0.0, jnp.clip(ahead / jnp.where(flat, 1.0, width), 0.0, 1.0))
    return values[0] + jnp.sum(share * (values[1:] - values[:-1]), axis=-1)


def _regress(log_own: np.ndarray, log_mean: np.ndarray) -> tuple[np.ndarray, ...]:
    """Means within bins, and slopes between 0 and 1 at the ends."""
    order = np.argsort(log_own, kind="stable")
    cuts = np.round(np.array(EDGES) * len(order)).astype(int)
    bins = [order[a:b] for a, b in zip(cuts, cuts[1:], strict=False) if b > a]
    knots = np.array([log_own[chosen].mean() for chosen in bins])
    knots = knots + 1e-9 * np.arange(len(bins))
    means = np.array([np.logaddexp.reduce(log_mean[c]) - np.log(len(c)) for c in bins])
    ends = (slice(NUM_OUTER), slice(-NUM_OUTER, None))
    slopes = [_slope(knots[end], means[end]) for end in ends]
    return knots, means, np.clip(slopes, 0.0, 1.0)


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    """The slope of the least-squares line; 0 where all x are equal."""
    apart = x - x.mean()
    square = float(apart @ apart)
    return float(apart @ y) / square if square > 0.0 else 0.0
