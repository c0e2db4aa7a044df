r"""Kernels that choose a point of an orbit by a doubling tree; NUTS is the one in use.

Draw noise $v \sim g(\cdot \mid x)$. A one-to-one map of Jacobian 1 makes $z_0 = (x, v)$ a point of
an orbit $z_i = \Phi^i(z_0)$ with weights $w_i = \gamma(x_i)\,g(v_i \mid x_i)$. Go to $z_b$ with the
chance $P(0 \to b)$ of a doubling tree (`aide.kernels.doubling`), which satisfies detailed balance.

Going back from $y$ with the noise $v$ that belongs to it, the state before is $x_b$ for some $b$ of
the orbit of $(y, v)$, and the step that was made has the density

$$k(y, v, b \mid x_b) = g(v_b \mid x_b)\,P(b \to 0)
  = \gamma(y)\,g(v \mid y)\,P(0 \to b)/\gamma(x_b).$$

All $b$ are at hand, so that the record of a step is its noise alone, and $b$ is weighed.
"""

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from aide._core.numerics import as_log
from aide._core.random import derive_keys
from aide._core.search import draw_index
from aide._core.types import Key, LogDensity, LogProb, Parameter, Value
from aide.kernels.doubling import Trees, log_chances, trees_around
from aide.kernels.kernel import AbstractInvariantKernel
from aide.kernels.retrace import Recorded, Retraced


class Point(NamedTuple):
    r"""A point of an orbit.

    Attributes:
        value: $x$.
        noise: $v$.
        log_density: $\log\gamma(x)$.
        momentum: The vector that trees turn by.
        slope: Whatever the next step needs.
        diverging: Whether the step that led here went wrong before the density was asked.
    """

    value: Value
    noise: Value
    log_density: LogProb
    momentum: Float[Array, " d"]
    slope: Any
    diverging: Bool[Array, ""]


class Orbit(NamedTuple):
    r"""The points $-(2^J - 1), \dots, 2^J - 1$ that trees of depth $J$ reach, and their chances.

    Attributes:
        value: $x_i$; that of the last point that was reached, beyond it.
        noise: $v_i$, likewise.
        log_density: $\log\gamma(x_i)$, likewise.
        log_chance: $\log P(0 \to i)$.
        broken: Points where the log density is NaN.
        levels: The trees of depths 0 to $J$.
    """

    value: Value
    noise: Value
    log_density: Float[Array, " n"]
    log_chance: Float[Array, " n"]
    broken: Bool[Array, " n"]
    levels: list[Trees]


class _Reached(NamedTuple):
    """Points of one or both sides as they go into an orbit."""

    point: Point
    log_weight: Array
    broken: Array
    stopped: Array


