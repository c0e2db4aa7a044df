r"""The small problems of the registry: moves, models and hand-written algorithms.

The one-dimensional posterior has a likelihood between bounds, skewed and off the prior's centre:
$L(x) = (0.1 + e^{-(x-1)^2/0.32})\,e^{\tanh(x)/2}$ under the prior $N(0, 1.2^2)$.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import aide
from aide.problems import HiddenMarkovModel
from aide.problems.distributions import Categorical, Normal

PRIOR = Normal(0.0, 1.2)


def log_likelihood(x):
    """Bounded above and below."""
    return jnp.log(0.1 + jnp.exp(-0.5 * ((x - 1.0) / 0.4) ** 2)) + 0.5 * jnp.tanh(x)


def log_joint(x):
    """Prior times likelihood."""
    return PRIOR.log_prob(x) + log_likelihood(x)


def weight(x):
    """The likelihood in NumPy."""
    return (0.1 + np.exp(-0.5 * ((x - 1.0) / 0.4) ** 2)) * np.exp(0.5 * np.tanh(x))


def _grid(num):
    edges = np.linspace(-8.0, 8.0, num + 1) * 1.2
    points = (edges[1:] + edges[:-1]) / 2
    mass = np.exp(-0.5 * (points / 1.2) ** 2)
    return points, mass / mass.sum()


def log_evidence():
    """Log integral of prior times likelihood, by quadrature."""
    points, mass = _grid(4000)
    return float(np.log(mass @ weight(points)))


def log_sir_density(x, num_particles):
    r"""Output density of SIR: $k(x)\,w(x)\,E[P / (w(x) + \sum_{i<P} w(x_i))]$, by quadrature."""
    points, mass = _grid(600)
    weights = weight(points)
    totals, chances = np.zeros(1), np.ones(1)
    for _ in range(num_particles - 1):
        totals = np.add.outer(totals, weights).ravel()
        chances = np.multiply.outer(chances, mass).ravel()
    own = weight(x)
    mean = chances @ (num_particles * own / (own + totals))
    return float(np.log(mean) - 0.5 * (x / 1.2) ** 2 - math.log(1.2) - 0.5 * math.log(2 * math.pi))


def forward_reverse_ais():
    """AIS with one temperature between, written by hand: Metropolis with a wide normal step."""
    half = lambda x: PRIOR.log_prob(x) + 0.4 * log_likelihood(x)

    def metropolis(key, x):
        key_step, key_accept = jax.random.split(key)
        y = x + 1.1 * jax.random.normal(key_step)
        return jnp.where(jnp.log(jax.random.uniform(key_accept)) < half(y) - half(x), y, x)

    def forward(key):
        key_start, key_move = jax.random.split(key)
        x = PRIOR.sample(key_start)
        y = metropolis(key_move, x)
        return y, 0.4 * log_likelihood(x) + 0.6 * log_likelihood(y)

    def reverse(key, y):
        return 0.4 * log_likelihood(metropolis(key, y)) + 0.6 * log_likelihood(y)

    return aide.ForwardReverse(forward, reverse, log_joint)


class TableMove(eqx.Module):
    """Any forward and backward kernel between two finite spaces, from tables."""

    forward_table: Any
    backward_table: Any
    log_from: Any
    log_to: Any

    def forward(self, key, x):
        """Sample y from row x of the forward table."""
        y = Categorical(jnp.asarray(self.forward_table)[x]).sample(key)
        return y, self._log_weight(x, y)

    def backward(self, key, y):
        """Sample x from row y of the backward table."""
        x = Categorical(jnp.asarray(self.backward_table)[y]).sample(key)
        return x, self._log_weight(x, y)

    def _log_weight(self, x, y):
        tables = (self.log_to, self.backward_table, self.log_from, self.forward_table)
        log_to, back, log_from, ahead = map(jnp.asarray, tables)
        return log_to[y] + jnp.log(back[y, x]) - log_from[x] - jnp.log(ahead[x, y])


class Growing(eqx.Module):
    """The first state of a tuple that grows: (a,) with a ~ N(0.2, 1)."""

    def sample(self, key):
        """Draw a tuple of one."""
        return (Normal(0.2, 1.0).sample(key),)

    def log_density(self, x):
        """Its density; for a longer tuple, prior times likelihood of all its states."""
        total = Normal(0.2, 1.0).log_prob(x[0])
        for before, after in zip(x[:-1], x[1:], strict=True):
            total = total + Normal(0.7 * before - 0.1, 0.9).log_prob(after)
            total = total + log_likelihood(after)
        return total


GROWING = Growing()


class Grow(eqx.Module):
    """(…, a) to (…, a, b) with b from a proposal of its own; backward drops b."""

    def forward(self, key, x):
        """Append a state."""
        y = (*x, Normal(0.5 * x[-1] + 0.2, 1.2).sample(key))
        return y, self._log_weight(y)

    def backward(self, key, y):
        """Drop the last state."""
        return y[:-1], self._log_weight(y)

    def _log_weight(self, y):
        log_ratio = GROWING.log_density(y) - GROWING.log_density(y[:-1])
        return log_ratio - Normal(0.5 * y[-2] + 0.2, 1.2).log_prob(y[-1])


class LevelAndMode(eqx.Module):
    """A switch and a level that it shifts, as one distribution on dicts."""

    level: Any
    weights: Any

    def sample(self, key):
        """Draw the switch, then the level."""
        key_mode, key_level = jax.random.split(key)
        mode = Categorical(self.weights).sample(key_mode)
        return {"level": Normal(self.level + mode, 0.8).sample(key_level), "mode": mode}

    def log_prob(self, x):
        """Normalised log density."""
        log_level = Normal(self.level + x["mode"], 0.8).log_prob(x["level"])
        return Categorical(self.weights).log_prob(x["mode"]) + log_level


DICT_MODEL = aide.StateSpaceModel(
    LevelAndMode(0.1, np.array([0.7, 0.3])),
    lambda x, t: LevelAndMode(0.6 * x["level"], jnp.array([[0.8, 0.2], [0.4, 0.6]])[x["mode"]]),
    lambda x, t: Normal(x["level"] - 0.3 * x["mode"], 1.1),
    [0.9, -0.4, 1.5],
)

STICKY = HiddenMarkovModel(
    [0.55, 0.45], [[0.98, 0.02], [0.14, 0.86]], [[0.47, 0.53], [0.82, 0.18]], [0, 1, 0]
)
"""A chain that remembers, so that it matters who descends from whom."""

_TABLE = np.array([[0.12, 0.70, 0.01], [0.005, 0.02, 0.10], [0.01, 0.02, 0.015]])
_START: Any = np.array([[0.10, 0.07, 0.10], [0.07, 0.25, 0.35], [0.02, 0.02, 0.02]])


def log_table(x):
    """A density on two sites of three values; nothing maps a sweep to the reversed sweep."""
    return jnp.log(jnp.asarray(_TABLE))[x[0], x[1]]


class TableStart(eqx.Module):
    """The start of Gibbs chains on the table."""

    def sample(self, key):
        """Draw both sites."""
        flat = Categorical(_START.ravel()).sample(key)
        return jnp.stack([flat // 3, flat % 3])

    def log_density(self, x):
        """Normalised log density."""
        return Categorical(_START.ravel()).log_prob(3 * x[0] + x[1])


TABLE_START = TableStart()


class NumpySir:
    """SIR with two particles on {0, 1, 2}, in NumPy."""

    log_z = 0.0
    proposal = np.array([0.5, 0.2, 0.3])
    weights = np.array([0.3, 2.0, 1.0])

    def simulate(self, rng):
        """Two proposals, one by weight."""
        x = rng.choice(3, size=2, p=self.proposal)
        w = self.weights[x]
        chosen = x[rng.choice(2, p=w / w.sum())]
        return chosen, self._log_xi(chosen, w)

    def regenerate(self, rng, value):
        """The given output and one more proposal."""
        other = rng.choice(3, p=self.proposal)
        return self._log_xi(value, self.weights[np.array([value, other])])

    def _log_xi(self, x, w):
        return np.log(self.proposal[x] * self.weights[x]) - np.log(w.mean())
