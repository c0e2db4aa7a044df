r"""Joint models of a state and the record of the step that led to it, at one time.

`JointModel` lists the methods of every such model; the model for real states is a mixture.

$$J(y, v, b) = \Bigl[w_0\,\gamma(y)/\hat Z + \sum_i w_i\,N(y; m_i, C_i)\Bigr] g(v, b \mid y)
    + \sum_{j: b_j = b} w_j\,N((y, v); m_j, C_j)$$

Component 0 is the kernel itself in equilibrium. Then come $K \ge 0$ *lagging* components: the
kernel steps back as in equilibrium, but the state is elsewhere (along an annealing path it is
behind or ahead). Each of the other Gaussians serves one branch, or the first possible one at those
$(y, v)$ where its own is impossible (a rejection of a step that is always accepted). The marginal
$\hat q(y)$ and the conditional $J(v, b \mid y)$ are exact for all parameters: a bad model makes
meta-inference loose, never wrong. All methods handle all particles at once, with the particle axis
last, because XLA vectorises over the last axis.

Discrete states have a table, with the kernel in equilibrium as its component 0:

$$J(y, b) = \Bigl[w_0\,\gamma(y)/\hat Z + w_1\,m(y)\Bigr] g(b \mid y) + w_2\,C(y, b)$$

Component 0 is the kernel in equilibrium, component 1 lags behind it with the marginal $m$ of the
table, component 2 is the table. Outside the box of states that pilots visited the table is 0.
"""

import math
from typing import Any, ClassVar, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

Scores = Float[Array, "K P"]
States = Float[Array, "d P"]
Stored = Any
"""An array of NumPy in double precision, or of JAX inside a program."""


class Proposed(NamedTuple):
    """Records proposed by a model; where `own` is true, the kernel's own guess replaces them."""

    own: Bool[Array, " P"]
    noise: Float[Array, "e P"]
    branch: Int[Array, " P"]


class JointModel(Protocol):
    r"""$J(y, v, b)$ with its exact marginal $\hat q(y)$ and conditional $J(v, b \mid y)$.

    A model that *tilts* takes the noise relative to the centre of the kernel's own guess, and
    proposes no branch: the walk back draws the state before the step in proportion to
    $\hat q$ times the kernel's density (`aide.learned.reverse_particles.weigh_origins`).
    """

    tilts: ClassVar[bool]

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of entries of a state and of a record's noise."""
        ...

    def score(
        self, y: States, log_density: Float[Array, " P"]
    ) -> tuple[Scores, Float[Array, " P"]]:
        r"""The log terms of $\hat q(y)$, component 0 first, and $\log\hat q(y)$."""
        ...

    def propose(
        self, uniform: Float[Array, " P"], white: Float[Array, "e P"], scores: Scores, y: States
    ) -> Proposed:
        r"""Draw a component given $y$, and $(v, b)$ from it unless it is the kernel's own guess."""
        ...

    def log_joint(
        self,
        scores: Scores,
        y: States,
        noise: Float[Array, "e P"],
        branch: Int[Array, " P"],
        possible: Bool[Array, "B P"],
        log_own: Float[Array, " P"],
    ) -> Float[Array, " P"]:
        r"""$\log J(y, v, b)$, given the scores of $y$ and $\log g(v, b \mid y)$."""
        ...


def redirect(branch: Int[Array, "..."], possible: Bool[Array, "B P"]) -> Int[Array, "..."]:
    """Return the branch if it is possible, else the first possible one."""
    numbers = jnp.arange(possible.shape[0])
    if possible.shape[0] == 1:  # also for a model learned for a kernel with more branches
        return jnp.zeros_like(branch)
    shape = (-1,) + (1,) * (branch.ndim - 1) + (possible.shape[1],)
    allowed = possible.reshape(shape) & (branch == numbers.reshape((-1,) + (1,) * branch.ndim))
    return jnp.where(jnp.any(allowed, axis=0), branch, jnp.argmax(possible, axis=0))


def log_sum_exp(terms: Scores) -> Float[Array, " P"]:
    r"""$\log\sum_k e^{l_k}$ over the first axis; $-\infty$ if all terms are, NaN if one is."""
    peak = jnp.max(terms, axis=0)
    shift = jnp.where(jnp.isfinite(peak), peak, 0.0)
    return shift + jnp.log(jnp.sum(jnp.exp(terms - shift), axis=0))


