r"""SMC backwards in time over the records of a Markov chain.

All particles start at the output $x_T = x$. A step back proposes $(v, b) \sim J_t(\cdot \mid x_t)$,
undoes the kernel's step and weighs the particle by

$$W_t = \frac{\hat q_{t-1}(x_{t-1})\,k(x_t, v, b \mid x_{t-1})}{J_t(x_t, v, b)},$$

$\hat q_0$ being the start density itself. A kernel that weighs origins (`aide.kernels.retrace`) has
$v$ proposed, one origin drawn in proportion to $\hat q_{t-1}(x_n)\,k(x_t, v, n \mid x_n)$, and the
sum of these over $n$ as the numerator of $W_t$.

$\hat q_T(x)\prod_t \frac1P\sum_i W_t^i$ is an unbiased estimate of the output density $q(x)$
(Del Moral 2004), whatever the models $J_t$ are. Where $J_t$ is the kernel in equilibrium alone,
detailed balance makes $W_t = 1$.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from aide._core.numerics import computed_once, log_mean_exp, log_ratio
from aide._core.random import derive_keys, normal_quantile, random_index, standard_uniform, zero_of
from aide._core.types import Key
from aide.learned.models.joint import Scores, States
from aide.learned.records.transitions import StepRecord
from aide.learned.walk_back.origins import ScoreBefore, Undone, guess_branch, weigh_origins
from aide.smc.policy import AbstractResampler
from aide.smc.resampling import NOBODY


class ReverseParticles(NamedTuple):
    r"""Particles at one time of the walk back.

    `scores` are those of the model for the step that led here. The estimate so far is
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
        r"""The log of the estimate: that of $q(x)$ at the end of the walk."""
        return self.log_evidence + log_mean_exp(self.log_weights)


def begin(
    key: Key, x: Float[Array, " d"], log_density: Any, model: Any, num: int, is_own: Bool[Array, ""]
) -> ReverseParticles:
    r"""All particles at $x$, with $\hat q_T(x)$ paid in; a true trace takes a random slot."""
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
    r"""Resample, propose records, undo the step, weigh. Also returns ancestors.

    `score_before` is as in `aide.learned.walk_back.origins`. The retained particle, if there is
    one, follows the true run by its `record`.
    """
    key_resample, key_block, key_own = derive_keys(key, 3)
    particles, ancestors = _resample(key_resample, resampler, particles)
    y, here, scores = particles.states, particles.log_density, particles.scores
    # One block of random numbers for everything: small draws cost more, to compile and to run.
    shape = (2 + kernel.noise_size, here.shape[0])
    block = computed_once(standard_uniform(key_block, shape, y.dtype))
    white = normal_quantile(block[2:] + 0.5 * jnp.finfo(block.dtype).eps)
    seen = jnp.concatenate([y, kernel.slope(y)]) if model.tilts and model.sees_slope else y
    guess = model.propose(block[0], white, scores, seen)
    if model.tilts:
        centre = kernel.centre(y)
        noise = centre + guess.noise
    else:
        centre = jnp.zeros((), y.dtype)
        noise = jnp.where(guess.own, kernel.reverse_noise(key_own, white, y), guess.noise)
    noise = _place(noise, particles.retained, record.noise)
    undone = Undone(*kernel.retrace(y, here, noise))
    several = undone.log_own.shape[0] > 1
    if several and (kernel.weighs_origins or model.tilts):
        chosen = weigh_origins(block[1], undone, score_before)
    else:
        keep = lambda branch: _place(branch, particles.retained, record.branch)
        chosen = guess_branch(block[1], guess, undone, keep)
    x = _place(chosen.states, particles.retained, record.before)
    density = _place(chosen.log_density, particles.retained, record.log_density)
    law = (chosen.branch, chosen.possible, chosen.log_own)
    log_joint = model.log_joint(scores, seen, noise - centre, *law)
    scores, log_before, density = score_before(x, density)
    log_reach = chosen.log_reach
    if log_reach is None:
        log_reach = log_before + chosen.log_forward
    # A record of density 0 under the chain has weight 0, even where its proposal underflowed too.
    log_w = log_ratio(log_reach, log_joint)
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
        # Taken together: one gather compiles faster than three.
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
    """Overwrite one slot of the last axis, if any; a select fuses where a scatter would not."""
    here = jnp.arange(stack.shape[-1]) == slot
    return jnp.where(here, value[..., None].astype(stack.dtype), stack)
