r"""The no-U-turn sampler, and kernels that choose a point of an orbit by a doubling tree.

Draw noise $v \sim g(\cdot \mid x)$. A one-to-one map of Jacobian 1 makes $z_0 = (x, v)$ a point of
an orbit $z_i = \Phi^i(z_0)$ with weights $w_i = \gamma(x_i)\,g(v_i \mid x_i)$. Go to $z_b$ with the
chance $P(0 \to b)$ of a doubling tree (`aide.kernels.doubling`), which satisfies detailed balance.
In NUTS the noise is the momentum, and the map is a leapfrog step of fixed size.

Going back from $y$ with the noise $v$ at $y$, the state before is $x_b$ for some $b$ of the orbit
of $(y, v)$, and the step from $x_b$ has the density

$$k(y, v, b \mid x_b) = g(v_b \mid x_b)\,P(b \to 0)
  = \gamma(y)\,g(v \mid y)\,P(0 \to b)/\gamma(x_b).$$

All $b$ can be enumerated. So the record of a step is its noise alone, and $b$ is drawn by weight.
"""

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from aide._core.jax_compat import custom_vmap
from aide._core.numerics import all_finite, as_log, as_parameter, ravel_reals
from aide._core.random import derive_keys, draw_index
from aide._core.types import Key, LogDensity, LogProb, Parameter, Value
from aide._core.validate import check_positive, check_size
from aide.kernels.coordinates import Metric, as_metric
from aide.kernels.doubling import CRITERIA, TreeRules, Trees, log_chances, may_grow, trees_of
from aide.kernels.hamiltonian import DIVERGED, leap, value_and_slope_of
from aide.kernels.metropolis import AbstractNoiseKernel, NormalNoise
from aide.kernels.retrace import Recorded, Retraced


class OrbitPoint(NamedTuple):
    r"""A point of an orbit.

    Attributes:
        value: $x$.
        noise: $v$.
        log_density: $\log\gamma(x)$.
        slope: The gradient that the next step needs.
        diverging: Whether a NaN log density at this point counts as a divergence, not as an error.
            Nothing else may depend on this flag, since the side from which the point is reached
            may change it.
    """

    value: Value
    noise: Value
    log_density: LogProb
    slope: Any
    diverging: Bool[Array, ""]


class Orbit(NamedTuple):
    r"""The points $-(2^J - 1), \dots, 2^J - 1$ that trees of depth $J$ reach, and their chances.

    Attributes:
        value: $x_i$; where a point was not reached, the value of point 0.
        noise: $v_i$; where a point was not reached, the noise of point 0.
        log_density: $\log\gamma(x_i)$; where a point was not reached, that of point 0.
        log_chance: $\log P(0 \to i)$.
        broken: Points where the log density is NaN.
        trees: The trees of depths 0 to $J$, by the place where they begin.
    """

    value: Value
    noise: Value
    log_density: Float[Array, " n"]
    log_chance: Float[Array, " n"]
    broken: Bool[Array, " n"]
    trees: Trees


class _Reached(NamedTuple):
    """The values of a point that an orbit stores."""

    value: Value
    noise: Value
    log_density: Array
    log_weight: Array
    broken: Array


class _Growth(NamedTuple):
    """A partly grown orbit: its points, both ends, and whether a tree of any run may grow."""

    depth: Array
    grows: Array
    points: _Reached
    ends: OrbitPoint
    stopped: Array


@custom_vmap
def true_for_any_run(flag: Bool[Array, ""]) -> Bool[Array, ""]:
    """Whether the flag is true for any run of a batch, whose loops end together."""
    return flag


@true_for_any_run.def_vmap
def _true_for_any_of_batch(size: int, batched: list[bool], flag: Array) -> tuple[Array, bool]:
    return true_for_any_run(jnp.any(flag, axis=0)), False


