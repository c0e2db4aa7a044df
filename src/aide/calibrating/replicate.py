r"""Data replicated given the observation, for posterior simulation-based calibration.

Calibration over the prior asks whether the fit is right for data that the prior predicts, most of
which may look unlike the observed data $y$. Parameters drawn from the posterior of $y$ and data
replicated with them ask about data like $y$ (Säilynoja, Schmitt, Bürkner & Vehtari, 2025). If
$x \sim p(x \mid y)$ and $\tilde y \sim p(\tilde y \mid x)$, then $x$ is an exact draw of
$p(x \mid y, \tilde y)$, which the fit to both data sets must give.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from aide._core.algorithm import InferenceAlgorithm
from aide._core.keywords import keywords
from aide._core.types import Key, Value
from aide.algorithms.reference import ReferenceDraws


class Replicated(eqx.Module):
    """Parameters given the observed data, with the observed and replicated data together."""

    observed: Any
    draws: Any
    sample_data: Callable[[Key, Value], Any]
    combine: Callable[[Any, Any], Any]

    def __call__(self, key: Key) -> tuple[Value, Any]:
        """Draw parameters, replicate data, and return both data sets as one."""
        key_draw, key_data = jax.random.split(key)
        if callable(getattr(self.draws, "simulate", None)):
            x = self.draws.simulate(key_draw)[0]
        else:
            num = len(jax.tree.leaves(self.draws)[0])
            place = jax.random.randint(key_draw, (), 0, num)
            x = jax.tree.map(lambda leaf: jnp.asarray(leaf)[place], self.draws)
        return x, self.combine(self.observed, self.sample_data(key_data, x))


def concatenate(observed: Any, replicated: Any) -> Any:
    """Both data sets, one after the other along the first axis of every array."""
    join = lambda *pair: jnp.concatenate([jnp.atleast_1d(jnp.asarray(one)) for one in pair])
    return jax.tree.map(join, observed, replicated)


@keywords("aide.calibrating.replicate")
def replicate(
    observed: Value,
    draws: Value | InferenceAlgorithm,
    sample_data: Callable[[Key, Value], Any],
    *,
    combine: Callable[[Any, Any], Any] = concatenate,
) -> Callable[[Key], tuple[Value, Any]]:
    r"""The `sample_joint` of posterior calibration: data simulated given the observation.

    `aide.check_calibration` then fits the observed and the replicated data together. If the draws
    are from the fit that is checked, the ranks show whether the fit agrees with itself; if they
    are from a gold standard, the nats are those from the exact posterior.

    Args:
        observed: The observed data: an array, or a tree of arrays.
        draws: Draws of the posterior of `observed`: arrays with a leading axis (draw,),
            `aide.ReferenceDraws`, or an algorithm.
        sample_data: `sample_data(key, x)`: data given parameters, in the form of `observed`.
        combine: `combine(observed, replicated)`: both data sets as one; by default they are
            concatenated along the first axis. Measurements must be independent given x.

    Returns:
        A function of a key that returns parameters and both data sets.

    Example:
        >>> y = np.array([0.9, 1.1])
        >>> x = 0.67 + 0.58 * np.random.default_rng(0).normal(size=1000)  # draws of the posterior
        >>> noise = lambda key, x: x + jax.random.normal(key, (2,))
        >>> sample_joint = aide.calibrating.replicate(y, x, noise)
        >>> sample_joint(jax.random.key(0))[1].shape
        (4,)
    """
    if isinstance(draws, ReferenceDraws):
        leaves = draws.draws
        draws = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), leaves)
    return Replicated(observed, draws, sample_data, combine)
