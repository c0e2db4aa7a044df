r"""Outputs that occur again, and zeros that rest on one density, do not pass for certainty."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pairs import KEY, gaussian, run

import aide
from aide.engine.outputs import fingerprints_of
from aide.estimation.terms import rests_on_one_density
from aide.problems.distributions import Categorical, Normal

NORMAL = Normal(0.3, 1.1)
POOL = np.random.default_rng(0).normal(0.3, 1.1, 50)


def stored(draws):
    """Reference draws with a density known up to a constant."""
    draws = np.asarray(draws)
    pick = lambda key: jnp.asarray(draws)[jax.random.randint(key, (), 0, len(draws))]
    return aide.Tractable(pick, lambda x: NORMAL.log_prob(x) + 2.0, log_z=None)


def _notes(result, *words):
    return [note for note in result.notes if all(word in note for word in words)]


@pytest.mark.parametrize(
    "sample",
    [lambda key: np.random.default_rng(3).normal(), lambda key: jnp.zeros(())],
    ids=["np.random", "constant"],
)
def test_a_sampler_that_ignores_its_key_is_refused(sample):
    frozen = aide.Tractable(sample, NORMAL.log_prob)
    with pytest.raises(ValueError, match=r"20 runs of the gold .*same output x = .*ignore its key"):
        run(frozen, gaussian(0.3, 1.1))


def test_integers_may_occur_again():
    coin = aide.Tractable.of(Categorical(jnp.array([1.0, 0.0])))
    other = aide.Tractable.of(Categorical(jnp.array([0.5, 0.5])))
    assert run(coin, other, 100, 100).value == pytest.approx(np.inf)
    assert fingerprints_of((np.zeros(3), np.zeros(3, int))) is None


def test_draws_from_a_stored_list_are_seen():
    result = run(stored(POOL), gaussian(0.2, 1.0), 500, 100)
    (note,) = _notes(result, "500 outputs of the gold standard", "only 50 different")
    assert f"{np.sqrt(11):.1f} times too small" in note
    assert not _notes(run(gaussian(0.3, 1.1), gaussian(0.2, 1.0), 200, 200), "different ones")


def test_kept_runs_keep_the_marks():
    pair = (stored(POOL), gaussian(0.2, 1.0))
    first = aide.draw(KEY, *pair, num_gold=120, num_target=100)
    more = aide.draw(KEY, *pair, num_gold=200, num_target=100, extend=first)
    assert _notes(aide.summarise(more), "200 outputs of the gold standard")
    again = aide.draw(KEY, *pair, num_gold=120, num_target=100, share=first)
    assert _notes(aide.summarise(again), "120 outputs of the gold standard")


def test_saved_draws_keep_the_marks(tmp_path):
    first = aide.draw(KEY, stored(POOL), stored(POOL[:10]), num_gold=60, num_target=60)
    aide.engine.save(first, tmp_path / "draws.nc")
    assert aide.estimation.Estimate.load(tmp_path / "draws.nc").notes == aide.summarise(first).notes


def test_two_halves_of_the_draws_rest_on_one_density():
    result = run(stored(POOL[:25] + 3.0), stored(POOL[25:]), 100, 100)
    assert result.value == pytest.approx(0.0, abs=1e-12)
    assert rests_on_one_density(result.draws)
    assert _notes(result, "same density at every output", "aide.check")
    assert result.total_variation() == 1.0  # nothing is claimed about outputs that lie apart
    assert "by at most" not in repr(result)
    assert "divergence ≤" not in repr(result)
    assert result.sandwich().upper == np.inf


def test_an_algorithm_against_itself_is_exactly_zero():
    result = run(gaussian(0.1, 0.7), gaussian(0.1, 0.7), 100, 100)
    assert result.draws.same_algorithm
    assert not rests_on_one_density(result.draws)
    assert not rests_on_one_density(run(gaussian(0.1, 0.7), gaussian(0.2, 0.7)).draws)


def test_same_algorithm():
    same = lambda one, other: run(one, other, 3, 3).draws.same_algorithm
    one = gaussian(0.1, 0.7)
    assert same(one, gaussian(0.1, 0.7, "another label"))
    assert not same(one, gaussian(0.1, 0.8))
    assert not same(stored(POOL[:25]), stored(POOL[25:]))
    assert not same(one, aide.sir(Normal(0.1, 0.7), NORMAL.log_prob, num_particles=1))


def test_draws_in_single_precision_are_exact_all_the_same():
    """Scored in single precision, log xi would differ by 1e-7 between two programs."""
    mean = jnp.linspace(-1.0, 1.0, 20, dtype=jnp.float32)
    single = lambda shift: aide.Tractable(
        lambda key: mean + shift + jax.random.normal(key, (20,), jnp.float32),
        lambda x: jnp.sum(-0.5 * (x - mean - shift) ** 2),
    )
    result = run(single(0.0), single(0.1), 100, 100)
    assert result.looseness.gold is not None
    assert abs(result.looseness.gold.value) < 1e-12
    assert result.sandwich().exact
