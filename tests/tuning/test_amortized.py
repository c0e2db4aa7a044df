"""An amortised posterior on many observations: closed forms, ranks, outsiders, foreign objects."""

import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX

import aide
from aide.problems import Normal
from aide.tuning import observed_runs
from aide.tuning.outside import find_outside

NUM = 2000
NOISE = 0.5
PRECISION = 1.0 + 3.0 / NOISE**2
SPREAD = PRECISION**-0.5


def simulate(seed, num):
    """Three noisy observations of a standard normal parameter."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(num, 1)) + NOISE * rng.normal(size=(num, 3))


def centre(y):
    return y.sum(-1) / NOISE**2 / PRECISION


def exact(y):
    return Normal(centre(y), SPREAD)


def amortized(y):
    """Off where the data are far from 0, and too wide where the first number is large."""
    return Normal(centre(y) + 0.05 * centre(y) ** 2, SPREAD * jnp.exp(0.1 + 0.1 * jnp.tanh(y[0])))


def divergences(y, off=0.05):
    """The symmetrised KL divergence between `exact` and `amortized`, in closed form."""
    ratio = np.exp(0.1 + 0.1 * np.tanh(y[:, 0]))
    shift = off * centre(y) ** 2 / SPREAD
    return 0.5 * (ratio**2 + ratio**-2 - 2) + 0.5 * shift**2 * (1 + ratio**-2)


OBSERVATIONS = np.concatenate([simulate(1, NUM - 10), simulate(2, 10) + 6.0])
TRUTH = divergences(OBSERVATIONS)


@pytest.fixture(scope="module")
def found():
    return aide.tuning.measure_amortized(
        0, amortized, OBSERVATIONS, exact, simulated=simulate(3, 2000)
    )


def misses(found, truth):
    limits = np.array([found.interval(i) for i in range(truth.size)])
    return np.mean((truth < limits[:, 0]) | (truth > limits[:, 1]))


def test_intervals_hold_the_closed_form(found):
    """95% intervals miss at most 5% of 2,000 divergences, up to 5 standard errors of that share."""
    most = 0.05 + Z_MAX * np.sqrt(0.05 * 0.95 / NUM)
    assert misses(found, TRUTH) < most
    assert misses(found, divergences(OBSERVATIONS, off=0.08)) > 2 * most


def test_all_observations_share_one_program_of_each_kind():
    calls = []

    def counted(y):
        calls.append(1)
        return amortized(y)

    aide.tuning.measure_amortized(0, counted, OBSERVATIONS[:700], exact, num_gold=4, num_target=4)
    assert len(calls) < 10


def test_blocks_do_not_change_the_numbers(monkeypatch):
    run = lambda: aide.tuning.measure_amortized(5, amortized, OBSERVATIONS[:50], exact, num_gold=8)
    whole = run()
    monkeypatch.setattr(observed_runs, "BLOCK", 16)
    np.testing.assert_allclose(run().values, whole.values, rtol=1e-9)


def test_the_hardest_come_first_and_the_feature_that_makes_them_hard_is_named():
    features = {"distance": np.abs(centre(OBSERVATIONS)), "nothing": simulate(4, NUM)[:, 0]}
    found = aide.tuning.measure_amortized(1, amortized, OBSERVATIONS, exact, features=features)
    assert set(found.order[:5]) <= set(np.argsort(-TRUTH)[:15])
    assert found.hardness is not None
    size = dict(zip(found.hardness.names, found.hardness.coefficients, strict=True))
    error = dict(zip(found.hardness.names, found.hardness.std_errors, strict=True))
    assert size["distance"] > 2 * Z_MAX * error["distance"]
    assert abs(size["nothing"]) < Z_MAX * error["nothing"]
    by_one = aide.tuning.measure_amortized(
        1, amortized, OBSERVATIONS, exact, features=lambda y: {"distance": abs(centre(y))}
    )
    np.testing.assert_array_equal(by_one.features["distance"], features["distance"])


def test_outsiders_are_flagged_and_others_at_the_stated_rate(found):
    assert found.outside is not None
    assert found.outside.flags[-10:].all()
    known = simulate(5, 4000)
    share = find_outside(simulate(6, 20_000), known, 0.01).flags.mean()
    # The distances of 2,000 simulated data sets place the limit, with a spread of its own.
    assert share < 0.01 + Z_MAX * np.sqrt(0.01 * 0.99 * (1 / 20_000 + 1 / 2000))
    assert find_outside(simulate(6, 20_000) * 1.5, known, 0.01).flags.mean() > 0.05


def test_what_is_printed_names_what_was_found(found):
    text = str(found)
    assert "2,000 observations: divergence at most" in text
    assert "lie outside of what was simulated (p ≤ 0.01 each; 20 are expected by chance)" in text
    assert len(found.records()) == NUM
    assert found.plot() is not None


def test_a_sampler_as_gold_standard_bounds_from_above():
    """Importance resampling adds its own looseness, never less than nothing."""

    def sampler(y):
        log_joint = lambda x: Normal(0.0, 1.0).log_prob(x) + Normal(x, NOISE).log_prob(y).sum()
        return aide.sir(Normal(centre(y), 2 * SPREAD), log_joint, num_particles=20)

    some = OBSERVATIONS[:200]
    found = aide.tuning.measure_amortized(0, amortized, some, sampler, num_gold=100, num_target=100)
    excess = found.values - TRUTH[:200]
    error = np.sqrt((found.std_errors**2).sum()) / excess.size
    assert excess.mean() > -Z_MAX * error
    assert excess.mean() < 0.3


class Encoder:
    """What `aide.Amortized` takes: an observation in, a distribution out."""

    def __call__(self, y):
        return amortized(y)

    def __eq__(self, other):
        return isinstance(other, Encoder)

    def __hash__(self):
        return 0


def test_an_amortized_algorithm_is_taken_as_it_is(found):
    given = aide.Amortized(Encoder(), OBSERVATIONS[0])
    same = aide.tuning.measure_amortized(0, given, OBSERVATIONS, exact)
    np.testing.assert_allclose(same.values, found.values, rtol=1e-9)


class LikeSbi:
    """The interface of a posterior of sbi, with NumPy in the place of PyTorch."""

    def sample(self, shape, x):
        x = np.asarray(x)
        mean, scale = self._moments(x)
        noise = np.random.normal(size=(*shape, 1))  # noqa: NPY002  as PyTorch: a global generator
        return mean + scale * noise

    def log_prob(self, theta, x):
        mean, scale = self._moments(np.asarray(x))
        theta = np.asarray(theta)[:, 0]
        return -0.5 * ((theta - mean) / scale) ** 2 - np.log(scale * np.sqrt(2 * np.pi))

    def _moments(self, y):
        y = y.reshape(-1)
        ratio = np.exp(0.1 + 0.1 * np.tanh(y[0]))
        return centre(y) + 0.05 * centre(y) ** 2, SPREAD * ratio


class LikeSbiBatched(LikeSbi):
    """Newer versions of sbi handle many observations in one call."""

    def sample_batched(self, shape, x, show_progress_bars=True):
        assert not show_progress_bars
        return np.stack([self.sample(shape, one) for one in np.asarray(x)], axis=1)

    def log_prob_batched(self, theta, x):
        pairs = zip(np.asarray(theta).swapaxes(0, 1), np.asarray(x), strict=True)
        return np.stack([self.log_prob(*pair) for pair in pairs], axis=1)


class ExactVector:
    """The exact posterior of a parameter vector of length 1, as sbi has them."""

    def __init__(self, y):
        self._normal = exact(y)

    def sample(self, key):
        return self._normal.sample(key)[None]

    def log_prob(self, x):
        return self._normal.log_prob(x[0])


@pytest.mark.parametrize("posterior", [LikeSbi(), LikeSbiBatched()], ids=["one", "batched"])
def test_posteriors_with_the_interface_of_sbi(posterior):
    adapted = aide.sbi.posterior(posterior, "NPE")
    state = np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002
    run = lambda: aide.tuning.measure_amortized(0, adapted, OBSERVATIONS[:400], ExactVector)
    found = run()
    after = np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002
    np.testing.assert_array_equal(state, after)
    np.testing.assert_array_equal(found.values, run().values)
    assert found.name == "NPE"
    most = 0.05 + Z_MAX * np.sqrt(0.05 * 0.95 / 400)
    assert misses(found, TRUTH[:400]) < most
    assert misses(found, divergences(OBSERVATIONS[:400], off=0.1)) > 2 * most


class MCMCPosterior(LikeSbi):
    """The name that sbi gives to posteriors of likelihood estimators."""


def test_what_cannot_be_measured_is_refused_with_the_fix():
    with pytest.raises(TypeError, match="no normalised density.*aide.tempered_smc"):
        aide.sbi.posterior(MCMCPosterior())
    with pytest.raises(TypeError, match="must have sample.*without sample"):
        aide.sbi.posterior(object())
    measure = lambda *args, **options: aide.tuning.measure_amortized(0, *args, **options)
    with pytest.raises(TypeError, match="target must be a function from one observation"):
        measure(3, OBSERVATIONS, exact)
    with pytest.raises(ValueError, match="simulated must hold at least 200 data sets"):
        measure(amortized, OBSERVATIONS, exact, simulated=OBSERVATIONS[:50])
    with pytest.raises(ValueError, match="of 3 numbers each, got 2"):
        measure(amortized, OBSERVATIONS, exact, simulated=np.zeros((500, 2)))
    with pytest.raises(ValueError, match="one leading axis of the same length"):
        measure(amortized, {"a": np.zeros(3), "b": np.zeros(4)}, exact)
    with pytest.raises(ValueError, match=r"features\['a'\] must hold one number for each"):
        measure(amortized, OBSERVATIONS, exact, features={"a": [1.0]})
    nan = lambda y: Normal(jnp.where(y[0] > 1, jnp.nan, 0.0), 1.0)
    with pytest.raises(ValueError, match="log_xi of the target is nan"):
        measure(nan, OBSERVATIONS[:20], exact)


def test_a_posterior_of_the_wrong_shape_is_refused():
    class Wrong:
        def sample_batch(self, key, observations, num):
            return np.zeros((num, len(observations), 1))

        def log_prob_batch(self, values, observations):
            return np.zeros(values.shape[:2])

    with pytest.raises(ValueError, match=r"sample_batch of Wrong .* = \(20, 200, ...\)"):
        aide.tuning.measure_amortized(0, Wrong(), OBSERVATIONS[:20], ExactVector)
