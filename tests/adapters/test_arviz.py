"""ArviZ both ways: draws of either kind as gold standards, results as trees and in files."""

from typing import Any

import arviz
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr

import aide

RNG = np.random.default_rng(5)
DRAWS = {"tau": RNG.lognormal(size=(2, 400)), "b": RNG.normal(size=(2, 400, 3))}
NAME = "wide / flat"


def model():
    numpyro.sample("tau", dist.LogNormal(0.0, 1.0))
    numpyro.sample("b", dist.Normal(np.zeros(3), 1.0))


@pytest.fixture(scope="module")
def post():
    return aide.numpyro.posterior(model)


@pytest.fixture(scope="module")
def gold(post):
    return post.from_draws(DRAWS)


@pytest.fixture(scope="module")
def compared(gold):
    target = aide.Tractable.of(dist.Normal(np.zeros(4), 2.0), NAME)
    sizes = {"num_gold": 60, "num_target": 60, "keep_values": True}
    return aide.compare(jax.random.key(0), gold, {NAME: target}, **sizes)


@pytest.fixture(scope="module")
def trees(post, compared):
    to_datatree = aide.arviz.to_datatree
    return {"comparison": to_datatree(compared, post), "estimate": to_datatree(compared[NAME])}


def test_arviz_of_either_kind(post, gold):
    is_old = arviz.__version__.startswith("0.")
    data = arviz.from_dict(DRAWS if is_old else {"posterior": DRAWS})
    group = data["posterior"]
    group = group if is_old else group.to_dataset()
    tree = xr.DataTree.from_dict({"posterior": group, "other": xr.Dataset()})
    shuffled = group.transpose("draw", ...)
    for thing in (data, tree, tree["posterior"], shuffled):
        found = post.from_arviz(thing, check_score=False)
        np.testing.assert_array_equal(np.asarray(found.draws), np.asarray(gold.draws))
    with pytest.raises(ValueError, match="there is no group posterior; there are other"):
        post.from_arviz(xr.DataTree.from_dict({"other": xr.Dataset()}))
    with pytest.raises(TypeError, match="got dict"):
        post.from_arviz(DRAWS)
    with pytest.raises(ValueError, match="tau has the dimensions draw; draws have chain and draw"):
        post.from_arviz(xr.Dataset({"tau": ("draw", np.zeros(3))}))


def test_a_comparison_as_a_datatree(compared, trees):
    tree = trees["comparison"]
    assert set(tree.children) == {"comparison", "gold", "target_wide - flat"}
    table = tree["comparison"]
    assert float(table["value"].sel(target=NAME)) == compared[NAME].value
    assert table.attrs["creation_library"] == "aide"
    assert tree["gold"]["b"].dims == ("chain", "draw", "b_dim_0")
    assert float(tree["gold"]["tau"].min()) > 0.0


def test_an_estimate_as_a_datatree(compared, trees):
    one = trees["estimate"]
    assert set(one.children) == {"estimate", "log_xi", "gold", "target"}
    assert one["target"]["x"].shape == (1, 60, 4)
    low, high = compared[NAME].interval()
    assert float(one["estimate"]["interval"].sel(limit="upper")) == high
    assert list(one["estimate"]["num_runs"].sel(role=["gold", "target"])) == [60, 60]
    assert low < float(one["estimate"]["value"])


@pytest.mark.parametrize("result", ["comparison", pytest.param("estimate", marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", ["netcdf", "zarr"])
def test_a_tree_survives_a_file(trees, kind, result, tmp_path):
    """Every number, name and attribute comes back, and ArviZ takes what was read."""
    tree, path = trees[result], tmp_path / "result"
    if kind == "netcdf":
        tree.to_netcdf(path, engine="h5netcdf")
        read = xr.open_datatree(path, engine="h5netcdf").load()
    else:
        tree.to_zarr(path, consolidated=False)
        read = xr.open_datatree(path, engine="zarr", consolidated=False).load()
    assert set(read.children) == set(tree.children)
    for name, group in tree.children.items():
        xr.testing.assert_equal(group.to_dataset(), read[name].to_dataset())
        facts = {fact: np.asarray(value).tolist() for fact, value in read[name].attrs.items()}
        assert facts == {fact: np.asarray(value).tolist() for fact, value in group.attrs.items()}
    table: Any = arviz.summary(read["gold"].to_dataset(), kind="stats")  # 0.x takes no trees
    first, entry = ("tau", ...) if result == "comparison" else ("x[0]", (..., 0))
    values = np.asarray(read["gold"][first.partition("[")[0]])[entry]
    assert float(table.loc[first, "mean"]) == pytest.approx(values.mean(), abs=0.05)


def test_divergences_of_the_sampler_are_said(post):
    """By a warning, and by every result; without divergences nothing is said."""
    place = ("chain", "draw")
    draws = xr.Dataset({"tau": (place, DRAWS["tau"]), "b": ((*place, "i"), DRAWS["b"])})
    for num in (0, 7):
        diverging = (np.arange(800) < num).reshape(2, 400)
        stats = xr.Dataset({"diverging": (place, diverging)})
        data = xr.DataTree.from_dict({"posterior": draws, "sample_stats": stats})
        if not num:
            assert post.from_arviz(data).chains.words == ""
            continue
        with pytest.warns(UserWarning, match="7 of 800 transitions of the sampler diverged"):
            gold = post.from_arviz(data)
        target = aide.Tractable.of(dist.Normal(np.zeros(4), 2.0), NAME)
        found = aide.estimate(jax.random.key(0), gold, target, num_gold=60, num_target=60)
        assert "7 of 800 transitions" in found.trust.words
