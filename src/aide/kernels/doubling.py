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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from aide._core.types import Parameter

Vectors = Float[Array, "n d"]


class TreeRules(NamedTuple):
    """How trees grow.

    Attributes:
        max_depth: Largest number of doublings.
        criterion: One of `CRITERIA`.
        limit: Largest difference of log weights within an admissible tree, in nats.
    """

    max_depth: int
    criterion: str
    limit: Parameter


class Criterion(NamedTuple):
    r"""When a tree turns back: $v\cdot\rho \le 0$ at one of its ends, $\rho$ the sum of momenta.

    Attributes:
        ends: Weight in $\rho$ of the momenta at the first and at the last point.
        extra: Whether each half with the nearest point of the other half is tested as well.
    """

    ends: float
    extra: bool

    def turns(self, first: Vectors, last: Vectors, total: Vectors) -> Bool[Array, " n"]:
        """Whether trees turn as a whole, from momenta at their ends and the sum of all."""
        total = total - (1.0 - self.ends) * (first + last) if self.ends < 1.0 else total
        dots = [jnp.sum(end * total, axis=-1) for end in (first, last)]
        return (dots[0] <= 0.0) | (dots[1] <= 0.0)


CRITERIA = {"stan": Criterion(1.0, True), "numpyro": Criterion(0.5, False)}
"""When a tree turns back: `stan` in Stan and PyMC, `numpyro` in NumPyro and BlackJAX."""


class Trees(NamedTuple):
    r"""Trees of depths 0 to $J$, by the point of an orbit where they begin.

    Attributes:
        admissible: Whether the tree is admissible, as defined at the top of this file.
        turning: Whether the tree itself turns back.
        log_left: Log weight of the left half; for a single point the weight of the point.
        log_right: Log weight of the right half.
    """

    admissible: Bool[Array, "J n"]
    turning: Bool[Array, "J n"]
    log_left: Float[Array, "J n"]
    log_right: Float[Array, "J n"]


def trees_of(log_weight: Float[Array, " n"], momentum: Vectors, rules: TreeRules) -> Trees:
    r"""All trees in an orbit.

    A point that was not reached has the log weight $-\infty$ and no momentum: no tree with it is
    admissible.
    """
    num, criterion = log_weight.shape[0], CRITERIA[rules.criterion]
    admissible, turning = jnp.isfinite(log_weight), jnp.zeros(num, bool)
    levels = [Trees(admissible, turning, log_weight, log_weight)]
    total, weight, low, high = momentum, log_weight, log_weight, log_weight
    for depth in range(1, rules.max_depth + 1):
        half, count = 2 ** (depth - 1), num - 2**depth + 1
        at = lambda array, place, count=count: array[place : place + count]
        parts = lambda array, half=half, at=at: (at(array, 0), at(array, half))
        able = parts(admissible & ~turning)
        low, high = jnp.minimum(*parts(low)), jnp.maximum(*parts(high))
        admissible = able[0] & able[1] & (high - low <= rules.limit)
        places = (0, half - 1, half, 2 * half - 1)
        first, before, after, last = (at(momentum, place) for place in places)
        left, right = parts(total)
        total = left + right
        turning = criterion.turns(first, last, total)
        if criterion.extra and half > 1:
            turning = turning | criterion.turns(first, after, left + after)
            turning = turning | criterion.turns(before, last, right + before)
        halves = parts(weight)
        weight = jnp.logaddexp(*halves)
        padded = lambda array, fill, count=count: jnp.pad(
            array, (0, num - count), constant_values=fill
        )
        level = (padded(admissible, False), padded(turning, False))
        levels.append(Trees(*level, *(padded(part, -jnp.inf) for part in halves)))
    return jax.tree.map(lambda *rows: jnp.stack(rows), *levels)


def may_grow(
    log_weight: Float[Array, " n"], momentum: Vectors, depth: Int[Array, ""], rules: TreeRules
) -> Bool[Array, ""]:
    """Whether a tree of this depth around point 0 may have to be doubled.

    The test uses only whole trees and their ends: `True` may be wrong, `False` never is.
    """
    num = log_weight.shape[0] // 2 + 1  # places where a tree that holds point 0 may begin
    size = jnp.left_shift(1, depth)
    sums = jnp.concatenate([jnp.zeros_like(momentum[:1]), jnp.cumsum(momentum, axis=0)])
    at = lambda array, place: jax.lax.dynamic_slice_in_dim(array, place, num)
    ends = (momentum[:num], at(momentum, size - 1))
    turning = CRITERIA[rules.criterion].turns(*ends, at(sums, size) - sums[:num])
    reached = jnp.isfinite(log_weight[:num]) & jnp.isfinite(at(log_weight, size - 1))
    return jnp.any(reached & ~turning & (jnp.arange(num) >= num - size))


