"""Posteriors at which gold standards once passed and were wrong, and healthy ones beside them.

Each has a start, a log joint, the log evidence and exact draws: by closed forms or enumeration.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as numpyro
from scipy.special import gammaln

import aide
from aide.problems import IsingModel
from aide.problems.distributions import Categorical, Normal


class Known(NamedTuple):
    """What `aide.gold_standard` is given, and the truth.

    Attributes:
        start: A distribution, or a state about which modes are looked for.
        log_joint: The log density.
        log_evidence: Its logarithmic normalising constant.
        sample: Draws exactly.
        options: More arguments for `aide.gold_standard`.
    """

    start: Any
    log_joint: Callable[[Any], Any]
    log_evidence: float
    sample: Callable[[Any], Any]
    options: dict[str, Any] = {}

    @property
    def exact(self) -> aide.Tractable:
        """The exact sampler with its normalised density."""
        return aide.Tractable(self.sample, lambda x: self.log_joint(x) - self.log_evidence)


def normals(means: Any, scales: Any, weights: Any = None, start: float = 3.0) -> Known:
    """A mixture of normal distributions, each with one scale or one per coordinate, by rows."""
    means = np.asarray(means, float)
    scales = np.broadcast_to(np.asarray(scales, float), means.shape)
    shares = np.full(len(means), 1 / len(means)) if weights is None else np.asarray(weights)

    def log_joint(x):
        white = (x - jnp.asarray(means)) / scales
        constant = np.log(shares) - np.sum(np.log(scales) + 0.5 * np.log(2 * np.pi), axis=1)
        return jax.nn.logsumexp(constant - 0.5 * jnp.sum(white**2, axis=1))

    def sample(key):
        one, two = jax.random.split(key)
        place = jax.random.choice(one, len(shares), p=jnp.asarray(shares))
        noise = jax.random.normal(two, means.shape[1:])
        return jnp.asarray(means)[place] + jnp.asarray(scales)[place] * noise

    return Known(Normal(np.zeros(means.shape[1]), start), log_joint, 0.0, sample)


def narrow_and_wide(dimension: int, width: float, apart: float = 0.0) -> Known:
    """Half of the mass in a peak inside of a unit normal, so far from its middle."""
    means = np.zeros((2, dimension))
    means[1, 0] = apart
    return normals(means, [[1.0], [width]])


def ridge() -> Known:
    """$x_{i+1} | x_i$ on a parabola, narrow: beyond |x_0| = 1.8, 7.2%, it runs away."""

    def log_joint(x):
        rest = Normal(0.7 * (x[:-1] ** 2 - 1), 0.15).log_prob(x[1:])
        return Normal(0.0, 1.0).log_prob(x[0]) + rest

    def sample(key):
        x = [z := jax.random.normal(key, (5,))][0][:1]
        for place in range(1, 5):
            x = jnp.append(x, 0.7 * (x[-1] ** 2 - 1) + 0.15 * z[place])
        return x

    return Known(Normal(np.zeros(5), 3.0), log_joint, 0.0, sample)


def raw_units() -> Known:
    """Earnings on height, not centred: sds of 10,000 and 150; flat in all, with a log scale."""
    rng = np.random.default_rng(0)
    heights = rng.normal(66.6, 3.8, 1192)
    earnings = -84_000 + 1590 * heights + rng.normal(0.0, 19_000.0, 1192)
    columns = np.column_stack([np.ones(1192), heights])
    known = np.linalg.lstsq(columns, earnings, rcond=None)[0]
    squares, free = float(np.sum((earnings - columns @ known) ** 2)), 1190
    factor = np.linalg.cholesky(np.linalg.inv(columns.T @ columns))

    def log_joint(x):
        residuals = jnp.asarray(earnings) - x[0] - x[1] * jnp.asarray(heights)
        return jnp.sum(-0.5 * (residuals * jnp.exp(-x[2])) ** 2 - x[2])

    def sample(key):
        one, two = jax.random.split(key)
        sigma = jnp.sqrt(squares / (2 * jax.random.gamma(one, free / 2)))
        noise = jnp.asarray(factor) @ jax.random.normal(two, (2,))
        return jnp.append(jnp.asarray(known) + sigma * noise, jnp.log(sigma))

    evidence = np.log(2 * np.pi) + np.sum(np.log(np.diag(factor))) - np.log(2)
    evidence += gammaln(free / 2) - free / 2 * np.log(squares / 2)
    return Known(np.zeros(3), log_joint, float(evidence), sample)


def counts(datum: float, num_values: int = 60) -> Known:
    """A Poisson(3) count, seen with a normal error of 1.5."""
    prior, values = numpyro.Poisson(3.0), np.arange(num_values)
    log_joint = lambda x: prior.log_prob(x) + Normal(1.0 * x, 1.5).log_prob(datum)
    logs = values * np.log(3.0) - 3.0 - gammaln(values + 1) - 0.5 * ((datum - values) / 1.5) ** 2
    logs = logs - np.log(1.5 * np.sqrt(2 * np.pi))
    return Known(
        prior,
        log_joint,
        float(np.logaddexp.reduce(logs)),
        Categorical(jnp.asarray(np.exp(logs - logs.max()))).sample,
        {"num_values": num_values},
    )


def table(logs: np.ndarray, start: Any, **options: Any) -> Known:
    """A state of integers that looks up its log density, as JAX does: it clamps."""

    def sample(key):
        flat = Categorical(jnp.asarray(np.exp(logs - logs.max()).ravel())).sample(key)
        return jnp.stack(jnp.unravel_index(flat, logs.shape)).astype(int)

    log_joint = lambda x: jnp.asarray(logs)[tuple(x)]
    return Known(start, log_joint, float(np.logaddexp.reduce(logs.ravel())), sample, options)


def sites_of_different_sizes() -> Known:
    """One site with two values, one with six."""
    logs = np.array([[0.0, 1.0, 2.0, 0.0, -1.0, 3.0], [2.0, 1.0, 0.0, 0.0, 3.0, 1.0]])
    start = numpyro.DiscreteUniform(np.zeros(2, int), np.array([1, 5])).to_event(1)
    return table(logs, start)


def rare_values() -> Known:
    """Three of NumPyro's categoricals; the posterior is where their prior hardly ever is."""
    prior = np.array([0.9, 0.09, 0.00999, 1e-5])
    rng = np.random.default_rng(2)
    likelihood = rng.normal(size=(4, 4, 4)) + 9.0 * (np.indices((4, 4, 4)) == 3).sum(axis=0)
    logs = sum(np.log(prior)[axis] for axis in np.indices((4, 4, 4))) + likelihood
    return table(logs, numpyro.CategoricalProbs(prior).expand([3]).to_event(1))


