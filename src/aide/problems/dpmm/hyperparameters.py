r"""Prior of the hyperparameters, and Metropolis–Hastings updates that propose from it.

$\alpha, r, \nu, s \sim \mathrm{Gamma}(1, 1)$, which is Exp(1), and $m \sim N(0, 1)$. A proposal
from the prior is accepted with the ratio of likelihoods: of the partition for $\alpha$, of the data
for $m, r, \nu, s$. Each update is reversible.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from aide._core.random import derive, normal_quantile, standard_uniform
from aide._core.types import Key, Value
from aide.problems.dpmm.assignment import State
from aide.problems.dpmm.clusters import Row, row_of
from aide.problems.dpmm.likelihood import (
    Hyper,
    Parts,
    log,
    log_gamma,
    log_likelihood,
    sum_scale,
    sum_shape,
)

NAMES = ("alpha", "m", "r", "nu", "s")
"""The five hyperparameters, in the order of `Hyper`."""
NUM_BLOCKS = 5
r"""Number of updates of the clusters' prior: 1 is $(m, r, \nu, s)$ jointly, 2 to 5 each alone."""
NU_ALONE = 4
r"""Number of the update of $\nu$ alone, the only one that leaves three of the four sums alone."""
NUM_UNIFORMS = 1 + (1 + NUM_BLOCKS) + 1 + 4 + 4
"""Uniform random numbers of one step: Gibbs, decisions to accept, alpha, joint and single draws."""


class Noise(NamedTuple):
    r"""All random numbers of one Gibbs step and the updates after it.

    Attributes:
        gibbs: A uniform number.
        accept: Uniforms, one per update: of $\alpha$, then of the blocks.
        alpha: A draw from the prior.
        single: One of $m, r, \nu, s$, used member by member.
        joint: Another one, used as a whole.
    """

    gibbs: Row
    accept: Float[Array, "updates lanes"]
    alpha: Row
    single: Float[Array, "4 lanes"]
    joint: Float[Array, "4 lanes"]


def draw_noise(keys: Key, step: Array, dtype: Any) -> Noise:
    """Everything from one array of uniforms."""
    draw = lambda key: standard_uniform(derive(key, step), (NUM_UNIFORMS,), dtype)
    uniform = jax.vmap(draw, out_axes=1)(keys)
    # standard_uniform includes 0 but not 1; half a step to the right makes the grid symmetric.
    inside = uniform + 0.5 * jnp.finfo(dtype).eps
    normal = normal_quantile(inside[7:9])
    exponential = -log(inside[9:])
    single = jnp.concatenate([normal[:1], exponential[1:4]])
    joint = jnp.concatenate([normal[1:], exponential[4:]])
    return Noise(inside[0], inside[1:7], exponential[0], single, joint)


def update_alpha(
    noise: Noise, hyper: Hyper, number: Row, num_data: Array | int, frozen: Array
) -> Hyper:
    r"""Propose $\alpha$; $p(z \mid \alpha) \propto \alpha^K\,\Gamma(\alpha)/\Gamma(\alpha+n)$."""

    def log_partition(alpha: Row) -> Row:
        return number * log(alpha) + log_gamma(alpha) - log_gamma(alpha + num_data)

    log_ratio = log_partition(noise.alpha) - log_partition(hyper.alpha)
    accept = (noise.accept[0] < jnp.exp(log_ratio)) & ~frozen
    return hyper._replace(alpha=jnp.where(accept, noise.alpha, hyper.alpha))


def update_cluster_prior(noise: Noise, state: State, reverse: bool, frozen: Array) -> Hyper:
    r"""Propose $(m, r, \nu, s)$ jointly, then each alone; in reverse order if `reverse`.

    Round 0 proposes nothing and sums the current likelihood. A sum that a proposal leaves alone is
    not run: its loop ends at slot 0.
    """

    def update(round_: Array, carry: tuple[Hyper, Parts, Row]) -> tuple[Hyper, Parts, Row]:
        hyper, parts, current = carry
        first = round_ == 0
        block = jnp.where(first, 0, NUM_BLOCKS + 1 - round_) if reverse else round_
        drawn = jnp.where(block == 1, noise.joint, noise.single)
        proposed = (block == 1) | (members == block - 2)
        new = hyper._replace(cluster=jnp.where(proposed, drawn, hyper.cluster))
        only_nu = block == NU_ALONE
        nu_changes = (block <= 1) | only_nu
        scale, scale_by_size, centre = sum_scale(new, clusters, jnp.where(only_nu, 0, top))
        shape = sum_shape(new, clusters, jnp.where(nu_changes, top, 0))
        new_parts = Parts(
            jnp.where(only_nu, parts.scale, scale),
            jnp.where(only_nu, parts.scale_by_size, scale_by_size),
            jnp.where(only_nu, parts.centre, centre),
            jnp.where(nu_changes, shape, parts.shape),
        )
        there = log_likelihood(new, new_parts, number)
        accept = first | (row_of(noise.accept, block) < jnp.exp(there - current))
        keep = lambda a, b: jnp.where(accept, a, b)
        return jax.tree.map(keep, (new, new_parts, there), (hyper, parts, current))

    clusters, number, top = state.clusters, state.number, state.top
    members = jnp.arange(4, dtype=jnp.int32)[:, None]
    zero = jnp.zeros_like(number)
    start = (state.hyper, Parts(zero, zero, zero, zero), zero)
    num_rounds = jnp.where(frozen, 0, NUM_BLOCKS + 1)
    return jax.lax.fori_loop(0, num_rounds, update, start)[0]


def sample_prior(key: Key) -> Hyper:
    """One draw from the prior."""
    uniform = standard_uniform(key, (5,), float)
    inside = uniform + 0.5 * jnp.finfo(uniform.dtype).eps
    exponential = -jnp.log(inside)
    return Hyper(exponential[0], exponential[1:].at[0].set(normal_quantile(inside[1])))


def log_prior(hyper: Hyper) -> Float[Array, ""]:
    r"""Log density with respect to Lebesgue measure; $-\infty$ unless $\alpha, r, \nu, s > 0$."""
    positive = jnp.stack([hyper.alpha, hyper.r, hyper.nu, hyper.s])
    total = -jnp.sum(positive) - 0.5 * hyper.m**2 - 0.5 * math.log(2 * math.pi)
    return jnp.where(jnp.any(positive <= 0), -jnp.inf, total)


def from_value(value: Value) -> Hyper:
    """The hyperparameters of a value."""
    alpha, *cluster = (jnp.asarray(value[name], float) for name in NAMES)
    return Hyper(alpha, jnp.stack(cluster))


def to_value(hyper: Hyper) -> dict[str, Array]:
    """Undo `from_value`."""
    return dict(zip(NAMES, (hyper.alpha, *hyper.cluster), strict=True))
