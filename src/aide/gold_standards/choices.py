"""The kernel that suits a space: HMC, a random walk, Gibbs sweeps, or the caller's own."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from aide._core.algorithm import describe
from aide._core.distribution import Distribution, SampleFrom, sample_from
from aide._core.types import Key, LogDensity
from aide.algorithms.tractable import Tractable
from aide.engine.programs.map_runs import in_double
from aide.gold_standards.pilots.tuners import GivenKernel, HmcTuner, Tuner, WalkTuner
from aide.kernels.gibbs import GibbsSites
from aide.kernels.kernel import AnyKernel, as_invariant

MOST_DENSE = 300
"""Largest dimension in which the metric is a full matrix instead of a diagonal: a choice."""
STEP_COST = 2.0
"""Evaluations of the log density that a step of the caller's kernel counts as: those of a step of
Metropolis, a choice."""
NUM_CHECKED_DRAWS = 1000
"""Draws of the start that are checked against the stated values of integers: a choice."""


def choose_tuner(
    key: Key,
    log_joint: LogDensity,
    start: Distribution,
    kernel: AnyKernel | None,
    num_values: Any = None,
) -> Tuner:
    """HMC where there is a gradient, else a random walk; Gibbs sweeps on one array of integers.

    `num_values`: the number of values of each integer, where the start has no bounded support.
    """
    if kernel is not None:
        if num_values is not None:
            raise TypeError("num_values= is for the Gibbs sweeps that kernel= replaces: pass one.")
        return GivenKernel(as_invariant(kernel), STEP_COST, "your kernel")
    state = shape_of(key, start)
    leaves, num = jax.tree.leaves(state), dimension_of(state)
    if all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
        if num_values is not None:
            raise TypeError("num_values= is for a start that draws integers; this one draws reals.")
        dense = num <= MOST_DENSE
        return HmcTuner(dense) if has_gradient(log_joint, state) else WalkTuner(dense, num)
    if len(leaves) != 1 or not jnp.issubdtype(leaves[0].dtype, jnp.integer):
        raise TypeError(
            "aide.gold_standard chooses kernels for real-valued states and for one array of "
            "integers; this start draws both. Pass kernel=, for example aide.kernels.Cycle("
            "aide.kernels.OnEntry('z', aide.kernels.GibbsSites(...)), "
            "aide.kernels.OnEntry('x', aide.kernels.RandomWalk(0.5)))."
        )
    counts = values_of_sites(start, leaves[0].shape, num_values)
    most = max(int(counts.max()), 2)
    # Updating a site counts as one evaluation per value of the site, the present value included.
    sweep = GibbsSites(np.arange(num), most if np.all(counts == most) else tuple(counts.tolist()))
    least = int(counts.min())
    values = f"{least} values" if least == most else f"{least} to {most} values"
    return GivenKernel(sweep, float(num * most), f"Gibbs sweeps over {num} sites of {values}")


def shape_of(key: Key, start: Distribution) -> Any:
    """Shapes and dtypes of one draw of the start."""
    return in_double(jax.eval_shape, lambda k: sample_from(start, k), key)


def dimension_of(state: Any) -> int:
    """The number of scalars in a state."""
    return sum(int(np.prod(np.shape(leaf))) for leaf in jax.tree.leaves(state))


def has_gradient(log_joint: LogDensity, state: Any) -> bool:
    """Whether JAX can differentiate the log joint, which it cannot through a Python callback.

    An error of the log joint itself is raised: only an error of its derivative means `False`.
    """
    log_density = lambda x: jnp.asarray(log_joint(x), float)
    in_double(jax.eval_shape, log_density, state)
    try:
        in_double(jax.eval_shape, jax.grad(log_density), state)
    except (ValueError, NotImplementedError):
        return False
    return True


def values_of_sites(
    start: Distribution, shape: tuple[int, ...], num_values: Any
) -> Int[np.ndarray, " num_sites"]:
    """The number of values 0, 1, 2, … of every site: as stated, or from the support of the start.

    Draws cannot show the number, since a value that no draw has may be probable under the
    posterior: draws are only checked against the stated numbers.
    """
    stated = _stated_values(start) if num_values is None else num_values
    if stated is None:
        raise ValueError(
            "aide.gold_standard must know how many values 0, 1, 2, … each integer takes, and the "
            f"start states no bounded support. Pass num_values=, one number or an array of shape "
            f"{shape}; for integers without a largest value, a number so large that values "
            "beyond have next to no probability. Or pass kernel=."
        )
    counts = np.asarray(stated)
    if not np.issubdtype(counts.dtype, np.integer) or np.any(counts < 1):
        raise ValueError(f"num_values must be integers of at least 1, got {stated}.")
    try:
        counts = np.broadcast_to(counts, shape).ravel()
    except ValueError:
        raise ValueError(
            f"num_values must be one number or an array of the state's shape {shape}, got shape "
            f"{counts.shape}."
        ) from None
    _check_draws(start, counts)
    return counts


def _check_draws(start: Distribution, counts: np.ndarray) -> None:
    keys = jax.random.split(jax.random.key(0), NUM_CHECKED_DRAWS)
    draws = in_double(jax.vmap(lambda k: sample_from(start, k)), keys)
    draws = np.reshape(np.asarray(jax.tree.leaves(draws)[0]), (NUM_CHECKED_DRAWS, -1))
    if draws.min() < 0:
        raise ValueError(
            f"integers of the start must be 0, 1, 2, …, got {draws.min()}: shift them, or pass "
            "kernel=."
        )
    outside = np.argwhere(draws >= counts)
    if len(outside):
        row, site = outside[0]
        raise ValueError(
            f"the start draws {draws[row, site]} at site {site} (flat index), whose number of "
            f"values is stated as {counts[site]}, so that the largest is {counts[site] - 1}. Pass "
            "a larger num_values=."
        )


def _stated_values(start: Any) -> Any:
    """What a distribution states: its `num_values`, or a support 0 … b as in NumPyro."""
    if isinstance(start, Tractable) and isinstance(start.sample, SampleFrom):
        start = start.sample.distribution
    stated = getattr(start, "num_values", None)
    if stated is not None:
        return stated
    support = _base(getattr(start, "support", None))
    if type(support).__name__ in ("Boolean", "_Boolean"):
        return 2
    low, high = (getattr(support, f"{end}_bound", None) for end in ("lower", "upper"))
    if low is None or high is None or np.any(np.asarray(low) < 0):
        return None
    return np.asarray(high).astype(int) + 1


def _base(support: Any) -> Any:
    """A NumPyro constraint without the wrappers that make it a constraint on arrays."""
    inner = getattr(support, "base_constraint", None)
    return support if inner is None else _base(inner)


def check_kind(key: Key, start: Any) -> None:
    """Raise if a discrete distribution draws floats, as NumPyro's geometric distribution does."""
    discrete = getattr(_base(getattr(start, "support", None)), "is_discrete", False)
    leaves = jax.tree.leaves(shape_of(key, start)) if discrete else []
    if any(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
        raise TypeError(
            f"the support of {describe(start)} is discrete, but its draws are floating-point "
            "numbers: wrap it as aide.Tractable(lambda key: start.sample(key).astype(int), "
            "start.log_prob)."
        )