def ising(coupling: float, shape: tuple[int, int]) -> Known:
    """Spins on a grid, by enumeration."""
    model = IsingModel(coupling, 0.05, shape=shape)
    evidence = float(model.log_partition())
    return Known(model.uniform(), model.log_density, evidence, model.exact().sample)


def transformed(forward: Callable[[Any], Any], log_joint: Any, start: Any, draw: Any) -> Known:
    """A normalised density whose draws are a function of simple ones."""
    return Known(start, log_joint, 0.0, lambda key: forward(draw(key)))


def student() -> Known:
    """A $t$ distribution with 5 degrees of freedom in three dimensions."""
    constant = float(gammaln(4.0) - gammaln(2.5) - 1.5 * np.log(5 * np.pi))

    def draw(key):
        one, two = jax.random.split(key)
        return jax.random.normal(one, (3,)) / jnp.sqrt(jax.random.gamma(two, 2.5) / 2.5)

    log_joint = lambda x: constant - 4.0 * jnp.log1p(jnp.sum(x**2) / 5)
    return transformed(lambda x: x, log_joint, Normal(np.zeros(3), 3.0), draw)


def banana(width: float = 0.5) -> Known:
    """A normal parabola."""

    def log_joint(x):
        return Normal(0.0, 1.0).log_prob(x[0]) + Normal(0.5 * x[0] ** 2, width).log_prob(x[1])

    bend = lambda z: jnp.stack([z[0], 0.5 * z[0] ** 2 + width * z[1]])
    draw = lambda key: jax.random.normal(key, (2,))
    return transformed(bend, log_joint, Normal(np.zeros(2), 3.0), draw)


def small_funnel() -> Known:
    """A hierarchy with one scale and three children."""

    def log_joint(x):
        return Normal(0.0, 1.0).log_prob(x[0]) + Normal(0.0, jnp.exp(x[0] / 2)).log_prob(x[1:])

    spread = lambda z: jnp.concatenate([z[:1], jnp.exp(z[0] / 2) * z[1:]])
    draw = lambda key: jax.random.normal(key, (4,))
    return transformed(spread, log_joint, Normal(np.zeros(4), 2.0), draw)


def log_gamma(shape: float) -> Known:
    """The logarithm of a gamma variable."""
    log_joint = lambda x: shape * x[0] - jnp.exp(x[0]) - float(gammaln(shape))
    draw = lambda key: jax.random.gamma(key, shape, (1,))
    return transformed(jnp.log, log_joint, Normal(np.zeros(1), 3.0), draw)


