"""The table of errors as a result: names, order, functions, directions, every way to show it."""

import csv
import io
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from support import Z_MAX
from support.pairs import KEY, NoisyGaussian, gaussian, run, unnormalised

import aide
from aide.estimation.errors.find import BELOW, INTERVAL, MEAN, SD

QUANTITIES = {MEAN, SD, INTERVAL, *BELOW}


class Normals(eqx.Module):
    """A named vector and a scalar, normal with a covariance; an event and an integer besides."""

    mean: np.ndarray
    root: np.ndarray

    def sample(self, key):
        x = jnp.asarray(self.mean) + jnp.asarray(self.root) @ jax.random.normal(key, (4,))
        return {"beta": x[:3], "tau": x[3]}

    def log_prob(self, value):
        x = jnp.append(value["beta"], value["tau"]) - jnp.asarray(self.mean)
        z = jax.scipy.linalg.solve_triangular(jnp.asarray(self.root), x, lower=True)
        return jnp.sum(-0.5 * z**2 - 0.5 * jnp.log(2 * jnp.pi)) - jnp.sum(
            jnp.log(jnp.diagonal(jnp.asarray(self.root)))
        )


def normals(correlation=0.0, mean=(0.0, 0.0, 0.0, 0.0), sds=(1.0, 1.0, 1.0, 1.0)):
    cov = np.diag(np.square(sds)).astype(float)
    cov[0, 1] = cov[1, 0] = correlation * sds[0] * sds[1]
    return aide.Tractable.of(Normals(np.array(mean), np.linalg.cholesky(cov)))


@pytest.fixture(scope="module")
def estimate():
    gold = normals(0.95)
    target = normals(0.0, mean=(0.0, 0.0, 0.6, 0.0), sds=(1.0, 1.0, 1.0, 0.5))
    return aide.estimate(KEY, gold, target, num_gold=400, num_target=300)


@pytest.fixture(scope="module")
def errors(estimate):
    functions = {"P(tau > 1)": lambda x: x["tau"] > 1.0, "sums": lambda x: x["beta"][:2] + x["tau"]}
    return estimate.errors(functions=functions)


def test_every_number_has_its_name_and_its_quantities(errors):
    found = {}
    for record in errors.records():
        assert record["low"] <= record["error"] <= record["high"]
        found.setdefault(record["name"], set()).add(record["quantity"])
    real = {"beta[0]", "beta[1]", "beta[2]", "tau", "sums[0]", "sums[1]"}
    assert found == {name: QUANTITIES for name in real} | {"P(tau > 1)": {"probability"}}


def test_errors_are_the_truth_within_their_limits(errors):
    assert errors["tau"].of(SD).low < 0.5 < errors["tau"].of(SD).high
    assert errors["beta[2]"].of(MEAN).low < 0.6 < errors["beta[2]"].of(MEAN).high
    event = errors["P(tau > 1)"].errors[0]
    truth = stats.norm.sf(1 / 0.5) - stats.norm.sf(1.0)
    assert event.low < truth < event.high < 0
    content = errors["tau"].of(INTERVAL)
    ends = 0.5 * stats.norm.ppf([0.05, 0.95])
    assert content.low < np.diff(stats.norm.cdf(ends))[0] < content.high
    assert errors["beta[0]"].of(MEAN).none == 0.0
    with pytest.raises(KeyError, match=r"there is no variable 'gamma'; there are .*tau"):
        errors["gamma"]


def test_worst_first_and_in_one_sentence(errors):
    names = [one.name for one in errors.table.variables]
    assert set(names[:3]) >= {"tau"}
    assert names.index("tau") < names.index("beta[0]")
    assert "beta[2]" in errors.headline
    assert "too small in tau" in errors.headline
    assert "correlation of beta[0] and beta[1]" in errors.headline
    assert "instead of 0.9" in errors.headline


def test_the_combination_is_named_and_measured(errors):
    [direction] = errors.blame.directions
    assert direction.names == ("beta[0]", "beta[1]")
    truth = np.sqrt(1 / (1 - 0.95))  # of the difference of both
    assert direction.low < truth < direction.high
    assert direction.is_certain
    assert errors.blame.blocks[0][0] == "beta"
    assert "; mostly in beta, " in errors.headline
    alone = {record["name"]: record["nats"] for record in errors.records()}
    assert {name: nats for name, nats in alone.items() if nats is not None} == dict(
        errors.blame.singles
    )
    assert alone["sums[0]"] is None  # a function is no variable
    assert dict(errors.blame.singles).keys() == {"beta[0]", "beta[1]", "beta[2]", "tau"}