def log_chances(trees: Trees, log_weight: Float[Array, " n"]) -> Float[Array, " n"]:
    r"""$\log P(0 \to b)$ for $b = -(2^J - 1), \dots, 2^J - 1$, from the trees of depths 0 to $J$.

    A point without a finite weight stays where it is. The recursion for $G$ runs from the largest
    trees down; arrays are indexed by the place where a tree begins.
    """
    num, depth = log_weight.shape[0], trees.admissible.shape[0] - 1
    place, reached = jnp.arange(num) - num // 2, jnp.isfinite(log_weight)
    middle = _middle(log_weight, reached)
    max_exponent = 0.9 * math.log(float(jnp.finfo(log_weight.dtype).max))

    def halve(carry: tuple[Array, Array], inputs: Any) -> tuple[tuple[Array, Array], None]:
        goal, sums = carry
        level, larger, smaller = inputs
        half = jnp.left_shift(1, level - 1)
        heavier = jnp.maximum(larger.log_left, larger.log_right)
        share = goal * jnp.exp(jnp.clip(middle - heavier, -max_exponent, max_exponent))
        # Trees that begin in the first block have 0 in their left half, and b is on the right.
        first, second = (place > -half) & (place <= 0), (place > -2 * half) & (place <= -half)
        on_right = _at_intervals(jnp.where(first, share, 0.0), place <= half, half, 2 * half - 1)
        on_left = _at_intervals(jnp.where(second, share, 0.0), place <= -half, 0, half - 1)
        ratio = larger.log_right - larger.log_left
        stay = (-jnp.expm1(jnp.minimum(r, 0.0)) for r in (ratio, -ratio))
        stay_left, stay_right = (jnp.where(goal > 0.0, s * goal, 0.0) for s in stay)
        failing = jnp.where(larger.admissible, 0.0, 1.0)
        last = 0.5**level * (failing + _shifted(failing, -half, 1.0))
        goal = last + stay_left + _shifted(stay_right, -half, 0.0)
        goal = jnp.where(smaller.admissible & first, goal, 0.0)
        return (goal, sums + on_right + on_left), None

    around = (place <= 0) & trees.admissible[-1]
    goal = jnp.where(around, 0.5**depth, 0.0).astype(log_weight.dtype)
    upper, lower = (
        jax.tree.map(lambda rows, part=part: rows[part][::-1], trees)
        for part in (slice(1, None), slice(-1))
    )
    levels = (jnp.arange(depth, 0, -1), upper, lower)
    (goal, sums), _ = jax.lax.scan(halve, (goal, jnp.zeros_like(goal)), levels)
    chances = jnp.where(sums > 0.0, jnp.log(sums) + log_weight - middle, -jnp.inf)
    stays = jnp.where(reached[num // 2], jnp.log(goal[num // 2]), 0.0)
    return jnp.where(place == 0, stays, chances)


def _middle(log_weight: Float[Array, " n"], reached: Bool[Array, " n"]) -> Float[Array, ""]:
    """The middle of all log weights: relative to it neither weights nor their inverses overflow."""
    low = jnp.min(jnp.where(reached, log_weight, jnp.inf))
    high = jnp.max(jnp.where(reached, log_weight, -jnp.inf))
    return jnp.where(jnp.any(reached), 0.5 * (low + high), 0.0)


def _at_intervals(
    share: Float[Array, " n"], early: Bool[Array, " n"], near: Array | int, far: Array
) -> Float[Array, " n"]:
    """At each b, the sum of the shares from b - far to b - near.

    Nonzero shares fill one block, which is as long as the interval. Up to the end of the block
    (`early`) the interval covers a prefix of the block, later a suffix: no difference of two large
    sums is taken.
    """
    prefix, suffix = jnp.cumsum(share), jnp.cumsum(share[::-1])[::-1]
    return jnp.where(early, _shifted(prefix, -near, 0.0), _shifted(suffix, -far, 0.0))


def _shifted(array: Float[Array, " n"], places: Array | int, fill: float) -> Float[Array, " n"]:
    """`array[i + places]` at every i, for places from -n to 0, and `fill` outside."""
    wide = jnp.concatenate([jnp.full_like(array, fill), array])
    return jax.lax.dynamic_slice_in_dim(wide, array.size + places, array.size)