def logit_beta() -> Known:
    """The logit of a Beta(2, 5) variable."""
    constant = float(gammaln(7.0) - gammaln(2.0) - gammaln(5.0))

    def log_joint(x):
        return constant + jnp.sum(2 * jax.nn.log_sigmoid(x) + 5 * jax.nn.log_sigmoid(-x))

    draw = lambda key: jax.random.beta(key, 2.0, 5.0, (1,))
    return transformed(jax.scipy.special.logit, log_joint, Normal(np.zeros(1), 3.0), draw)


def laplace() -> Known:
    """Two Laplace variables, with a kink at the mode."""
    log_joint = lambda x: jnp.sum(-jnp.abs(x) - np.log(2.0))
    draw = lambda key: jax.random.laplace(key, (2,))
    return transformed(lambda x: x, log_joint, Normal(np.zeros(2), 3.0), draw)


def half_normal() -> Known:
    """Half of the start is outside of the support."""
    inside = lambda x: np.log(2.0) + Normal(0.0, 1.0).log_prob(x)
    log_joint = lambda x: jnp.where(jnp.all(x > 0), inside(x), -jnp.inf)
    draw = lambda key: jax.random.normal(key, (1,))
    return transformed(jnp.abs, log_joint, Normal(np.zeros(1), 3.0), draw)


def correlated(dimension: int, correlation: float) -> Known:
    """A normal distribution with one correlation between all coordinates."""
    covariance = np.full((dimension, dimension), correlation) + (1 - correlation) * np.eye(
        dimension
    )
    factor, precision = np.linalg.cholesky(covariance), np.linalg.inv(covariance)
    evidence = dimension / 2 * np.log(2 * np.pi) + np.sum(np.log(np.diag(factor)))
    return Known(
        Normal(np.zeros(dimension), 3.0),
        lambda x: -0.5 * x @ jnp.asarray(precision) @ x,
        float(evidence),
        lambda key: jnp.asarray(factor) @ jax.random.normal(key, (dimension,)),
    )


TRAPS: dict[str, Callable[[], Known]] = {
    "nested, 4-D, 1 and 0.03": lambda: narrow_and_wide(4, 0.03),
    "narrow in wide, 2-D": lambda: narrow_and_wide(2, 0.02),
    "narrow in wide, 5-D": lambda: narrow_and_wide(5, 0.02),
    "narrow beside wide, 2-D": lambda: narrow_and_wide(2, 0.02, 2.0),
    "spike of 0.001 in the middle": lambda: narrow_and_wide(1, 0.001),
    "spike of 0.001 at 1.5": lambda: narrow_and_wide(1, 0.001, 1.5),
    "ridge, 5-D": ridge,
    "regression in raw units": raw_units,
    "counts beyond the draws": lambda: counts(14.0),
    "sites of different sizes": sites_of_different_sizes,
    "rare values": rare_values,
    "spins that hold together": lambda: ising(0.9, (3, 3)),
}
HEALTHY: dict[str, Callable[[], Known]] = {
    "normal, 1-D": lambda: normals([[1.0]], 0.3),
    "normal, 3-D, three scales": lambda: normals([[1.0, 1.0, 1.0]], [[1.0, 0.1, 0.3]]),
    "normal, 2-D, correlation 0.99": lambda: correlated(2, 0.99),
    "normal, 10-D, correlation 0.8": lambda: correlated(10, 0.8),
    "two modes, 2-D": lambda: normals([[-3.0, 0.0], [3.0, 0.0]], 0.7),
    "two modes of two widths, 2-D": lambda: normals([[-3.0, 0.0], [3.0, 0.0]], [[1.0], [0.3]]),
    "three modes, 2-D": lambda: normals(
        [[-4.0, 0.0], [4.0, 0.0], [0.0, 5.0]], 1.0, [0.5, 0.3, 0.2]
    ),
    "two modes, 5-D": lambda: normals(np.outer([-2.0, 2.0], np.ones(5)), 0.8),
    "wide and half as wide, 2-D": lambda: normals(np.zeros((2, 2)), [[1.0], [0.4]]),
    "Student, 3-D": student,
    "banana, 2-D": banana,
    "funnel, 4-D": small_funnel,
    "logarithm of a gamma variable": lambda: log_gamma(3.0),
    "logit of a beta variable": logit_beta,
    "Laplace, 2-D": laplace,
    "half-normal": half_normal,
    "counts, 1 site": lambda: counts(4.0, 40),
    "table, 2 sites": lambda: table(np.random.default_rng(4).normal(size=(3, 3)), UNIFORM),
    "spins, 3 x 2": lambda: ising(0.3, (3, 2)),
    "normal, 1-D, far from the start": lambda: normals([[8.0]], 0.5),
}
UNIFORM = numpyro.DiscreteUniform(np.zeros(2, int), np.array([2, 2])).to_event(1)