class AbstractOrbitKernel(AbstractNoiseKernel):
    """A kernel given by noise, a map and a criterion for its trees."""

    num_branches: ClassVar[int] = 1
    weighs_origins: ClassVar[bool] = True
    mirrors: ClassVar[bool] = False
    r"""Whether $x_b$ of $(y, -v)$ is $x_{-b}$ of $(y, v)$, with the same chance."""

    @property
    @abstractmethod
    def rules(self) -> TreeRules:
        """The rules by which trees grow."""

    @abstractmethod
    def momentum(self, x: Value, v: Value) -> Float[Array, " d"]:
        """The vector whose sum decides when a tree turns back."""

    @abstractmethod
    def begin(self, log_density: LogDensity, x: Value, v: Value) -> OrbitPoint:
        """The point 0 of the orbit."""

    @abstractmethod
    def advance(self, log_density: LogDensity, point: OrbitPoint, sign: Array) -> OrbitPoint:
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

    def retrace(
        self, log_density: LogDensity, y: Value, log_density_y: LogProb, noise: Value
    ) -> Retraced:
        """Undo a step for every point of the orbit that it may have come from."""
        orbit = self.orbit(log_density, y, noise)
        log_own = as_log(self.log_noise(y, noise)) + orbit.log_chance
        log_own = jnp.where(jnp.any(orbit.broken), jnp.nan, log_own)
        log_forward = as_log(log_density_y) + log_own - orbit.log_density
        # Where the density is 0 nothing moves: the step back stays.
        still = jnp.arange(log_own.size) == log_own.size // 2
        log_forward = jnp.where(still | (log_own == -jnp.inf), log_own, log_forward)
        log_forward = jnp.where(jnp.isnan(log_density_y), jnp.nan, log_forward)
        return Retraced(orbit.value, orbit.log_density, log_forward, log_own)

    def orbit(self, log_density: LogDensity, x: Value, v: Value) -> Orbit:
        """All points that a step from $(x, v)$ can go to, with their chances.

        Both sides grow level by level, while some tree may still be doubled.
        """
        depth = self.rules.max_depth
        centre = 2**depth - 1
        first = self.begin(log_density, x, v)
        weight = self._log_weight(first)
        spread = lambda a: jnp.broadcast_to(a, (2 * centre + 1, *jnp.shape(a)))
        value, noise, log_first = jax.tree.map(spread, first[:3])
        points = _Reached(
            value,
            noise,
            log_first,
            jnp.full(2 * centre + 1, -jnp.inf, weight.dtype).at[centre].set(weight),
            jnp.zeros(2 * centre + 1, bool),
        )
        growth = _Growth(
            jnp.asarray(0),
            true_for_any_run(jnp.isfinite(weight)),
            points,
            jax.tree.map(lambda a: jnp.stack([a, a]), first),
            jnp.full(2, ~jnp.isfinite(weight)),
        )
        going = lambda growth: growth.grows & (growth.depth < depth)
        double = lambda growth: self._double(log_density, weight, growth)
        points = jax.lax.while_loop(going, double, growth).points
        trees = trees_of(points.log_weight, self._momenta(points), self.rules)
        chances = log_chances(trees, points.log_weight)
        known = (points.value, points.noise, points.log_density)
        return Orbit(*known, chances, points.broken, trees)

    def _double(self, log_density: LogDensity, weight: Array, growth: _Growth) -> _Growth:
        """Grow each side from $2^d - 1$ to $2^{d+1} - 1$ points, and look for growing trees."""
        centre, num = 2**self.rules.max_depth - 1, jnp.left_shift(1, growth.depth)
        signs = jnp.asarray([-1.0, 1.0])

        def advance(index: Array, state: Any) -> Any:
            points, ends, stopped = state
            step = lambda end, sign, stopped: self._next(log_density, weight, end, sign, stopped)
            ends, found, stopped = jax.vmap(step)(ends, signs, stopped)
            for side, sign in ((0, -1), (1, 1)):
                at = centre + sign * (num + index)
                points = _put(points, jax.tree.map(lambda a, side=side: a[side], found), at)
            return points, ends, stopped

        state = (growth.points, growth.ends, growth.stopped)
        points, ends, stopped = jax.lax.fori_loop(0, num, advance, state)
        orbit = (points.log_weight, self._momenta(points))
        grows = true_for_any_run(may_grow(*orbit, growth.depth + 1, self.rules))
        return _Growth(growth.depth + 1, grows, points, ends, stopped)

    def _next(
        self, log_density: LogDensity, first: Array, end: OrbitPoint, sign: Array, stopped: Array
    ) -> tuple[OrbitPoint, _Reached, Array]:
        """Advance one end by one point; behind a diverged or broken point nothing is reached."""
        ahead = self.advance(log_density, end, sign)
        weight = self._log_weight(ahead)
        known = all_finite((ahead.value, ahead.noise)) & ~stopped
        broken = jnp.isnan(ahead.log_density) & known & ~ahead.diverging
        good = known & (jnp.abs(weight - first) <= self.rules.limit)
        ahead = jax.tree.map(lambda new, old: jnp.where(good | broken, new, old), ahead, end)
        weight = jnp.where(good, weight, -jnp.inf)
        found = _Reached(ahead.value, ahead.noise, ahead.log_density, weight, broken)
        return ahead, found, ~good

    def _log_weight(self, point: OrbitPoint) -> Array:
        return as_log(point.log_density) + as_log(self.log_noise(point.value, point.noise))

    def _momenta(self, points: _Reached) -> Array:
        momentum = jax.vmap(self.momentum)(points.value, points.noise)
        return jnp.where((points.log_weight == -jnp.inf)[:, None], 0.0, momentum)


