"""Which kernel suits a space: HMC, a random walk, Gibbs sweeps, or the caller's own."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.distribution import Distribution, sample_from
from aide._core.types import Key, LogDensity
from aide.gold_standards.pilots.tuners import GivenKernel, HmcTuner, Tuner, WalkTuner
from aide.kernels.gibbs import GibbsSites
from aide.kernels.kernel import AnyKernel, as_invariant
from aide.running.map_runs import in_double

MOST_DENSE = 300
"""Dimensions up to which the metric is a matrix."""
NUM_LOOKED_AT = 1000
"""Draws of the start from which the values of integers are read off."""


def choose_tuner(
    key: Key, log_joint: LogDensity, start: Distribution, kernel: AnyKernel | None
) -> Tuner:
    """HMC where there is a gradient, else a random walk; Gibbs sweeps on one array of integers."""
    if kernel is not None:
        return GivenKernel(as_invariant(kernel), 2.0, "your kernel")
    state = shape_of(key, start)
    leaves, num = jax.tree.leaves(state), dimension_of(state)
    if all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
        dense = num <= MOST_DENSE
        return HmcTuner(dense) if has_gradient(log_joint, state) else WalkTuner(dense, num)
    if len(leaves) != 1 or not jnp.issubdtype(leaves[0].dtype, jnp.integer):
        raise TypeError(
            "aide.gold_standard chooses kernels for real-valued states and for one array of "
            "integers; this start draws both. Pass kernel=, for example aide.kernels.Cycle("
            "aide.kernels.OnEntry('z', aide.kernels.GibbsSites(...)), "
            "aide.kernels.OnEntry('x', aide.kernels.RandomWalk(0.5)))."
        )
    num_values = _num_values(start)
    # An update counts as one evaluation per value, that of the state included.
    sweep = GibbsSites(np.arange(num), num_values)
    return GivenKernel(sweep, float(num * num_values), f"Gibbs sweeps over {num} sites")


def shape_of(key: Key, start: Distribution) -> Any:
    """Shapes and dtypes of a draw of the start."""
    return in_double(jax.eval_shape, lambda k: sample_from(start, k), key)


def dimension_of(state: Any) -> int:
    """Numbers in a state."""
    return sum(int(np.prod(np.shape(leaf))) for leaf in jax.tree.leaves(state))


def has_gradient(log_joint: LogDensity, state: Any) -> bool:
    """Whether JAX can differentiate it; code that it calls back into it cannot.

    An error of the log joint itself is raised: only its derivative may fail.
    """
    log_density = lambda x: jnp.asarray(log_joint(x), float)
    in_double(jax.eval_shape, log_density, state)
    try:
        in_double(jax.eval_shape, jax.grad(log_density), state)
    except (ValueError, NotImplementedError):
        return False
    return True


def _num_values(start: Distribution) -> int:
    """One more than the largest value seen; with a key of its own, so that `load` sees the same."""
    keys = jax.random.split(jax.random.key(0), NUM_LOOKED_AT)
    draws = in_double(jax.vmap(lambda k: sample_from(start, k)), keys)
    values = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(draws)])
    if values.min() < 0:
        raise ValueError(
            f"integers of the start must be 0, 1, 2, …, got {values.min()}: shift them, or pass "
            "kernel=."
        )
    return max(int(values.max()) + 1, 2)
