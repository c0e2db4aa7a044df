r"""A stand-in for NUTS on finitely many states: leapfrog is a permutation of a finite phase space.

States $x \in \{0, \dots, 4\}$, noise $v \in \{0, 1, 2\}$ with chances $g(v \mid x)$; the map
permutes the 15 pairs in cycles of 11 and 4, so that orbits return and states are met again.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide.kernels.doubling import TreeRules
from aide.kernels.nuts import AbstractOrbitKernel, OrbitPoint

NUM_STATES, NUM_NOISES = 5, 3
RNG = np.random.default_rng(4)
GAMMA = np.array([0.5, 2.0, 1.0, 3.0, 0.7])
NOISE = RNG.dirichlet(np.full(NUM_NOISES, 2.0), NUM_STATES)
_order = RNG.permutation(NUM_STATES * NUM_NOISES)
FORWARD = np.empty(NUM_STATES * NUM_NOISES, int)
for _cycle in (_order[:11], _order[11:]):
    FORWARD[_cycle] = np.roll(_cycle, -1)
BACKWARD = np.argsort(FORWARD)
MOMENTUM = np.empty((NUM_STATES * NUM_NOISES, 2))
for _cycle in (_order[:11], _order[11:]):
    _angle = 2 * np.pi * np.arange(len(_cycle)) / len(_cycle)
    MOMENTUM[_cycle] = np.stack([np.cos(_angle), np.sin(_angle)], axis=1)
MOMENTUM += RNG.normal(0.0, 0.4, MOMENTUM.shape)
START = RNG.dirichlet(np.ones(NUM_STATES))


def log_gamma(x):
    return jnp.log(jnp.asarray(GAMMA))[x]


def orbit_of(pair):
    """Point i of the orbit of a pair: log weight and momentum, for the reference."""
    cycle = [pair]
    while FORWARD[cycle[-1]] != pair:
        cycle.append(int(FORWARD[cycle[-1]]))

    def point(i):
        at = cycle[i % len(cycle)]
        x, v = divmod(at, NUM_NOISES)
        return np.log(GAMMA[x] * NOISE[x, v]), MOMENTUM[at]

    return point, lambda i: cycle[i % len(cycle)]


class Clockwork(AbstractOrbitKernel):
    """The kernel with that map in the place of leapfrog."""

    max_depth: int = eqx.field(static=True)
    criterion: str = eqx.field(static=True, default="stan")
    divergence: float = 1000.0

    @property
    def rules(self):
        return TreeRules(self.max_depth, self.criterion, self.divergence)

    def noise(self, key, x):
        return jax.random.categorical(key, jnp.log(jnp.asarray(NOISE))[x]).astype(float)

    def log_noise(self, x, v):
        return jnp.log(jnp.asarray(NOISE))[x, v.astype(int)]

    def momentum(self, x, v):
        return jnp.asarray(MOMENTUM)[_pair(x, v)]

    def begin(self, log_density, x, v):
        return self._point(log_density, _pair(x, v))

    def advance(self, log_density, point, sign):
        pair = _pair(point.value, point.noise)
        ahead = jnp.where(sign > 0, jnp.asarray(FORWARD)[pair], jnp.asarray(BACKWARD)[pair])
        return self._point(log_density, ahead)

    def _point(self, log_density, pair):
        x, v = jnp.divmod(pair, NUM_NOISES)
        x, v = x.astype(jnp.int32), v.astype(float)
        return OrbitPoint(x, v, log_density(x), (), jnp.asarray(False))


def _pair(x, v):
    return NUM_NOISES * x + v.astype(int)
