"""Reference draws: what is refused, what is used, what the gradient says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.chains import Normal, ar1, standard_log_joint

import aide
from aide._core.versions import NoSuchVersion

KEY = jax.random.key(5)


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    """Four chains of 50 in two dimensions, stronger correlated than they are long."""
    return ar1(np.random.default_rng(4), 4, 50, 0.5, 2)


@pytest.fixture(scope="module")
def gold(draws: np.ndarray) -> aide.ReferenceDraws:
    """The same with their density."""
    return aide.ReferenceDraws(draws, standard_log_joint, has_chains=True)


@pytest.fixture(scope="module")
def target() -> aide.Tractable:
    """Normals that are shifted and wide."""
    return aide.Tractable.of(Normal(0.3, 1.2, 2))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: np.where(np.arange(50)[:, None] == 3, np.nan, d), "not finite"),
        (lambda d: {"a": d, "b": d[:, :20]}, "must agree"),
        (lambda d: d[0, 0, 0], "leading axes"),
        (lambda d: {}, "at least one array"),
        (lambda d: np.array([["a"]]), "must hold numbers"),
    ],
)
def test_wrong_draws_are_refused(draws: np.ndarray, change: object, words: str) -> None:
    """With what is wrong, and where."""
    with pytest.raises(ValueError, match=words):
        aide.ReferenceDraws(change(draws), lambda x: 0.0, has_chains=True)  # type: ignore


@pytest.mark.parametrize(
    ("log_joint", "words"),
    [
        (lambda x: x, "one number"),
        (lambda x: x.missing, "missing"),
        (3.0, "must be a function"),
    ],
)
def test_wrong_log_joints_are_refused(draws: np.ndarray, log_joint: object, words: str) -> None:
    """At construction, before anything runs."""
    with pytest.raises((ValueError, TypeError, AttributeError), match=words):
        aide.ReferenceDraws(draws, log_joint, has_chains=True)  # type: ignore


@pytest.mark.parametrize("value", [-np.inf, np.nan])
def test_draws_without_density_are_named(
    draws: np.ndarray, target: aide.Tractable, value: float
) -> None:
    """Even one that no run would take."""
    largest = float(draws[:, :, 0].max())
    log_joint = lambda x: jnp.where(x[0] >= largest, value, -0.5 * jnp.sum(x**2))
    wrong = aide.ReferenceDraws(draws, log_joint, has_chains=True)
    with pytest.raises(ValueError, match=f"is {value} at 1 of 200 draws, the first at chain"):
        aide.draw(KEY, wrong, target, num_gold=2, num_target=2)


def test_every_draw_is_used_once(
    gold: aide.ReferenceDraws, draws: np.ndarray, target: aide.Tractable
) -> None:
    """By default all, with their own log joint; one more is an error with both numbers."""
    found = aide.draw(KEY, gold, target, num_target=2, keep_values=True).gold
    assert found.num_runs == 200
    order = np.lexsort(found.values.T)
    flat = draws.reshape(-1, 2)
    np.testing.assert_array_equal(found.values[order], flat[np.lexsort(flat.T)])
    np.testing.assert_allclose(found.own[:, 0], 3 - 0.5 * (found.values**2).sum(axis=1), rtol=1e-12)
    assert (found.own[:, 0] == found.own[:, 1]).all()
    with pytest.raises(ValueError, match=r"num_gold = 201 .* the 200 draws .* at most 200"):
        aide.draw(KEY, gold, target, num_gold=201)
    with pytest.raises(ValueError, match=r"from first_run = 150 on .* at most 50"):
        aide.draw(KEY, gold, target, num_gold=51, first_run=150)


def test_plain_python_gives_the_same(
    gold: aide.ReferenceDraws, draws: np.ndarray, target: aide.Tractable
) -> None:
    """A log joint that JAX cannot trace is called draw by draw."""
    plain = aide.ReferenceDraws(
        draws, lambda x: 3.0 - 0.5 * float(np.sum(np.asarray(x) ** 2)), has_chains=True
    )
    assert not plain.is_traceable
    one, other = (aide.estimate(KEY, g, target, num_gold=30, num_target=20) for g in (gold, plain))
    assert one.value == pytest.approx(other.value, abs=1e-12)
    found, traced = plain.score_check(), gold.score_check()
    assert [test.mean for test in found.tests] == pytest.approx([t.mean for t in traced.tests])


def test_a_single_axis_is_one_chain(draws: np.ndarray) -> None:
    """And a dict of arrays keeps its names."""
    named = aide.ReferenceDraws(
        {"mu": draws[0], "k": np.arange(50)}, lambda x: -x["mu"].sum(), has_chains=False
    )
    assert named.chains[:2] == (1, 50)
    draw = named.simulate(KEY)
    assert any((draw.value["mu"] == row).all() for row in draws[0].astype(draw.value["mu"].dtype))


def test_thinned_and_halves(gold: aide.ReferenceDraws, draws: np.ndarray) -> None:
    """Every so many draws of each chain; both halves."""
    np.testing.assert_array_equal(gold.thinned(5).draws, draws[:, 4::5])
    first, second = gold.halves()
    np.testing.assert_array_equal(np.concatenate([first.draws, second.draws], axis=1), draws)
    slow = aide.ReferenceDraws(
        ar1(np.random.default_rng(6), 4, 2000, 0.95), standard_log_joint, has_chains=True
    )
    assert slow.thinned().effective_size > 0.8 * slow.effective_size
    assert slow.thinned().chains.size < 0.1 * slow.chains.size
    with pytest.raises(ValueError, match="at most the 50 draws"):
        gold.thinned(51)


def test_what_cannot_be_run_says_so(gold: aide.ReferenceDraws) -> None:
    """Checks, diagnoses and audits point to what can be shown."""
    with pytest.raises(NoSuchVersion, match="score_check"):
        aide.check(KEY, gold)
    with pytest.raises(NoSuchVersion, match="fixed list of draws"):
        aide.diagnose(KEY, gold)
    with pytest.raises(NoSuchVersion, match="compare_draws"):
        aide.audit(KEY, gold)


def test_score_check(draws: np.ndarray) -> None:
    """The right density passes; a sign error and a missing Jacobian do not."""
    positive = {"tau": np.exp(draws), "k": np.zeros((4, 50), int)}

    def log_joint(x: dict[str, jax.Array], jacobian: float = 1.0, sign: float = 1.0) -> jax.Array:
        log_tau = jnp.log(x["tau"])
        return sign * (-0.5 * jnp.sum(log_tau**2) - jacobian * jnp.sum(log_tau))

    right = aide.ReferenceDraws(positive, log_joint, has_chains=True).score_check()
    assert right.passed
    assert len(right.tests) == 5  # location and width of both, and the width of all
    for wrong in (lambda x: log_joint(x, jacobian=0.0), lambda x: log_joint(x, sign=-1.0)):
        found = aide.ReferenceDraws(positive, wrong, has_chains=True).score_check()
        assert found.verdict == "failed"
        assert found.worst[0].coordinate.startswith("tau")
    assert "log Jacobian" in repr(found)
    assert found.to_dict()["records"][0]["coordinate"] == "tau[0]"
