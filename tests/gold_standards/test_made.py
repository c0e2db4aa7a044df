"""Gold standards from beginning to end, against exact answers; compiling them takes long."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions
import pytest
from scipy import stats
from support import Z_MAX, laws

import aide
from aide._core.types import GOLD
from aide.engine.runners.choose import run_pairs
from aide.gold_standards.pilots.tuners import HmcTuner
from aide.problems import IsingModel, LocalLevelModel
from aide.problems.distributions import Categorical, Normal

pytestmark = pytest.mark.full
KEY, PRIOR, START = jax.random.key(0), Normal(0.0, 1.0), Normal(np.zeros(2), 2.0)
SMALL: dict[str, Any] = {"num_pilots": 200, "max_looseness": 0.3, "progress": False}


class LogJoint(eqx.Module):
    """A prior, one precise observation and a little curvature."""

    place: float = 0.5

    def __call__(self, x):
        seen = Normal(jnp.array([self.place, -0.4]), np.array([1.0, 0.3])).log_prob(x)
        return START.log_prob(x) + seen - 0.1 * x[0] ** 2 * x[1] ** 2


def log_small(x):
    return PRIOR.log_prob(x) + Normal(x, 0.7).log_prob(0.4)


def assert_log_z(gold, truth, limit=4.0):
    value, error = gold.record.log_evidence
    assert abs(value - truth) < limit * error, (value, truth, error)


def test_without_time_for_a_wider_start_it_does_not_pass():
    walk = aide.kernels.RandomWalk(1.0)
    late = aide.gold_standard(KEY, log_small, PRIOR, kernel=walk, max_seconds=1e-3, **SMALL)
    assert np.isfinite(late.simulate(KEY).log_xi)
    assert "none of its tests came to an end" in late.record.doubts
    assert late.rival is None
    assert late.verdict == "undecided"
    assert any("40% of max_seconds=0.001 had passed" in one for one in late.record.remarks)


@pytest.fixture(scope="module")
def tuned():
    """In two dimensions, by HMC that pilots tuned."""
    return aide.gold_standard(KEY, LogJoint(), START, **SMALL)


def assert_law_2(one, log_joint, num_particles):
    """Of the frozen algorithm with so many particles; and a wrong constant is rejected."""
    recipe = one.recipe._replace(num_particles=num_particles)
    frozen = recipe.build(one.start, log_joint, HmcTuner(True))
    pairs = run_pairs(jax.random.key(4), frozen, GOLD, 20_000)
    log_ratio = pairs.regenerated - pairs.log_xi
    assert laws.swap_information(log_ratio) > 200
    assert abs(laws.swap_z(log_ratio)) < Z_MAX
    assert abs(laws.exchange_z(log_ratio)) < Z_MAX
    assert abs(laws.swap_z(log_ratio + 0.2)) > Z_MAX  # control: a wrong constant


@pytest.mark.parametrize("num_particles", [1, 2, 3])
def test_the_frozen_algorithm_obeys_law_2(tuned, num_particles):
    one = tuned.making.content.recipes[0]
    assert "leapfrog" in repr(tuned)
    assert_law_2(one, LogJoint(), num_particles)


@pytest.fixture(scope="module")
def straightened():
    """A small funnel, whose start neither reaches its mouth nor its neck."""
    return aide.gold_standard(KEY, _log_funnel, Normal(np.zeros(4), 1.5), progress=False)


def _log_funnel(x):
    return Normal(0.0, 2.0).log_prob(x[0]) + Normal(0.0, jnp.exp(x[0] / 2)).log_prob(x[1:])


def _draw_funnel(key):
    z = jax.random.normal(key, (4,))
    return jnp.concatenate([2 * z[:1], jnp.exp(z[0]) * z[1:]])


def test_a_funnel_is_straightened_and_covered(straightened):
    assert "3 are scaled by others" in repr(straightened)
    assert "heavy tails about what pilots found" in repr(straightened)
    assert straightened.record.passed, straightened
    assert_log_z(straightened, 0.0)
    exact = aide.Tractable(_draw_funnel, _log_funnel)
    found = aide.estimate(jax.random.key(3), exact, straightened, num_gold=400, num_target=400)
    assert found.value < 0.1 + Z_MAX * found.std_error
    assert found.value < 0.3


@pytest.mark.parametrize("num_particles", [1, 2, 3])
def test_the_straightened_algorithm_obeys_law_2(straightened, num_particles):
    one = straightened.making.content.recipes[0]
    assert_law_2(one, _log_funnel, num_particles)


def test_an_audit_costs_no_more_than_an_estimate():
    """Counted in runs and meta-runs times what each costs, at defaults; it passes."""
    gold = aide.gold_standard(KEY, LogJoint(), START, num_pilots=200, progress=False)
    found = aide.audit(jax.random.key(1), gold, progress=False)
    assert found.verdict == "passed", found
    names = [test.name for test in found.tests]
    assert "itself from another start, tuned there" in names
    one, other = gold.making.content.recipes
    ratio = _leapfrogs(other) / _leapfrogs(one)
    costs = {"half": 0.5, "double": 2.0, "another": ratio}
    spent = found.tests[0].estimate.draws.gold.own.size  # shared by all comparisons
    for test in found.tests:
        draws = test.estimate.draws
        (cost,) = [value for name, value in costs.items() if name in test.name]
        spent += draws.target.cross.size + cost * (draws.target.own.size + draws.gold.cross.size)
    target = aide.Tractable.of(START)
    draws = aide.estimate(jax.random.key(2), gold, target, progress=False).draws
    limit = draws.gold.own.size + draws.target.cross.size
    print(f"audit / estimate: {spent / limit:.2f} with a rival at {ratio:.2f} of the cost")
    assert spent <= limit
    stated = aide.estimate(
        jax.random.key(2), gold, target, num_gold=5, num_target=5, audit=found, progress=False
    )
    assert "audit passed at 0.5 nats, against itself at half the budget" in repr(stated)


def _leapfrogs(one):
    return float(np.sum(one.recipe.settings[..., 1] + 2))


def test_without_a_gradient_it_walks():
    def outside(x):  # JAX calls back in another thread, where double precision is off
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        value = lambda z: np.asarray(-0.5 * ((np.asarray(z) - 1.0) / 0.2) ** 2, np.float32)
        return jax.pure_callback(value, shape, x, vmap_method="expand_dims")

    gold = aide.gold_standard(KEY, outside, Normal(0.0, 2.0), **SMALL)
    assert "random walk (there is no gradient)" in repr(gold)
    assert_log_z(gold, np.log(0.2 * np.sqrt(2 * np.pi)))


def test_gibbs_sweeps_on_spins():
    model = IsingModel(0.4, 0.1, shape=(3, 3))
    gold = aide.gold_standard(KEY, model.log_density, model.uniform(), progress=False)
    assert "Gibbs sweeps over 9 sites of 2 values" in repr(gold)
    assert gold.rival is None
    assert_log_z(gold, float(model.log_partition()))
    found = aide.estimate(jax.random.key(1), model.exact(), gold, progress=False)
    assert found.value - 2 * found.std_error <= 0.1
    cost = aide.audit(jax.random.key(2), gold, progress=False)
    assert cost.tests[0].estimate.draws.gold.own.shape[0] == 60


@pytest.mark.parametrize("num_values", [40, 60])
def test_integers_beyond_the_draws_of_the_start(num_values):
    """Half of the mass is at counts that hardly one of the start's draws has."""
    prior = numpyro.distributions.Poisson(3.0)
    log_joint = lambda x: prior.log_prob(x) + Normal(1.0 * x, 1.5).log_prob(14.0)
    gold = aide.gold_standard(KEY, log_joint, prior, num_values=num_values, progress=False)
    counts = np.arange(200)
    joint = stats.poisson.pmf(counts, 3.0) * stats.norm.pdf(14.0, counts, 1.5)
    assert_log_z(gold, np.log(joint.sum()), Z_MAX)
    exact = aide.Tractable.of(Categorical(jnp.asarray(joint[:100])))
    found = aide.estimate(jax.random.key(1), exact, gold, progress=False)
    assert found.value - Z_MAX * found.std_error <= 0.1