class AbstractOrbitKernel(AbstractInvariantKernel):
    """A kernel given by noise, a map and a criterion for its trees."""

    num_branches: ClassVar[int] = 1
    weighs_origins: ClassVar[bool] = True

    max_depth: eqx.AbstractVar[int]
    criterion: eqx.AbstractVar[str]
    divergence: eqx.AbstractVar[Parameter]

    @abstractmethod
    def noise(self, key: Key, x: Value) -> Value:
        r"""Sample $v \sim g(\cdot \mid x)$."""

    @abstractmethod
    def log_noise(self, x: Value, v: Value) -> LogProb:
        r"""$\log g(v \mid x)$, normalised."""

    @abstractmethod
    def begin(self, log_density: LogDensity, x: Value, v: Value) -> Point:
        """The first point."""

    @abstractmethod
    def advance(self, log_density: LogDensity, point: Point, sign: Array) -> Point:
        r"""$\Phi(z)$ for the sign 1, $\Phi^{-1}(z)$ for -1."""

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        r"""Draw $v$, grow the orbit, draw one of its points.

        As in Metropolis kernels, a point where `log_density` is NaN is entered and never left.
        """
        return self.record(key, log_density, x).value

    def record(self, key: Key, log_density: LogDensity, x: Value) -> Recorded:
        """Make a step; the record is the noise at its end."""
        key_noise, key_point = derive_keys(key, 2)
        orbit = self.orbit(log_density, x, self.noise(key_noise, x))
        chosen = draw_index(key_point, jnp.exp(orbit.log_chance))
        chosen = jnp.where(jnp.any(orbit.broken), jnp.argmax(orbit.broken), chosen)
        value, noise = jax.tree.map(lambda a: a[chosen], (orbit.value, orbit.noise))
        return Recorded(value, noise, jnp.zeros((), jnp.int32))

    def reverse_noise(self, key: Key, log_density: LogDensity, y: Value) -> Value:
        r"""Draw $v \sim g(\cdot \mid y)$: by detailed balance the step back is a step."""
        return self.noise(key, y)

    def retrace(
        self, log_density: LogDensity, y: Value, log_density_y: LogProb, noise: Value
    ) -> Retraced:
        """Undo a step for every point of the orbit that it may have come from."""
        orbit = self.orbit(log_density, y, noise)
        log_own = as_log(self.log_noise(y, noise)) + orbit.log_chance
        log_own = jnp.where(jnp.any(orbit.broken), jnp.nan, log_own)
        log_forward = as_log(log_density_y) + log_own - orbit.log_density
        # Where the density is 0 nothing moves: the step back is to stay.
        still = jnp.arange(log_own.size) == log_own.size // 2
        log_forward = jnp.where(still | (log_own == -jnp.inf), log_own, log_forward)
        log_forward = jnp.where(jnp.isnan(log_density_y), jnp.nan, log_forward)
        return Retraced(orbit.value, orbit.log_density, log_forward, log_own)

    def reversal(self) -> "AbstractOrbitKernel":
        """The kernel itself: detailed balance holds."""
        return self

    def orbit(self, log_density: LogDensity, x: Value, v: Value) -> Orbit:
        """All points that a step from here can go to, with their chances.

        Both sides grow level by level, as far as some tree may still be doubled.
        """
        first = self._reached(self.begin(log_density, x, v), jnp.asarray(False), None)
        both = jax.tree.map(lambda a: jnp.stack([a, a]), first)
        points = jax.tree.map(lambda a: a[None], first)
        levels = [self._trees(points, 0)]
        for depth in range(1, self.max_depth + 1):
            both, points, trees = self._double(log_density, first, both, points, levels[-1], depth)
            levels.append(trees)
        chances = log_chances(levels, points.log_weight)
        place = points.point
        return Orbit(place.value, place.noise, place.log_density, chances, points.broken, levels)

    def _double(
        self,
        log_density: LogDensity,
        first: _Reached,
        both: _Reached,
        points: _Reached,
        trees: Trees,
        depth: int,
    ) -> tuple[_Reached, _Reached, Trees]:
        """Grow both sides by $2^{depth - 1}$ points, if a tree may be doubled."""
        num = 2 ** (depth - 1)
        signs = jnp.asarray([-1.0, 1.0])

        def advance(both: _Reached, _: None) -> tuple[_Reached, _Reached]:
            moved = jax.vmap(lambda at, sign: self._next(log_density, first, at, sign))(both, signs)
            return moved, moved

        def grow(state: tuple[Any, ...]) -> tuple[Any, ...]:
            both, sides = jax.lax.scan(advance, state[1], None, num)
            around = _join(sides, points)
            return jnp.asarray(False), both, around, self._trees(around, depth)

        # A loop that runs once or not at all: a batch skips it where no member needs it.
        idle = jax.tree.map(lambda a: jnp.broadcast_to(a, (num, *a.shape)), both)
        around = _join(idle, points)._replace(
            log_weight=jnp.pad(points.log_weight, num, constant_values=-jnp.inf),
            broken=jnp.pad(points.broken, num),
        )
        none = Trees.none(depth, points.log_weight.dtype)
        state = (trees.grow(), both, around, none)
        return jax.lax.while_loop(lambda state: state[0], grow, state)[1:]

    def _next(
        self, log_density: LogDensity, first: _Reached, at: _Reached, sign: Array
    ) -> _Reached:
        ahead = self.advance(log_density, at.point, sign)
        found = self._reached(ahead, at.stopped, first)
        keep = lambda old, new: jnp.where(found.stopped & ~found.broken, old, new)
        return found._replace(point=jax.tree.map(keep, at.point, ahead))

    def _reached(self, point: Point, stopped: Array, first: "_Reached | None") -> _Reached:
        """A point with its weight; beyond one that diverged or broke nothing is reached."""
        weight = as_log(point.log_density) + as_log(self.log_noise(point.value, point.noise))
        known = _all_finite((point.value, point.noise)) & ~point.diverging
        broken = jnp.isnan(point.log_density) & known & ~stopped
        good = known & jnp.isfinite(weight) & ~stopped
        if first is None:
            return _Reached(point, weight, jnp.asarray(False), ~good)
        good = good & (jnp.abs(weight - first.log_weight) <= self.divergence)
        return _Reached(point, jnp.where(good, weight, -jnp.inf), broken, ~good)

    def _trees(self, points: _Reached, depth: int) -> Trees:
        momentum = jnp.where((points.log_weight == -jnp.inf)[:, None], 0.0, points.point.momentum)
        return trees_around(points.log_weight, momentum, depth, self.criterion, self.divergence)


def _join(sides: Any, points: Any) -> Any:
    """Points in order: the left side outwards in reverse, those before, the right side."""

    def join(side: Array, middle: Array) -> Array:
        return jnp.concatenate([side[::-1, 0], middle, side[:, 1]])

    return jax.tree.map(join, sides, points)


def _all_finite(tree: Value) -> Array:
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))
