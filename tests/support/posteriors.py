"""Posteriors with known answers, on which gold standards are made without any tuning by hand.

Each is a start, a log joint and, where there is one, the log evidence and an exact sampler.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import aide
from aide.problems.distributions import Normal
from support.hard_posteriors import logistic_regression


class Posterior(NamedTuple):
    """A start, a log joint, and what is known about the posterior."""

    start: Any
    log_joint: Callable[[Any], Any]
    log_evidence: float | None = None
    sample: Callable[[Any], Any] | None = None

    @property
    def exact(self):
        """The exact sampler with its normalised density; `None` if there is none."""
        if self.sample is None:
            return None
        return aide.Tractable(self.sample, lambda x: self.log_joint(x) - self.log_evidence)


def gaussian(dimension=50, condition=1e4):
    """A rotated Gaussian whose variances span the condition number."""
    rng = np.random.default_rng(3)
    axes = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
    half = np.log10(condition) / 2
    variances = np.logspace(-half, half, dimension)
    precision, factor = (axes / variances) @ axes.T, axes * np.sqrt(variances)
    mean = rng.normal(size=dimension)

    def log_joint(x):
        return -0.5 * (x - mean) @ jnp.asarray(precision) @ (x - mean)

    def sample(key):
        return mean + jnp.asarray(factor) @ jax.random.normal(key, (dimension,))

    evidence = 0.5 * float(np.sum(np.log(2 * np.pi * variances)))
    return Posterior(Normal(np.zeros(dimension), 10.0), log_joint, evidence, sample)


def funnel(dimension=10, scale=3.0):
    """Neal's funnel: the first coordinate is the log variance of the others."""

    def log_joint(x):
        rest = x[1:]
        narrow = -0.5 * rest**2 * jnp.exp(-x[0]) - 0.5 * x[0] - 0.5 * np.log(2 * np.pi)
        return Normal(0.0, scale).log_prob(x[0]) + jnp.sum(narrow)

    def sample(key):
        one, two = jax.random.split(key)
        first = scale * jax.random.normal(one)
        rest = jnp.exp(first / 2) * jax.random.normal(two, (dimension - 1,))
        return jnp.concatenate([first[None], rest])

    return Posterior(Normal(np.zeros(dimension), scale), log_joint, 0.0, sample)


def many_well(num=16):
    """Double wells with a tilt, and as many Gaussian coordinates; exact draws by rejection."""
    log_well = lambda a: -(a**4) + 6 * a**2 + 0.5 * a
    grid = np.linspace(-4.0, 4.0, 80_001)
    log_area = float(np.log(np.trapezoid(np.exp(log_well(grid)), grid)))
    centres, width, shares = np.array([-1.7, 1.75]), 0.45, np.array([0.2, 0.8])

    def log_proposal(a):
        parts = -0.5 * ((a[..., None] - centres) / width) ** 2 + np.log(shares)
        peak = parts.max(axis=-1)
        xp = jnp if isinstance(a, jax.Array) else np
        total = peak + xp.log(xp.sum(xp.exp(parts - peak[..., None]), axis=-1))
        return total - np.log(width) - 0.5 * np.log(2 * np.pi)

    bound = float(np.max(log_well(grid) - log_proposal(grid))) + 1e-6

    def draw_one(key):
        def propose(key):
            one, two, three, four = jax.random.split(key, 4)
            centre = jnp.where(jax.random.uniform(one) < shares[0], centres[0], centres[1])
            a = centre + width * jax.random.normal(two)
            keep = jnp.log(jax.random.uniform(three)) < log_well(a) - log_proposal(a) - bound
            return a, keep, four

        def again(state):
            return propose(state[2])

        return jax.lax.while_loop(lambda state: ~state[1], again, propose(key))[0]

    def sample(key):
        one, two = jax.random.split(key)
        wells = jax.vmap(draw_one)(jax.random.split(one, num))
        return jnp.concatenate([wells, jax.random.normal(two, (num,))])

    def log_joint(x):
        return jnp.sum(log_well(x[:num])) - 0.5 * jnp.sum(x[num:] ** 2)

    evidence = num * (log_area + 0.5 * np.log(2 * np.pi))
    return Posterior(Normal(np.zeros(2 * num), 2.0), log_joint, evidence, sample)


