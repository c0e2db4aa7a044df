r"""The joint model of a discrete state and the branch of the step that led to it: a table.

$$J(y, b) = \Bigl[w_0\,\gamma(y)/\hat Z + w_1\,m(y)\Bigr] g(b \mid y) + w_2\,C(y, b)$$

Component 0 is the kernel in equilibrium, component 1 lags behind it with the marginal $m$ of the
table, component 2 is the table. Outside the box of states that pilots visited the table is 0.
"""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from aide.learned.models.joint import Proposed, Scores, States, Stored, log_sum_exp, redirect

NUM_OWN = 2
"""Number of components whose branch is the kernel's own guess; they come before the table."""


class JointTable(eqx.Module):
    r"""One model, or several stacked along a leading time axis. Build with `from_table`.

    States are flat vectors of integers between `low` and `high`, numbered by `strides`. With $S$
    states and $B$ branches, `log_lagging` is $\log w_1 m(y)$, [S], and `log_table` is
    $\log w_2 C(y, b)$, [S, B].
    """

    tilts: ClassVar[bool] = False

    log_kernel: Stored
    log_lagging: Stored
    log_table: Stored
    low: Stored
    high: Stored
    strides: Stored

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of entries of a state and of a record's noise."""
        return self.low.shape[-1], 0

    @staticmethod
    def from_table(
        weights: np.ndarray, table: np.ndarray, low: np.ndarray, high: np.ndarray, log_z: float
    ) -> "JointTable":
        r"""Build from $w_{0:2}$, $C$ [S, B] and the box of states, the last coordinate fastest."""
        with np.errstate(divide="ignore"):
            return JointTable(
                log_kernel=np.log(weights[0]) - np.full((), log_z),
                log_lagging=np.log(weights[1] * table.sum(axis=1)),
                log_table=np.log(weights[2] * table),
                low=np.asarray(low, float),
                high=np.asarray(high, float),
                strides=strides_of(low, high),
            )

    def score(
        self, y: States, log_density: Float[Array, " P"]
    ) -> tuple[Scores, Float[Array, " P"]]:
        r"""The log terms of $\hat q(y)$, component 0 first, and $\log\hat q(y)$."""
        entries = self._entries(y)
        lagging = jnp.where(self._inside(y), self.log_lagging[self._number(y)], -jnp.inf)
        table = log_sum_exp(entries)
        scores = jnp.stack([self.log_kernel + log_density, lagging, table])
        return scores, log_sum_exp(scores)

    def propose(
        self, uniform: Float[Array, " P"], white: Float[Array, "e P"], scores: Scores, y: States
    ) -> Proposed:
        r"""Draw a component given $y$; from the table also a branch."""
        chances = jnp.exp(scores - jnp.max(scores, axis=0))
        ends = jnp.cumsum(chances, axis=0)
        point = uniform * ends[-1]
        own = (point < ends[NUM_OWN - 1]) | (chances[NUM_OWN] == 0.0)
        # Given the component, the rest of the uniform is again uniform: it chooses the branch.
        rest = (point - ends[NUM_OWN - 1]) / jnp.where(own, 1.0, chances[NUM_OWN])
        entries = jnp.exp(self._entries(y) - jnp.where(own, 0.0, scores[NUM_OWN]))
        branch = jnp.sum(jnp.cumsum(entries, axis=0) <= rest * jnp.sum(entries, axis=0), axis=0)
        branch = jnp.minimum(branch, entries.shape[0] - 1).astype(jnp.int32)
        return Proposed(own, white, jnp.where(own, 0, branch))

    def log_joint(
        self,
        scores: Scores,
        y: States,
        noise: Float[Array, "e P"],
        branch: Int[Array, " P"],
        possible: Bool[Array, "B P"],
        log_own: Float[Array, " P"],
    ) -> Float[Array, " P"]:
        r"""$\log J(y, b)$, given the scores of $y$ and $\log g(b \mid y)$."""
        entries = self._entries(y)
        serves = redirect(jnp.arange(entries.shape[0])[:, None], possible)
        table = jnp.where(serves == branch, entries, -jnp.inf)
        return log_sum_exp(jnp.concatenate([scores[:NUM_OWN] + log_own, table]))

    def _inside(self, y: States) -> Bool[Array, " P"]:
        return jnp.all((y >= self.low[:, None]) & (y <= self.high[:, None]), axis=0)

    def _number(self, y: States) -> Int[Array, " P"]:
        place = jnp.clip(jnp.round(y), self.low[:, None], self.high[:, None]) - self.low[:, None]
        return jnp.sum(place * self.strides[:, None], axis=0).astype(jnp.int32)

    def _entries(self, y: States) -> Float[Array, "B P"]:
        return jnp.where(self._inside(y), self.log_table[self._number(y)].T, -jnp.inf)


def strides_of(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Differences of the numbers of states that are neighbours along each coordinate."""
    counts = np.asarray(high) - np.asarray(low) + 1.0
    return np.append(np.cumprod(counts[:0:-1])[::-1], 1.0)


def states_of(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """All states of a box in the order of their numbers, [S, d]."""
    axes = [np.arange(a, b + 1.0) for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