def _put(rows: Any, row: Any, index: Array | int) -> Any:
    """Replace one row of every array."""
    put = lambda a, b: jax.lax.dynamic_update_index_in_dim(a, b.astype(a.dtype), index, 0)
    return jax.tree.map(put, rows, row)


DEEPEST = 12
"""Largest `max_depth` in doublings: trees of 4,096 points. Other libraries use 10 by default."""


class Nuts(NormalNoise, AbstractOrbitKernel):
    r"""The no-U-turn sampler, as Stan, PyMC, NumPyro and BlackJAX run it after warm-up.

    The multinomial version (Betancourt 2017): a momentum $v \sim N(0, I)$, leapfrog steps
    (`aide.kernels.hamiltonian`) to the left and right in a doubling tree until it turns back, and a
    point of the tree by biased progressive sampling. The law is in `aide.kernels.doubling`;
    directions of doubling are summed out, so that a step is the momentum and one draw among the
    points of its trajectory.

    A tree whose energies differ by more than `divergence` nats is not entered. Other libraries
    compare with the energy of the first point alone, which depends on where the tree was entered
    and is not reversible; results differ only on trajectories with such errors of energy.

    Step size and metric are those of a finished warm-up. A run that adapts them is no Markov chain,
    and its $\xi$ cannot be computed.

    Args:
        step_size: A number, or numbers that broadcast against the flattened state.
        max_depth: Largest number of doublings; other libraries use 10 by default. Memory and time
            of meta-inference double with each, so take one more than the deepest tree that occurs:
            the chain does not change if no tree reaches the limit.
        metric: The inverse mass matrix: variances of the flattened state, or a matrix; by
            default the identity.
        criterion: When a tree turns back: `stan` (also PyMC) or `numpyro` (also BlackJAX).
        divergence: Largest difference of energies within a tree, in nats.

    Example:
        >>> kernel = aide.kernels.Nuts(step_size=0.8, max_depth=4)
        >>> aide.mcmc(Normal(0.0, 2.0), lambda x: -x * x, kernel=kernel, num_steps=10)
        MarkovChain: MCMC, 10 steps
    """

    mirrors: ClassVar[bool] = True

    step_size: Parameter = eqx.field(converter=as_parameter)
    max_depth: int = eqx.field(static=True)
    metric: Metric | None = eqx.field(converter=as_metric, default=None)
    criterion: str = eqx.field(static=True, default="stan")
    divergence: Parameter = eqx.field(converter=as_parameter, default=DIVERGED)

    def __check_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_positive("divergence", self.divergence)
        check_size("max_depth", self.max_depth)
        if self.max_depth > DEEPEST:
            raise ValueError(
                f"max_depth must be at most {DEEPEST}, got {self.max_depth}: a tree would have "
                f"2^{self.max_depth} points. A larger step size or a metric makes trees shallower."
            )
        if self.criterion not in CRITERIA:
            raise ValueError(
                f"criterion must be one of {', '.join(CRITERIA)}, got {self.criterion!r}."
            )

    @property
    def rules(self) -> TreeRules:
        """`max_depth`, `criterion` and `divergence`."""
        return TreeRules(self.max_depth, self.criterion, self.divergence)

    def momentum(self, x: Value, v: Value) -> Array:
        """The flat momentum."""
        return ravel_pytree(v)[0]

    def begin(self, log_density: LogDensity, x: Value, v: Value) -> OrbitPoint:
        """The first point, with the slope of the density there."""
        position, unravel = ravel_reals(x)
        value, slope = value_and_slope_of(log_density, unravel, self.metric)(position)
        momentum = ravel_pytree(v)[0].astype(position.dtype)
        return OrbitPoint(unravel(position), unravel(momentum), value, slope, jnp.asarray(False))

    def advance(self, log_density: LogDensity, point: OrbitPoint, sign: Array) -> OrbitPoint:
        """One leapfrog step.

        Where the momentum after half a step raises the energy by more than `DIVERGED` nats, a NaN
        log density counts as a divergence.
        """
        position, unravel = ravel_reals(point.value)
        evaluate = value_and_slope_of(log_density, unravel, self.metric)
        size = sign * self.step_size
        start = (position, ravel_pytree(point.noise)[0], point.slope)
        ahead, middle, value, slope = leap(evaluate, size, self.metric, *start)
        momentum = middle + 0.5 * size * slope
        rise = 0.5 * (jnp.sum(middle**2) - jnp.sum(start[1] ** 2))
        ahead, momentum = (a.astype(position.dtype) for a in (ahead, momentum))
        diverging = ~(rise <= DIVERGED)
        return OrbitPoint(unravel(ahead), unravel(momentum), value, slope, diverging)
