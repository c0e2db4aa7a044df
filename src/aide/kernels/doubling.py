r"""The law of a doubling tree: where NUTS goes from one point of an orbit.

Points $z_i$, $i \in Z$, of an orbit have weights $w_i$; the step starts at $z_0$. A *tree* of depth
$J$ is an interval of $2^J$ points, made of two trees of depth $J - 1$, its halves. It is
*admissible* if no tree within it, itself excepted, turns back, and its log weights differ by at
most a limit. From a tree that does not turn, of depth below the largest, NUTS doubles to the left
or to the right with chance 1/2 each, and stops where the doubled tree is not admissible. With every
doubling, from $A$ to $A \cup B$, the state so far is replaced, with probability
$\min\{1, w(B)/w(A)\}$, by a point of $B$ drawn with chances $w_i/w(B)$ (biased progressive
sampling).

Hence a tree $T$ of depth $J$ that has 0 in it is reached with chance $2^{-J}$ if it is admissible,
and then is the last one with chance $\varphi(T)$: the share of its two doublings that are not
admissible, 1 at the largest depth. Summed over directions and trees, the chance to go from 0 to
$b \ne 0$ is

$$P(0 \to b) = w_b \sum_T \frac{G(T)}{\max\{w(A), w(B)\}}, \qquad
  G(T) = 1\{T \text{ admissible}\}\Bigl[2^{-J}\varphi(T) +
    \sum_{T' = T \cup S} \Bigl(1 - \min\bigl\{1, \tfrac{w(S)}{w(T)}\bigr\}\Bigr)\,G(T')\Bigr],$$

over trees $T = A \cup B$ with 0 in one half and $b$ in the other, and $P(0 \to 0) = G(\{0\})$.
Neither $G$ nor the maximum depends on which point of $T$ was the first:
$w_0\,P(0 \to b) = w_b\,P(b \to 0)$, so NUTS satisfies detailed balance.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Vectors = Float[Array, "n d"]


class Halves(NamedTuple):
    """Trees of one depth: momenta at the ends of both halves, and their sums within the halves."""

    first: Vectors
    before_middle: Vectors
    after_middle: Vectors
    last: Vectors
    left_sum: Vectors
    right_sum: Vectors


def turns_with_extra_checks(halves: Halves) -> Bool[Array, " n"]:
    r"""Stan's and PyMC's criterion: with $\rho$ the sum of momenta, $v\cdot\rho \le 0$ at an end.

    Of the tree, and of each half together with the nearest point of the other.
    """
    first, before, after, last, left, right = halves
    parts = ((first, last, left + right), (first, after, left + after))
    parts += ((before, last, right + before),)
    return jnp.any(jnp.stack([_turns(*part) for part in parts]), axis=0)


def turns_by_trapezoid(halves: Halves) -> Bool[Array, " n"]:
    r"""NumPyro's and BlackJAX's criterion: the ends count half in $\rho$, with no other checks."""
    first, _, _, last, left, right = halves
    return _turns(first, last, left + right - 0.5 * (first + last))


def _turns(first: Vectors, last: Vectors, total: Vectors) -> Bool[Array, " n"]:
    dots = [jnp.sum(end * total, axis=-1) for end in (first, last)]
    return (dots[0] <= 0.0) | (dots[1] <= 0.0)


CRITERIA: dict[str, Callable[[Halves], Bool[Array, " n"]]] = {
    "stan": turns_with_extra_checks,
    "numpyro": turns_by_trapezoid,
}


class Trees(NamedTuple):
    r"""All trees of one depth $J$ that have 0 in them, from the leftmost to the rightmost.

    Attributes:
        admissible: See above.
        turning: Whether the tree itself turns back.
        log_left: Log weight of the left half, $-\infty$ for a single point.
        log_right: Log weight of the right half.
    """

    admissible: Bool[Array, " n"]
    turning: Bool[Array, " n"]
    log_left: Float[Array, " n"]
    log_right: Float[Array, " n"]

    def grow(self) -> Bool[Array, ""]:
        """Whether one of them may be doubled."""
        return jnp.any(self.admissible & ~self.turning)

    @staticmethod
    def none(depth: int, dtype: jnp.dtype) -> "Trees":
        """No tree of this depth is admissible."""
        no, nothing = jnp.zeros(2**depth, bool), jnp.full(2**depth, -jnp.inf, dtype)
        return Trees(no, no, nothing, nothing)


def trees_around(
    log_weight: Float[Array, " m"],
    momentum: Float[Array, "m d"],
    depth: int,
    criterion: str,
    limit: Float[Array, ""] | float,
) -> Trees:
    r"""The trees of one depth, from the points $-(2^J - 1), \dots, 2^J - 1$.

    A point that was not reached has the log weight $-\infty$: no tree with it is admissible.
    """
    num = log_weight.shape[0]
    admissible, turning = jnp.isfinite(log_weight), jnp.zeros(num, bool)
    log_left = log_right = jnp.full(num, -jnp.inf, log_weight.dtype)
    total, weight, low, high = momentum, log_weight, log_weight, log_weight
    for level in range(1, depth + 1):
        half, count = 2 ** (level - 1), num - 2**level + 1
        at = lambda array, offset, count=count: array[offset : offset + count]
        parts = lambda array, half=half, at=at: (at(array, 0), at(array, half))
        left, right = parts(admissible & ~turning)
        low, high = jnp.minimum(*parts(low)), jnp.maximum(*parts(high))
        admissible = left & right & (high - low <= limit)
        ends = (at(momentum, place) for place in (0, half - 1, half, 2 * half - 1))
        sums = parts(total)
        turning = CRITERIA[criterion](Halves(*ends, *sums))
        total = sums[0] + sums[1]
        log_left, log_right = parts(weight)
        weight = jnp.logaddexp(log_left, log_right)
    return Trees(admissible, turning, log_left, log_right)


def log_chances(levels: list[Trees], log_weight: Float[Array, " m"]) -> Float[Array, " m"]:
    r"""$\log P(0 \to b)$ for $b = -(2^J - 1), \dots, 2^J - 1$, from the trees of depths 0 to $J$.

    From a point without a finite weight it goes nowhere.
    """
    depth, centre = len(levels) - 1, log_weight.shape[0] // 2
    chances = jnp.full_like(log_weight, -jnp.inf)
    goal = jnp.where(levels[-1].admissible, -depth * math.log(2.0), -jnp.inf)
    for level in range(depth, 0, -1):
        trees, half = levels[level], 2 ** (level - 1)
        heavier = jnp.maximum(trees.log_left, trees.log_right)
        share = jnp.where(goal == -jnp.inf, -jnp.inf, goal - heavier)
        # In the first half of the trees 0 is in the right half of the tree, and b in the left one.
        spread = (_over_intervals(share[:half]), jnp.full(1, -jnp.inf, share.dtype))
        moved = jnp.concatenate([*spread, _over_intervals(share[half:])])
        reach = slice(centre - 2 * half + 1, centre + 2 * half)
        chances = chances.at[reach].set(jnp.logaddexp(chances[reach], moved))
        sibling = (
            (trees.log_left - trees.log_right)[:half],
            (trees.log_right - trees.log_left)[half:],
        )
        stay = (jnp.log(-jnp.expm1(jnp.minimum(ratio, 0.0))) for ratio in sibling)
        later = [_product(*pair) for pair in zip(stay, (goal[:half], goal[half:]), strict=True)]
        failing = ~trees.admissible
        last = 0.5 * failing[:half] + 0.5 * failing[half:]
        here = jnp.log(last) - (level - 1) * math.log(2.0)
        goal = jnp.logaddexp(here, jnp.logaddexp(*later))
        goal = jnp.where(levels[level - 1].admissible, goal, -jnp.inf)
    chances = jnp.where(jnp.isfinite(chances), chances + log_weight, -jnp.inf)
    return chances.at[centre].set(jnp.where(levels[0].admissible[0], goal[0], 0.0))


def _product(log_stay: Array, log_goal: Array) -> Array:
    """Their sum; a tree that is not admissible has weights that need not be numbers."""
    return jnp.where(log_goal == -jnp.inf, -jnp.inf, log_stay + log_goal)


def _over_intervals(share: Float[Array, " n"]) -> Float[Array, " k"]:
    """Trees one place apart reach intervals of n points one place apart: sums at all 2n - 1."""
    rising = jax.lax.cumlogsumexp(share)
    return jnp.concatenate([rising, jax.lax.cumlogsumexp(share, reverse=True)[1:]])
