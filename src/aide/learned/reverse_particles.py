r"""SMC backwards in time over the records of a Markov chain.

All particles start at the output $x_T = x$. A step back proposes $(v, b) \sim J_t(\cdot \mid x_t)$,
undoes the kernel's step and weighs the particle by

$$W_t = \frac{\hat q_{t-1}(x_{t-1})\,k(x_t, v, b \mid x_{t-1})}{J_t(x_t, v, b)},$$

$\hat q_0$ being the start density itself. The state before a step is found in one of two ways: a
branch is guessed; or, for a kernel that weighs origins (`aide.kernels.retrace`), only $v$ is
proposed, one origin is drawn in proportion to $\hat q_{t-1}(x_n)\,k(x_t, v, n \mid x_n)$, and the
sum of these over $n$ is the numerator of $W_t$.

$\hat q_T(x)\prod_t \frac1P\sum_i W_t^i$ is an unbiased estimate of the output density $q(x)$
(Del Moral 2004), whatever the models $J_t$ are. Where $J_t$ is the kernel in equilibrium alone,
detailed balance makes $W_t = 1$.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from aide._core.numerics import computed_once, log_mean_exp, log_ratio
from aide._core.random import derive_keys, normal_quantile, random_index, standard_uniform, zero_of
from aide._core.types import Key
from aide.kernels.retrace import NO_RECORD
from aide.learned.models.joint import Proposed, Scores, States, log_sum_exp, redirect
from aide.learned.records.transitions import StepRecord
from aide.smc.policy import AbstractResampler
from aide.smc.resampling import NOBODY

ScoreBefore = Callable[[States, Array], tuple[Scores, Array, Array]]
r"""Maps states and their log density to scores of the step before.

These are the terms of its model, $\log\hat q_{t-1}$, and the log density of that step.
"""


FARTHEST = 1e100
"""Largest absolute value of a coordinate: the square of a larger one nearly overflows."""


class Undone(NamedTuple):
    """What a kernel's `retrace` returns for all particles (`aide.kernels.retrace.Retraced`)."""

    states: Float[Array, "B d P"]
    log_density: Float[Array, "B P"]
    log_forward: Float[Array, "B P"]
    log_own: Float[Array, "B P"]