class Tree(eqx.Module):
    """Independent normals in a tree: a matrix, a vector inside of a mapping, and a pair."""

    sds: np.ndarray

    def sample(self, key):
        z = jnp.asarray(self.sds) * jax.random.normal(key, (8,))
        return {"W": z[:4].reshape(2, 2), "group": {"b": z[4:6]}, "pair": (z[6], z[7])}

    def log_prob(self, value):
        x = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(value)])
        return jnp.sum(jax.scipy.stats.norm.logpdf(x, scale=jnp.asarray(self.sds)))


def test_matrices_and_trees_are_named_and_ranked():
    """The element that differs most leads singles, its matrix leads arrays."""
    names = ["W[0,0]", "W[0,1]", "W[1,0]", "W[1,1]", "group.b[0]", "group.b[1]", "pair.0"]
    for wrong, array in (("W[1,0]", "W"), ("group.b[1]", "group.b")):
        sds = np.ones(8)
        sds[[names.index(wrong), -1]] = 0.5, 0.9
        gold, target = (aide.Tractable.of(Tree(each)) for each in (np.ones(8), sds))
        found = aide.estimate(KEY, gold, target, num_gold=200, num_target=200).errors()
        assert found.blame is not None
        assert {name for name, _ in found.blame.singles} == {*names, "pair.1"}
        assert found.table.variables[0].name == found.blame.singles[0][0] == wrong
        assert found.blame.blocks[0][0] == array
        assert f"too small in {wrong}" in found.headline
        assert f"; mostly in {array}, " in found.headline
        rows = dict(found.rows())
        assert f"these arrays differ most: {array} by " in rows["arrays"]
        assert f"these variables differ most: {wrong} by " in rows["alone"]


def test_no_combination_is_named_where_none_differs():
    """The control: single variables explain everything, or nothing is wrong at all."""
    for target in (normals(0.95, sds=(1.0, 1.0, 1.0, 0.5)), normals(0.95)):
        found = aide.estimate(KEY, normals(0.95), target, num_gold=400, num_target=300).errors()
        assert found.blame is not None
        assert found.blame.directions == ()
        assert "correlation" not in found.headline
    assert "means within" in found.headline.lower()
    assert "sds within" in found.headline


def test_shown_in_every_way(errors, estimate):
    assert repr(errors) == repr(estimate.errors(functions=None)) or "sums" in repr(errors)
    text = errors._page().text(80)
    assert max(map(len, text.splitlines())) <= 80
    assert "nan" not in text
    assert "P(tau > 1) is" in text
    lines = list(csv.DictReader(io.StringIO(errors.to_csv())))
    assert len(lines) == 6 * len(QUANTITIES) + 1
    assert {"name", "quantity", "error", "low", "high", "gold", "target"} <= set(lines[0])
    data = json.loads(errors.to_json())
    assert data["numbers"]["total_variation_upper"] == errors.total_variation.upper
    assert "<table>" in errors._repr_html_()
    figure = errors.plot()
    assert len(figure.axes) == 8
    alone = aide.estimate(KEY, gaussian(0.1, 0.7), gaussian(0.3, 1.3), num_gold=30, num_target=30)
    assert alone.errors().blame is None
    assert [one.name for one in alone.errors().table.variables] == ["x"]


def test_same_errors_again_and_cached(estimate):
    assert estimate.errors() is estimate.errors()
    other = aide.summarise(estimate.draws).errors()
    assert other.records() == estimate.errors().records()


def test_errors_and_total_variation_of_intractable_algorithms():
    """Three traces of the target per output: the error of the mean of a NoisyGaussian is known."""
    gold, target = gaussian(0.3, 1.0), NoisyGaussian(0.5, 0.8, 0.6)
    for metas in (1, 2, 3):
        found = run(gold, target, 400, 300, num_meta_target=metas)
        mean = found.errors()["x"].of(MEAN)
        plain = np.hypot(1.0 / np.sqrt(400), 1.0 / np.sqrt(300))
        assert abs(mean.error - 0.2) < Z_MAX * mean.std_error
        assert mean.std_error < plain
        # Both outputs have standard deviation 1.
        assert found.total_variation() > 2 * stats.norm.cdf(0.1) - 1