def far_modes(num=10, dimension=10):
    """Gaussians of different widths and weights, far apart."""
    rng = np.random.default_rng(5)
    means, widths = rng.uniform(-10, 10, (num, dimension)), rng.uniform(0.5, 1.5, num)
    weights = rng.dirichlet(np.full(num, 3.0))

    def log_joint(x):
        white = (x - jnp.asarray(means)) / widths[:, None]
        parts = np.log(weights) - 0.5 * jnp.sum(white**2, axis=1) - dimension * np.log(widths)
        return jax.nn.logsumexp(parts) - 0.5 * dimension * np.log(2 * np.pi)

    def sample(key):
        one, two = jax.random.split(key)
        place = jax.random.choice(one, num, p=jnp.asarray(weights))
        noise = jax.random.normal(two, (dimension,))
        return jnp.asarray(means)[place] + jnp.asarray(widths)[place] * noise

    return Posterior(Normal(np.zeros(dimension), 10.0), log_joint, 0.0, sample)


EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools(centred):
    """Rubin's eight schools with mu ~ N(0, 5), tau ~ half-Cauchy(5); states (mu, log tau, ...)."""

    def log_prior(x):
        mu, log_tau, rest = x[0], x[1], x[2:]
        tau = jnp.exp(log_tau)
        top = Normal(0.0, 5.0).log_prob(mu) + log_tau - jnp.log1p((tau / 5) ** 2)
        top = top + np.log(2 / (5 * np.pi))
        return top + (Normal(mu, tau) if centred else Normal(0.0, 1.0)).log_prob(rest)

    def log_joint(x):
        theta = x[2:] if centred else x[0] + jnp.exp(x[1]) * x[2:]
        return log_prior(x) + Normal(theta, ERRORS).log_prob(jnp.asarray(EFFECTS))

    def sample(key):
        one, two, three = jax.random.split(key, 3)
        mu, tau = 5 * jax.random.normal(one), 5 * jnp.abs(jax.random.cauchy(two))
        z = jax.random.normal(three, (8,))
        rest = mu + tau * z if centred else z
        return jnp.concatenate([jnp.stack([mu, jnp.log(tau)]), rest])

    prior = aide.Tractable(sample, log_prior, label="the prior")
    return Posterior(prior, log_joint, _schools_evidence())


def _schools_evidence():
    """Quadrature over mu and log tau; the effects are integrated out."""
    mu, log_tau = np.linspace(-40, 40, 1601)[:, None], np.linspace(-14, 12, 2601)[None, :]
    tau = np.exp(log_tau)
    total = -0.5 * (mu / 5) ** 2 - np.log(5 * np.sqrt(2 * np.pi))
    total = total + np.log(2 / (5 * np.pi)) - np.log1p((tau / 5) ** 2) + log_tau
    for effect, error in zip(EFFECTS, ERRORS, strict=True):
        variance = error**2 + tau**2
        total = total - 0.5 * (effect - mu) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)
    inner = np.trapezoid(np.exp(total - total.max()), log_tau[0], axis=1)
    return float(np.log(np.trapezoid(inner, mu[:, 0])) + total.max())


def hierarchical_poisson(num_groups=20, num_data=5):
    """Counts in groups, with an effect per group and one slope; 23 dimensions, not centred."""
    rng = np.random.default_rng(8)
    slopes = rng.normal(size=(num_groups, num_data))
    levels = 0.5 + 0.7 * rng.normal(size=num_groups)
    counts = rng.poisson(np.exp(levels[:, None] + 0.4 * slopes)).astype(float)
    prior = Normal(np.zeros(3 + num_groups), 1.0)

    def log_joint(x):
        levels = x[0] + jnp.exp(x[2]) * x[3:]
        rate = levels[:, None] + x[1] * jnp.asarray(slopes)
        constant = jax.scipy.special.gammaln(jnp.asarray(counts) + 1)
        return prior.log_prob(x) + jnp.sum(counts * rate - jnp.exp(rate) - constant)

    return Posterior(prior, log_joint)