def test_sites_with_different_numbers_of_values():
    """A table indexed with JAX, which clamps: a site that left its range would not be noticed."""
    table = np.array([[0.0, 1.0, 2.0, 0.0, -1.0, 3.0], [2.0, 1.0, 0.0, 0.0, 3.0, 1.0]])
    start = numpyro.distributions.DiscreteUniform(np.zeros(2, int), np.array([1, 5])).to_event(1)
    log_joint = lambda x: jnp.asarray(table)[x[0], x[1]]
    gold = aide.gold_standard(KEY, log_joint, start, progress=False)
    assert_log_z(gold, np.log(np.exp(table).sum()), Z_MAX)
    draws = aide.draw(jax.random.key(1), gold, gold, num_gold=200, num_target=1, keep_values=True)
    assert np.all(np.asarray(draws.gold.values) < np.array([2, 6]))


def test_a_state_space_model():
    data = np.array([0.3, -0.2, 1.1, 2.0, 1.4, 0.2, -0.7, -1.5])
    model = LocalLevelModel(data, 0.7, 0.6)
    proposals = [model.optimal_proposal()]
    gold = aide.gold_standard(KEY, model.state_space(), proposals=proposals, progress=False)
    assert ("proposal", "proposal 1") in gold.rows()
    assert "itself with another proposal" in repr(gold)
    assert_log_z(gold, float(model.log_evidence()))
    found = aide.estimate(jax.random.key(1), model.posterior(), gold, progress=False)
    assert found.value - 2 * found.std_error <= 0.1
    assert gold.record.reached


