"""`aide.check` on reference draws: a density that is consistently wrong is seen, Z known or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aide
from aide.checking.algorithm.moved_runs import moved_law

KEY = jax.random.key(11)
NUM_RUNS = 1000
"""Plain Python is run one by one."""
NORMAL = np.random.default_rng(1).normal([0.7, -0.4], 1.0, size=(1000, 2))
LOG_GAMMA = np.log(np.random.default_rng(2).gamma(3.0, size=1000))


def reference(draws, log_density, log_z=None):
    """A sampler that picks from stored draws, with a density somebody wrote down."""
    draws = jnp.asarray(draws)
    pick = lambda key: draws[jax.random.randint(key, (), 0, len(draws))]
    return aide.Tractable(pick, log_density, log_z=log_z)


def law_6(report):
    return [item for item in report.evidence if item.law == 6]


def test_a_sign_error_fails_with_reference_draws():
    mean = jnp.array([0.7, -0.4])
    right = aide.check(KEY, reference(NORMAL, lambda x: -0.5 * jnp.sum((x - mean) ** 2)))
    assert right.passed, right
    assert "law 6           Among an output and its moved copies" in repr(right)
    assert all(e.p_value is None for e in right.evidence if e.law == 1)
    wrong = aide.check(KEY, reference(NORMAL, lambda x: -0.5 * jnp.sum((x + mean) ** 2)))
    assert wrong.verdict == "failed"
    assert {item.law for item in wrong.failures} == {6}
    assert "a sign, a Jacobian" in repr(wrong)


@pytest.mark.full
def test_a_missing_jacobian_fails_with_reference_draws():
    """Of a scale with a Gamma(3) law, on a logarithmic axis."""
    right = reference(LOG_GAMMA, lambda x: 3 * x - jnp.exp(x))
    wrong = reference(LOG_GAMMA, lambda x: 2 * x - jnp.exp(x))
    assert aide.check(KEY, right).passed
    assert aide.check(KEY, wrong).verdict == "failed"


def test_a_missing_jacobian_fails_with_an_exact_sampler():
    sample = lambda key: jnp.log(jax.random.gamma(key, 3.0))
    report = aide.check(KEY, aide.Tractable(sample, lambda x: 2 * x - jnp.exp(x), log_z=None))
    assert 6 in {item.law for item in report.failures}


def test_moved_copies_see_no_constant_and_do_not_vouch_for_one():
    report = aide.check(KEY, reference(LOG_GAMMA, lambda x: 3 * x - jnp.exp(x), log_z=0.0))
    assert report.verdict == "undecided"
    assert "Whether Z is what log_z says was not tested: real numbers" in repr(report)


class Plain:
    """N(0.5, 1) in NumPy; optionally its density is that of -x."""

    def __init__(self, sign=1.0):
        self.sign = sign

    def simulate(self, rng):
        x = rng.normal(0.5, 1.0)
        return x, self.regenerate(rng, x)

    def regenerate(self, rng, x):
        return -0.5 * (x - self.sign * 0.5) ** 2


@pytest.mark.full
def test_plain_python():
    right, wrong = (
        aide.check(KEY, aide.PythonAlgorithm(Plain(sign), log_z=None), num_runs=NUM_RUNS)
        for sign in (1.0, -1.0)
    )
    assert right.passed, right
    assert law_6(wrong)[0] in wrong.failures


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (lambda r: r.dirichlet(np.ones(3), 800), "lie on a subspace"),
        (lambda r: r.random(800) < 0.5, "can be moved"),
        (lambda r: r.choice(r.normal(size=60), 800), "different outputs could be moved"),
        (lambda r: np.where(r.random(800) < 0.01, np.inf, r.normal(size=800)), "infinite"),
    ],
)
def test_outputs_without_a_density_are_not_judged(values, words):
    """On a simplex, booleans, a short list, infinities."""
    x = values(np.random.default_rng(0))
    plain = aide.PythonAlgorithm(Plain(), log_z=None)
    found = moved_law(KEY, plain, x, x, np.zeros(800), 100, "any")
    assert found.p_value is None
    assert words in found.words


class Half:
    """An exponential law whose density is NaN on the other side of 0."""

    def simulate(self, rng):
        x = rng.exponential()
        return x, -x

    def regenerate(self, rng, x):
        return -float(x) if x > 0 else np.nan


def test_a_nan_beside_the_outputs_is_said_and_is_no_verdict():
    x = np.random.default_rng(0).exponential(size=800)
    found = moved_law(KEY, aide.PythonAlgorithm(Half(), log_z=0.0), x, x, -x, 100, "any")
    assert found.p_value is None
    assert "log_xi is nan at x = -" in found.words
    assert "-inf is the answer" in found.words


class Slab:
    """A spike at 0 beside a normal number and a count: what has atoms stays where it is."""

    def __init__(self, wrong=0.0):
        self.wrong = wrong

    def simulate(self, rng):
        slab = rng.random() < 0.5
        x = {"k": rng.integers(0, 3), "spike": rng.normal() * slab, "x": rng.normal()}
        return x, self.regenerate(rng, x)

    def regenerate(self, rng, x):
        assert 0 <= x["k"] < 3  # never asked about a count that does not exist
        density = -0.5 * x["x"] ** 2 + self.wrong * (x["x"] + x["k"])
        return float(density - 0.5 * x["spike"] ** 2)


def test_atoms_and_integers_beside_real_numbers():
    for wrong, verdict in ((0.0, "passed"), (2.0, "failed")):
        algorithm = aide.PythonAlgorithm(Slab(wrong), log_z=None)
        report = aide.check(KEY, algorithm, num_runs=NUM_RUNS)
        assert report.verdict == verdict
        assert law_6(report)[0].p_value is not None
