r"""The theorem: AIDE's estimate lies above the divergence and falls with more meta-inference.

With kernels that sample each tempered density exactly, AIS with temperatures $\beta_{1:T}$ returns
$x \sim p_{\beta_{T-1}}$, so that its output density and its looseness are known:
$E[\log\xi - \log q(x)] = \sum_{t=1}^{T-1} KL(p_{t-1} \| p_t)$. (The paper's supplement prints the
sum from 2 to T.)
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX, toys, z_score
from support.laws import draw

import aide
from aide.problems.distributions import Normal


def gaussian_kl(mean, variance, other_mean, other_variance):
    """KL(N(mean, variance) || N(other_mean, other_variance))."""
    ratio = variance / other_variance
    return 0.5 * (ratio + (mean - other_mean) ** 2 / other_variance - 1 - np.log(ratio))


def redraw(key, log_density, x):
    """Sample a Gaussian density exactly: its mean and variance from two derivatives."""
    slope = jax.grad(log_density)
    precision = -jax.grad(slope)(x)
    return x + slope(x) / precision + jax.random.normal(key, (), float) / jnp.sqrt(precision)


def log_end(x):
    """Unnormalised N(1, 0.5^2)."""
    return -0.5 * ((x - 1.0) / 0.5) ** 2 + 0.9


class Path:
    """AIS with perfect mixing from N(mean, std^2), and the Gaussians along its path."""

    def __init__(self, mean, std, temperatures):
        self.start, self.temperatures = (mean, std), [0.0, *temperatures]
        kernel = aide.kernels.Kernel(redraw, reversible=True)
        prior = Normal(mean, std)
        self.algorithm = aide.ais(prior, log_end, kernel=kernel, temperatures=temperatures)

    def moments(self, beta):
        mean, std = self.start
        precision = (1 - beta) / std**2 + beta / 0.5**2
        centre = ((1 - beta) * mean / std**2 + beta * 1.0 / 0.5**2) / precision
        return centre, 1 / precision

    def kl(self, t):
        """KL(p_{t-1} || p_t)."""
        before, after = self.temperatures[t - 1 : t + 1]
        return gaussian_kl(*self.moments(before), *self.moments(after))

    def output(self):
        mean, variance = self.moments(self.temperatures[-2])
        return Normal(mean, np.sqrt(variance))


GOLD = Path(0.0, 3.0, [0.1, 0.3, 0.6, 1.0])
TARGET = Path(-0.5, 1.5, [0.3, 1.0])


@pytest.mark.full
def test_looseness_of_perfectly_mixing_ais():
    exact = aide.Tractable.of(GOLD.output())
    draws = draw(GOLD.algorithm, exact, 20_000, 10, 20)
    excess = draws.gold.own[:, 0] - draws.gold.cross[:, 0]
    right = sum(GOLD.kl(t) for t in range(1, 4))
    misindexed = sum(GOLD.kl(t) for t in range(2, 5))
    assert abs(z_score(excess, right)) < Z_MAX
    assert abs(z_score(excess, misindexed)) > 2 * Z_MAX


@pytest.fixture(scope="module")
def two_ais():
    """Two approximate algorithms with known output densities, M = 10 on both sides."""
    metas = {"num_meta_gold": 10, "num_meta_target": 10}
    return aide.summarise(draw(GOLD.algorithm, TARGET.algorithm, 4_000, 4_000, 20, **metas))


def terms(draws, num_gold, num_target):
    """The terms of both directions for smaller M, own traces kept."""
    gold = draws.gold.kept(num_gold) - draws.gold.scored(num_target)
    return gold, draws.target.kept(num_target) - draws.target.scored(num_gold)


def sum_z(pair, expected=0.0):
    """Z of the sum of two independent means."""
    error = np.sqrt(sum(part.var(ddof=1) / part.size for part in pair))
    return (sum(part.mean() for part in pair) - expected) / error


def divergence():
    """The symmetrised KL divergence of the two output densities."""
    gold, target = GOLD.moments(0.6), TARGET.moments(0.3)
    return gaussian_kl(*gold, *target) + gaussian_kl(*target, *gold)


@pytest.mark.parametrize("more", [(1, 10), (10, 1)])
@pytest.mark.full
def test_more_meta_inference_lowers_the_estimate(two_ais, more):
    """On the same runs, M = 10 of either algorithm beats M = 1."""
    pairs = zip(terms(two_ais.draws, 1, 1), terms(two_ais.draws, *more), strict=True)
    assert sum_z([one - ten for one, ten in pairs]) > 2 * Z_MAX


def test_the_estimate_stays_above_the_divergence(two_ais):
    for counts in [(1, 1), (1, 10), (10, 1), (10, 10)]:
        assert sum_z(terms(two_ais.draws, *counts), divergence()) > -Z_MAX
    assert sum_z(terms(two_ais.draws, 10, 10)) == pytest.approx(two_ais.value / two_ais.std_error)


@pytest.fixture(scope="module")
def sir_excess():
    """SIR with two particles, whose output density is known by quadrature, and a narrow gold."""
    target = aide.sir(toys.PRIOR, toys.log_joint, num_particles=2)
    gold = aide.Tractable.of(Normal(1.0, 0.25))
    draws = draw(gold, target, 10_000, 10_000, 20, keep_values=True)
    log_q = lambda values: np.array([toys.log_sir_density(x, 2) for x in values])
    scored = log_q(draws.gold.values) - draws.gold.scored(1)
    at_own = log_q(draws.target.values)
    return scored, draws.target.kept(1) - at_own, draws.target.fresh(1) - at_own


@pytest.mark.full
def test_each_direction_errs_upwards(sir_excess):
    """Against the exact terms on the same outputs."""
    scored, kept, _ = sir_excess
    assert z_score(scored) > 2 * Z_MAX
    assert z_score(kept) > 2 * Z_MAX


def test_without_the_own_trace_the_bound_breaks(sir_excess):
    """Fresh traces alone score the target's own outputs too low, by more than the gold's."""
    scored, _, fresh = sir_excess
    assert sum_z([scored, fresh]) < -2 * Z_MAX