def test_unknown_constants_change_little():
    gold, target = unnormalised(0.3, 1.0, None, 2.5), gaussian(0.5, 1.1)
    known = run(gaussian(0.3, 1.0), target, 400, 300).errors()["x"]
    unknown = run(gold, target, 400, 300).errors()["x"]
    for quantity in (MEAN, SD):
        one, other = known.of(quantity), unknown.of(quantity)
        assert one.error == pytest.approx(other.error, abs=Z_MAX * other.std_error)
        assert other.std_error > 0


def test_posteriors_give_names_and_scales():
    """Outputs are vectors; the posterior knows what they are called, on the scale of the model."""

    class Posterior:
        def log_joint(self, x):
            return -0.5 * jnp.sum(x**2)

        def values_of(self, rows):
            rows = np.asarray(rows)
            return {"tau": np.exp(rows[:, 0]), "theta": rows[:, 1:]}

    posterior = Posterior()
    draws = np.random.default_rng(0).normal(size=(2, 150, 3))
    gold = aide.ReferenceDraws(draws, posterior.log_joint, has_chains=True)
    target = aide.Tractable.of(aide.problems.distributions.Normal(np.zeros(3), np.full(3, 1.2)))
    estimate = aide.estimate(KEY, gold, target, num_gold=300, num_target=200)
    found = estimate.errors(functions={"twice": lambda values: 2 * values["theta"]})
    names = {record["name"] for record in found.records()}
    assert names == {"tau", "theta[0]", "theta[1]", "twice[0]", "twice[1]"}
    again = aide.summarise(estimate.draws)
    assert {one.name for one in again.errors().table.variables} == {"x[0]", "x[1]", "x[2]"}
    assert {one.name for one in again.errors(posterior=posterior).table.variables} == {
        "tau",
        "theta[0]",
        "theta[1]",
    }
    compared = aide.compare(KEY, gold, {"wide": target}, num_gold=300, num_target=200)
    assert "tau" in compared["wide"].errors().to_csv()


def test_draws_alone_get_plain_errors():
    """Two sets of draws with one density between them: nothing but the outputs to go by."""
    log_joint = lambda x: -0.5 * x**2
    rng = np.random.default_rng(3)
    gold, target = (
        aide.ReferenceDraws(rng.normal(size=300) + shift, log_joint, has_chains=False)
        for shift in (0.0, 0.5)
    )
    found = aide.estimate(KEY, gold, target).errors()
    assert found.total_variation is None
    assert found.knows_ratios is False
    assert "No densities entered" in repr(found)
    mean = found["x"].of(MEAN)
    assert mean is not None
    assert mean.low < 0.5 < mean.high
    assert mean.std_error > 0.07


def test_bad_input_is_named():
    lean = run(gaussian(0.1, 0.7), gaussian(0.3, 1.3), keep_values=False)
    with pytest.raises(ValueError, match="keep_values=True"):
        lean.errors()
    kept = run(gaussian(0.1, 0.7), gaussian(0.3, 1.3))
    with pytest.raises(TypeError, match="functions must map names"):
        kept.errors(functions=lambda x: x)
    with pytest.raises(TypeError, match=r"functions\['f'\] must be a function, got 3"):
        kept.errors(functions={"f": 3})
    with pytest.raises(ValueError, match="f returned nan for"):
        kept.errors(functions={"f": lambda x: jnp.log(x)})
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        kept.errors(level=95)


def test_infinite_and_constant_numbers_are_left_out_in_words():
    kept = run(gaussian(0.1, 0.7), gaussian(0.3, 1.3))
    found = kept.errors(functions={"one": lambda x: 1.0 + 0 * x, "inverse": lambda x: 1 / (0 * x)})
    assert "Infinite values, hence no mean and no sd: inverse." in repr(found)
    assert "one" not in {record["name"] for record in found.records()}


def test_large_outputs_are_not_kept(monkeypatch):
    from aide.engine import draws

    monkeypatch.setattr(draws, "MOST_KEPT", 8 * 40)
    assert run(gaussian(0.1, 0.7), gaussian(0.3, 1.3), 20, 30).draws.gold.values is None
    assert run(gaussian(0.1, 0.7), gaussian(0.3, 1.3), 20, 20).draws.gold.values is not None