class JointMixture(eqx.Module):
    r"""One model, or several stacked along a leading time axis. Build with `from_moments`.

    Gaussian $j$ is stored in the form in which it is used: `white_y` whitens $y$; `white_v` applied
    to $(v, y)$ whitens the noise given $y$; `colour_v` applied to $(z, y)$ makes the noise from
    white noise $z$; each is followed by a shift. With $K$ lagging components and $J$ Gaussians
    of $(y, v)$, $y$ of size $d$ and $v$ of size $e$: `log_gauss` is [K + J], `white_y`
    [K + J, d, d] with shifts [K + J, d], `white_v` and `colour_v` are [J, e, e + d] with shifts
    [J, e], the others [J].
    """

    tilts: ClassVar[bool] = False

    log_kernel: Stored
    log_gauss: Stored
    branch: Stored
    white_y: Stored
    shift_y: Stored
    white_v: Stored
    shift_v: Stored
    log_scale_v: Stored
    colour_v: Stored
    centre_v: Stored

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of entries of a state and of a record's noise."""
        return self.white_y.shape[-1], self.white_v.shape[-2]

    @staticmethod
    def from_moments(
        weights: np.ndarray,
        means: np.ndarray,
        covariances: np.ndarray,
        branch: Any,
        size: int,
        log_z: float,
        lagging: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> "JointMixture":
        r"""Build from weights, $m_j$ and $C_j$ of $(y, v)$, the size of $y$, and $\log\hat Z$.

        `lagging` holds $m_i$ and $C_i$ of the lagging components, whose weights come second.
        """
        means_y, covariances_y = lagging or (np.empty((0, size)), np.empty((0, size, size)))
        # The Cholesky factor of (y, v) holds the marginal's and the conditional's.
        roots = np.linalg.cholesky(covariances)
        root_y, cross, root_v = (
            roots[:, :size, :size],
            roots[:, size:, :size],
            roots[:, size:, size:],
        )
        white_y, white_v = np.linalg.inv(root_y), np.linalg.inv(root_v)
        slope = cross @ white_y
        centre = means[:, size:, None] - slope @ means[:, :size, None]
        root_y = np.concatenate([np.linalg.cholesky(covariances_y), root_y])
        white_y = np.linalg.inv(root_y)
        mean_y = np.concatenate([means_y, means[:, :size]])[:, :, None]
        return JointMixture(
            log_kernel=np.log(weights[0]) - np.full((), log_z),
            log_gauss=np.log(weights[1:]) + log_scale(root_y),
            branch=np.asarray(branch, np.int32),
            white_y=white_y,
            shift_y=(white_y @ mean_y)[:, :, 0],
            white_v=np.concatenate([white_v, -white_v @ slope], axis=2),
            shift_v=(white_v @ centre)[:, :, 0],
            log_scale_v=log_scale(root_v),
            colour_v=np.concatenate([root_v, slope], axis=2),
            centre_v=centre[:, :, 0],
        )

    def score(
        self, y: States, log_density: Float[Array, " P"]
    ) -> tuple[Scores, Float[Array, " P"]]:
        r"""The log terms of $\hat q(y)$, component 0 first, and $\log\hat q(y)$."""
        white = _apply(self.white_y, y) - self.shift_y[:, :, None]
        gaussian = self.log_gauss[:, None] - 0.5 * jnp.sum(white**2, axis=1)
        scores = jnp.concatenate([(self.log_kernel + log_density)[None], gaussian])
        return scores, log_sum_exp(scores)

    def propose(
        self, uniform: Float[Array, " P"], white: Float[Array, "e P"], scores: Scores, y: States
    ) -> Proposed:
        r"""Draw a component given $y$, and $(v, b)$ from it if it is a Gaussian.

        Randomness is passed in: a uniform, and one standard normal per entry of $v$.
        """
        num_own = scores.shape[0] - self.branch.shape[0]
        chances = jnp.exp(scores - jnp.max(scores, axis=0))
        ends = jnp.tril(jnp.ones((scores.shape[0],) * 2)) @ chances
        which = jnp.minimum(jnp.sum(ends <= uniform * ends[-1], axis=0), scores.shape[0] - 1)
        noise = _apply(self.colour_v, jnp.concatenate([white, y])) + self.centre_v[:, :, None]
        chosen = which == jnp.arange(num_own, scores.shape[0])[:, None]
        noise = jnp.sum(jnp.where(chosen[:, None], noise, 0.0), axis=0)
        branch = jnp.sum(jnp.where(chosen, self.branch[:, None], 0), axis=0)
        return Proposed(which < num_own, noise, branch)

    def log_joint(
        self,
        scores: Scores,
        y: States,
        noise: Float[Array, "e P"],
        branch: Int[Array, " P"],
        possible: Bool[Array, "B P"],
        log_own: Float[Array, " P"],
    ) -> Float[Array, " P"]:
        r"""$\log J(y, v, b)$, given the scores of $y$ and $\log g(v, b \mid y)$."""
        white = _apply(self.white_v, jnp.concatenate([noise, y])) - self.shift_v[:, :, None]
        num_own = scores.shape[0] - self.branch.shape[0]
        gaussian = scores[num_own:] + self.log_scale_v[:, None] - 0.5 * jnp.sum(white**2, axis=1)
        serves = redirect(self.branch[:, None], possible)
        gaussian = jnp.where(serves == branch, gaussian, -jnp.inf)
        return log_sum_exp(jnp.concatenate([scores[:num_own] + log_own, gaussian]))


def _apply(matrices: Float[Array, "J a b"], vectors: Float[Array, "b P"]) -> Float[Array, "J a P"]:
    """All matrices times all vectors, as one product.

    The barrier keeps XLA from fusing the vectors' computation with the product: without it, XLA
    on CPU (JAX 0.10) gave wrong numbers in ten dimensions when a chunk held a single run.
    """
    num, rows, columns = matrices.shape
    product = matrices.reshape(num * rows, columns) @ jax.lax.optimization_barrier(vectors)
    return product.reshape(num, rows, vectors.shape[1])


def log_scale(roots: np.ndarray) -> np.ndarray:
    r"""Log densities of Gaussians at their means, from Cholesky factors."""
    logs = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    return -logs - 0.5 * roots.shape[1] * math.log(2 * math.pi)


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