def stochastic_volatility(num=200):
    """Log volatilities as an autoregression, with level, persistence and spread unknown.

    The state has the autoregression in units of its spread, each value given the one before, so
    that the density needs no loop over time.
    """
    rng = np.random.default_rng(9)
    level, persistence, spread = -1.0, 0.95, 0.25
    path = np.empty(num)
    path[0] = spread / np.sqrt(1 - persistence**2) * rng.normal()
    for t in range(1, num):
        path[t] = persistence * path[t - 1] + spread * rng.normal()
    data = np.exp((level + path) / 2) * rng.normal(size=num)

    def log_prior(x):
        first, steps = jnp.cosh(x[1] + 1.5), x[4:] - jnp.tanh(x[1] + 1.5) * x[3:-1]
        log_first = Normal(0.0, first).log_prob(x[3])  # 1 / sqrt(1 - tanh**2) is cosh
        return Normal(0.0, 1.0).log_prob(x[:3]) + log_first + Normal(0.0, 1.0).log_prob(steps)

    def sample(key):
        one, two = jax.random.split(key)
        x, noise = jax.random.normal(one, (3,)), jax.random.normal(two, (num,))
        follow = lambda last, z: (jnp.tanh(x[1] + 1.5) * last + z,) * 2
        first = jnp.cosh(x[1] + 1.5) * noise[0]
        return jnp.concatenate([x, first[None], jax.lax.scan(follow, first, noise[1:])[1]])

    def log_joint(x):
        levels = x[0] + jnp.exp(0.5 * x[2] - 1.5) * x[3:]
        scales = jnp.exp(jnp.clip(levels, -60.0, 60.0) / 2)  # beyond is no volatility of ours
        return log_prior(x) + Normal(0.0, scales).log_prob(jnp.asarray(data))

    return Posterior(aide.Tractable(sample, log_prior, label="the prior"), log_joint)


def ising_torus(coupling, size=16):
    """The Ising model on a torus: spins 0 and 1, from fair coins; log Z by Kaufman's formula."""

    def log_joint(x):
        spins = 2.0 * x - 1.0
        pairs = spins * (jnp.roll(spins, 1, 0) + jnp.roll(spins, 1, 1))
        return coupling * jnp.sum(pairs)

    def fair(key):
        return jax.random.bernoulli(key, 0.5, (size, size)).astype(int)

    start = aide.Tractable(
        fair, lambda x: jnp.asarray(-(size**2) * np.log(2.0)), label="fair coins"
    )
    return Posterior(start, log_joint, kaufman(coupling, size, size))


def kaufman(coupling, rows, columns):
    r"""$\log Z$ of the Ising model on a torus (Kaufman 1949)."""
    places = np.arange(2 * columns)
    inner = np.cosh(2 * coupling) / np.tanh(2 * coupling) - np.cos(np.pi * places / columns)
    gammas = np.arccosh(np.maximum(inner, 1.0))
    gammas[0] = 2 * coupling + np.log(np.tanh(coupling))  # negative above the critical temperature
    half = 0.5 * rows * gammas
    log_cosh = lambda a: np.sum(np.logaddexp(a, -a))
    magnitudes = lambda a: np.sum(np.abs(a) + np.log(-np.expm1(-2 * np.abs(a))))
    odd, even = half[1::2], half[0::2]
    with np.errstate(divide="ignore"):
        terms = [log_cosh(odd), magnitudes(odd), log_cosh(even), magnitudes(even)]
    signs = np.array([1.0, 1.0, 1.0, np.prod(np.sign(even))])
    peak = max(terms)
    total = np.log(np.sum(signs * np.exp(np.array(terms) - peak))) + peak
    return float(total - np.log(2) + 0.5 * rows * columns * np.log(2 * np.sinh(2 * coupling)))


POSTERIORS = {
    "Gaussian, 50-D, condition 1e4": gaussian,
    "funnel, 10-D": funnel,
    "many-well, 32-D": many_well,
    "10 far Gaussians, 10-D": far_modes,
    "logistic regression, 35-D": lambda: Posterior(*logistic_regression(351, 34, 0.5, 1)),
    "logistic regression, 61-D": lambda: Posterior(*logistic_regression(208, 60, 0.5, 1)),
    "eight schools, centred": lambda: eight_schools(True),
    "eight schools, not centred": lambda: eight_schools(False),
    "hierarchical Poisson, 20 groups": hierarchical_poisson,
    "stochastic volatility, T = 200": stochastic_volatility,
    "Ising 16x16, J = 0.3": lambda: ising_torus(0.3),
    "Ising 16x16, critical": lambda: ising_torus(float(np.log(1 + np.sqrt(2)) / 2)),
    "Ising 16x16, J = 0.6": lambda: ising_torus(0.6),
}
"""By the names of the table in docs/how_to/gold_standard.md."""