class Chosen(NamedTuple):
    r"""The step back that every particle takes.

    Attributes:
        states: $x$.
        log_density: $\log\gamma(x)$.
        branch: The branch that models are given.
        possible: Branches that models may propose.
        log_own: $\log g(v, b \mid y)$, summed over origins if these are weighed.
        log_forward: $\log k(y, v, b \mid x)$; 0 if origins are weighed.
        log_reach: $\log\sum_n \hat q_{t-1}(x_n)\,k(y, v, n \mid x_n)$ if origins are weighed.
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
    r"""Take the proposed branch, or the kernel's own: $P(b) \propto g(v, b \mid y)$.

    `keep` replaces the branch of the retained particle by that of the true run.
    """
    possible = undone.log_forward != -jnp.inf
    branch = redirect(guess.branch, possible)
    branch = keep(jnp.where(guess.own, _draw(uniform, undone.log_own), branch))
    x, density, log_forward, log_own = _take(undone, branch)
    log_forward = jnp.where(branch == NO_RECORD, jnp.nan, log_forward)
    return Chosen(x, density, branch, possible, log_own, log_forward, None)


def weigh_origins(uniform: Float[Array, " P"], undone: Undone, score_before: ScoreBefore) -> Chosen:
    r"""Draw an origin with chance $\propto \hat q_{t-1}(x_n)\,k(y, v, n \mid x_n)$."""
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
    """For every particle, the row of its index; zeros where no row has that index."""
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


class ReverseParticles(NamedTuple):
    r"""Particles at one time of the walk back.

    `scores` are those of the model of the step that led to the states. The estimate so far is
    `exp(log_evidence)` times the mean of `exp(log_weights)`. `retained` is the slot of the true
    trace, `NOBODY` in a free run.
    """

    states: States
    log_density: Float[Array, " P"]
    scores: Scores
    log_weights: Float[Array, " P"]
    log_evidence: Float[Array, ""]
    retained: Int[Array, ""]

    def log_estimate(self) -> Float[Array, ""]:
        r"""The log of the estimate; at the end of the walk, of the estimate of $q(x)$."""
        return self.log_evidence + log_mean_exp(self.log_weights)


def begin(
    key: Key, x: Float[Array, " d"], log_density: Any, model: Any, num: int, is_own: Bool[Array, ""]
) -> ReverseParticles:
    r"""Put all particles at $x$, with evidence $\hat q_T(x)$; a true trace takes a random slot."""
    states = jnp.broadcast_to(x[:, None], (x.size, num))
    density = jnp.broadcast_to(log_density, (num,))
    scores, log_q = model.score(states, density)
    slot = jnp.where(is_own, random_index(key, num), NOBODY)
    weights = jnp.broadcast_to(zero_of(key), (num,))
    return ReverseParticles(states, density, scores, weights, log_q[0], slot)


def step_back(
    key: Key,
    kernel: Any,
    model: Any,
    score_before: ScoreBefore,
    resampler: AbstractResampler,
    particles: ReverseParticles,
    record: StepRecord,
) -> tuple[ReverseParticles, Int[Array, " P"] | None]:
    r"""Resample, propose records, undo the step, weigh; also return the ancestors.

    The retained particle, if any, follows the true run by its `record`.
    """
    key_resample, key_block, key_own = derive_keys(key, 3)
    particles, ancestors = _resample(key_resample, resampler, particles)
    y, density_here, scores = particles.states, particles.log_density, particles.scores
    # One block of random numbers for all uses: small draws cost more, to compile and to run.
    shape = (2 + kernel.noise_size, density_here.shape[0])
    block = computed_once(standard_uniform(key_block, shape, y.dtype))
    white = normal_quantile(block[2:] + 0.5 * jnp.finfo(block.dtype).eps)
    inputs = jnp.concatenate([y, kernel.gradient(y)]) if model.tilts and model.uses_gradient else y
    guess = model.propose(block[0], white, scores, inputs)
    if model.tilts:
        centre = kernel.centre(y)
        noise = centre + guess.noise
    else:
        centre = jnp.zeros((), y.dtype)
        noise = jnp.where(guess.own, kernel.reverse_noise(key_own, white, y), guess.noise)
    noise = _place(noise, particles.retained, record.noise)
    undone = Undone(*kernel.retrace(y, density_here, noise))
    several = undone.log_own.shape[0] > 1
    if several and (kernel.weighs_origins or model.tilts):
        chosen = weigh_origins(block[1], undone, score_before)
    else:
        keep = lambda branch: _place(branch, particles.retained, record.branch)
        chosen = guess_branch(block[1], guess, undone, keep)
    # No run forward has an overflowed state: such a guess has weight 0, and the state stays.
    overflowed = ~jnp.all(jnp.abs(chosen.states) < FARTHEST, axis=0)
    x = _place(jnp.where(overflowed, y, chosen.states), particles.retained, record.before)
    overflowed = _place(overflowed, particles.retained, jnp.asarray(False))
    density = _place(chosen.log_density, particles.retained, record.log_density)
    branch = (chosen.branch, chosen.possible, chosen.log_own)
    log_joint = model.log_joint(scores, inputs, noise - centre, *branch)
    scores, log_before, density = score_before(x, density)
    log_reach = chosen.log_reach
    if log_reach is None:
        log_reach = log_before + chosen.log_forward
    # A record of density 0 under the chain has weight 0, even if its proposal underflows too.
    log_w = jnp.where(overflowed, -jnp.inf, log_ratio(log_reach, log_joint))
    log_weights = particles.log_weights + log_w
    evidence, retained = particles.log_evidence, particles.retained
    return ReverseParticles(x, density, scores, log_weights, evidence, retained), ancestors


def _resample(
    key: Key, resampler: AbstractResampler, particles: ReverseParticles
) -> tuple[ReverseParticles, Int[Array, " P"] | None]:
    done = resampler.around(key, particles.log_weights, particles.retained)
    assert done.retained is not None
    states, density, scores = particles[:3]
    if done.ancestors is not None:
        # One gather of joined arrays compiles faster than three.
        together = jnp.concatenate([states, density[None], scores])
        together = together.at[:, done.ancestors].get(mode="promise_in_bounds")
        size = states.shape[0]
        states, density, scores = together[:size], together[size], together[size + 1 :]
    log_evidence = particles.log_evidence + done.log_evidence
    resampled = ReverseParticles(
        states, density, scores, done.log_weights, log_evidence, done.retained
    )
    return resampled, done.ancestors


def _place(stack: Array, slot: Any, value: Array) -> Array:
    """Overwrite one slot of the last axis, if any, by a select, which XLA fuses."""
    here = jnp.arange(stack.shape[-1]) == slot
    return jnp.where(here, value[..., None].astype(stack.dtype), stack)
