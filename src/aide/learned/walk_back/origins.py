r"""Which state a step came from, given its noise: a branch that is guessed, or origins weighed."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from aide.kernels.retrace import NO_RECORD
from aide.learned.models.joint import Proposed, Scores, States, log_sum_exp, redirect

ScoreBefore = Callable[[States, Array], tuple[Scores, Array, Array]]
r"""States and their log density to the scores of the model of the step before, $\log\hat q_{t-1}$,
and the log density that held there."""


class Undone(NamedTuple):
    """What a kernel's `retrace` returns for all particles (`aide.kernels.retrace.Retraced`)."""

    states: Float[Array, "B d P"]
    log_density: Float[Array, "B P"]
    log_forward: Float[Array, "B P"]
    log_own: Float[Array, "B P"]


class Chosen(NamedTuple):
    r"""Where every particle goes.

    Attributes:
        states: $x$.
        log_density: $\log\gamma(x)$.
        branch: The branch that models see.
        possible: Which branches they may propose.
        log_own: $\log g(v, b \mid y)$, summed over origins where these are weighed.
        log_forward: $\log k(y, v, b \mid x)$; 0 where origins are weighed.
        log_reach: $\log\sum_n \hat q_{t-1}(x_n)\,k(y, v, n \mid x_n)$ where they are.
    """

    states: States
    log_density: Float[Array, " P"]
    branch: Int[Array, " P"]
    possible: Bool[Array, "B P"]
    log_own: Float[Array, " P"]
    log_forward: Float[Array, " P"]
    log_reach: Float[Array, " P"] | None


def guess_branch(
    uniform: Float[Array, " P"],
    guess: Proposed,
    undone: Undone,
    keep: Callable[[Array], Array],
) -> Chosen:
    r"""The branch that was proposed, or the kernel's own: $P(b) \propto g(v, b \mid y)$.

    `keep` puts the branch of the true run in its place.
    """
    possible = undone.log_forward != -jnp.inf
    branch = redirect(guess.branch, possible)
    branch = keep(jnp.where(guess.own, _draw(uniform, undone.log_own), branch))
    x, density, log_forward, log_own = _take(undone, branch)
    log_forward = jnp.where(branch == NO_RECORD, jnp.nan, log_forward)
    return Chosen(x, density, branch, possible, log_own, log_forward, None)


def weigh_origins(uniform: Float[Array, " P"], undone: Undone, score_before: ScoreBefore) -> Chosen:
    r"""An origin with chance $\propto \hat q_{t-1}(x_n)\,k(y, v, n \mid x_n)$."""
    num, size, num_particles = undone.states.shape
    flat = jnp.swapaxes(undone.states, 0, 1).reshape(size, num * num_particles)
    _, log_before, _ = score_before(flat, undone.log_density.ravel())
    log_terms = log_before.reshape(num, num_particles) + undone.log_forward
    log_terms = jnp.where(undone.log_forward == -jnp.inf, -jnp.inf, log_terms)
    x, density, _, _ = _take(undone, _draw(uniform, log_terms))
    branch = jnp.zeros(num_particles, jnp.int32)
    possible, log_own = jnp.ones((1, num_particles), bool), log_sum_exp(undone.log_own)
    return Chosen(
        x, density, branch, possible, log_own, jnp.zeros(num_particles), log_sum_exp(log_terms)
    )


def _take(undone: Undone, index: Int[Array, " P"]) -> tuple[Array, ...]:
    """For every particle, the row of its index; zeros where there is none such."""
    taken = jnp.arange(undone.log_own.shape[0])[:, None] == index
    x = jnp.sum(jnp.where(taken[:, None], undone.states, 0.0), axis=0)
    return x, *(jnp.sum(jnp.where(taken, part, 0.0), axis=0) for part in undone[1:])


def _draw(uniform: Float[Array, " P"], log_terms: Float[Array, "B P"]) -> Int[Array, " P"]:
    """Draw a row for every particle, in proportion to the terms."""
    num = log_terms.shape[0]
    if num == 1:
        return jnp.zeros(uniform.shape, jnp.int32)
    chances = jnp.exp(log_terms - jnp.max(log_terms, axis=0))
    ends = jnp.cumsum(chances, axis=0)
    index = jnp.sum(ends <= uniform * ends[-1], axis=0).astype(jnp.int32)
    return jnp.minimum(index, num - 1)