def two_modes(x):
    far = Normal(np.array([9.0, 0.0]), 0.5).log_prob(x)
    return jnp.logaddexp(Normal(np.array([-9.0, 0.0]), 0.5).log_prob(x), far)


def test_a_mode_that_no_start_reaches_cannot_be_seen():
    """It agrees with itself and is wrong by log 2; the words say what no such test sees."""
    narrow = Normal(np.array([-9.0, 0.0]), 1.0)
    gold = aide.gold_standard(KEY, two_modes, narrow, **SMALL)
    assert_log_z(gold, 0.0)
    assert "A mode that no start and no pilot visited." in repr(gold)
    assert gold.record.passed
    whole = aide.gold_standard(KEY, two_modes, Normal(np.zeros(2), 8.0), **SMALL)
    assert_log_z(whole, np.log(2.0))


def test_both_modes_are_found_from_one_state():
    gold = aide.gold_standard(KEY, two_modes, np.zeros(2), **SMALL)
    assert "heavy tails about 2 modes that optimisers found" in repr(gold)
    assert_log_z(gold, np.log(2.0))


def test_a_start_that_is_the_posterior():
    gold = aide.gold_standard(KEY, START.log_prob, START, **SMALL)
    assert gold.record.looseness[0] == pytest.approx(0.0, abs=1e-9)
    assert gold.record.log_evidence[0] == pytest.approx(0.0, abs=1e-9)
    assert not any("forgets little" in text for text in gold.notes)


def test_a_start_that_lies_mostly_outside_the_support():
    """Three quarters of its draws have no density; the evidence is that of the rest."""
    inside = lambda x: jnp.where(jnp.all(x > 0), START.log_prob(x), -jnp.inf)
    gold = aide.gold_standard(KEY, inside, START, **SMALL)
    assert_log_z(gold, np.log(0.25))


def test_nan_next_to_the_posterior_is_an_error_that_says_where():
    """No draw of the start is there, but the path leads to it."""
    far = Normal(np.array([12.0, 0.0]), 0.5)
    wrong = lambda x: jnp.where(x[0] > 11.0, jnp.nan, far.log_prob(x))
    with pytest.raises(ValueError, match=r"temperature 1\), for example at far = 1[1-9]\."):
        aide.gold_standard(KEY, wrong, START, names=["far", "near"], **SMALL)


def test_nan_far_outside_is_impossible_counted_and_reported():
    """A rate overflows: inf - inf at x[0] > 3, where the posterior has no mass (22 sd away)."""
    log_joint = lambda x: (
        START.log_prob(x) + 4.0 * jnp.exp(250.0 * x[0]) - 5.0 * jnp.exp(250.0 * x[0])
    )
    assert np.isnan(log_joint(jnp.array([6.0, 0.0])))
    gold = aide.gold_standard(KEY, log_joint, START, **SMALL)
    (note,) = [text for text in gold.notes if "NaN or +inf" in text]
    assert "all far outside: none of" in note
    assert "count as impossible" in note
    assert_log_z(gold, np.log(0.5) - 0.0009)
    assert gold.verdict == "passed", gold
