r"""Draws on disk: nothing is lost, whatever the outputs look like.

Arrays come back with the same bits and dtypes, structures with the same nesting, and the estimate
with the same numbers, from netCDF and from zarr.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pairs import KEY, arrays, gaussian, leaves_of, run

import aide

FORMATS = ["draws.nc", "draws.zarr", "draws"]


def _rich_output(key):
    return {
        "level": jax.random.normal(key, (2, 3)),
        "nested": (jax.random.randint(key, (4,), 0, 9), [jax.random.bernoulli(key, 0.5, (2,))]),
        "count": jax.random.randint(key, (), -5, 200).astype(jnp.int16),
        "single": jax.random.normal(key, (), jnp.float32),
        "nothing": None,
    }


RICH = aide.Tractable(_rich_output, lambda x: -0.5 * jnp.sum(x["level"] ** 2), 1.25, "a ≤ b [x]")


@pytest.fixture(scope="module")
def result():
    return run(RICH, RICH, 7, 5, num_meta_gold=2, num_meta_target=3, keep_values=True)


@pytest.mark.parametrize("name", FORMATS)
def test_round_trip(tmp_path, result, name):
    path = tmp_path / name
    result.save(path)
    again = aide.estimation.Estimate.load(str(path))
    for one, two in zip(arrays(result.draws), arrays(again.draws), strict=True):
        assert one.tobytes() == two.tobytes()
    for role in ("gold", "target"):
        one, two = getattr(result.draws, role), getattr(again.draws, role)
        assert jax.tree.structure(one.values) == jax.tree.structure(two.values)
        for leaf, read in zip(leaves_of(one.values), leaves_of(two.values), strict=True):
            assert leaf.dtype == read.dtype
            assert leaf.tobytes() == read.tobytes()
        for fact in ("role", "num_meta", "name", "log_z", "tractable", "identity"):
            assert getattr(one, fact) == getattr(two, fact)
    for field in ("key_data", "first_run", "pooled"):
        assert getattr(result.draws, field) == getattr(again.draws, field)
    assert repr(again) == repr(result)
    assert again.interval() == result.interval()


@pytest.mark.parametrize("name", FORMATS)
def test_infinities_and_unknown_constants(tmp_path, name):
    half = aide.Tractable(
        jax.random.exponential, lambda x: jnp.where(x < 0, -jnp.inf, -x), log_z=None
    )
    result = run(gaussian(0.0, 1.0), half, 9, 4, keep_values=False)
    assert np.isinf(result.draws.gold.cross).any()
    aide.engine.save(result.draws, tmp_path / name)
    again = aide.engine.load(tmp_path / name)
    assert arrays(again)[1].tobytes() == arrays(result.draws)[1].tobytes()
    assert [side.log_z for side in again.sides] == [0.0, None]
    assert again.gold.values is None


def test_saving_again_replaces(tmp_path, result):
    for name in FORMATS:
        run(gaussian(0.0, 1.0), gaussian(0.5, 1.0), 30, 30).save(tmp_path / name)
        result.save(tmp_path / name)
        assert arrays(aide.engine.load(tmp_path / name))[0].shape == (7, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FORMATS)


def test_loaded_draws_can_be_extended(tmp_path, result):
    result.save(tmp_path / "draws.nc")
    again = aide.engine.load(tmp_path / "draws.nc")
    options = {"num_gold": 7, "num_target": 8, "num_meta_gold": 2, "num_meta_target": 3}
    longer = aide.draw(KEY, RICH, RICH, extend=again, **options)
    fresh = aide.draw(KEY, RICH, RICH, **options)
    for one, two in zip(arrays(longer), arrays(fresh), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)


@pytest.mark.parametrize("chunk_size", [None, np.int64(4)])
def test_counts_may_be_numpy_integers(tmp_path, chunk_size):
    """They come out of loops over arrays, and out of configuration files."""
    metas = {"num_meta_gold": np.int64(2), "first_run": np.int32(3), "chunk_size": chunk_size}
    result = run(gaussian(0.0, 1.0), gaussian(0.5, 1.0), np.int64(9), np.int32(5), **metas)
    result.save(tmp_path / "draws.nc")
    assert aide.engine.load(tmp_path / "draws.nc").gold.num_meta == 2


def test_dataset_has_named_dimensions(result):
    dataset = result.to_xarray()
    assert dataset["log_xi_gold_at_gold"].dims == ("gold_run", "gold_own_trace")
    assert dataset["log_xi_target_at_gold"].dims == ("gold_run", "target_meta_at_gold")
    assert dataset["log_xi_gold_at_target"].dims == ("target_run", "gold_meta_at_target")
    assert dataset.sizes["gold_run"] == 7
    assert dataset.sizes["target_run"] == 5
    assert dataset.sizes["gold_own_trace"] == 3
    assert dataset.sizes["target_meta_at_gold"] == 3
    np.testing.assert_array_equal(dataset["log_xi_gold_at_target"], result.draws.target.cross)


class Pair(NamedTuple):
    a: float
    b: float


def test_outputs_that_cannot_be_saved_say_so_before_the_work(tmp_path):
    """A checkpoint that cannot be written is an error before any run, not after all of them."""
    runs = []

    class Counting:
        def simulate(self, rng):
            runs.append(1)
            return Pair(rng.normal(), 0.0), 0.0

        def regenerate(self, rng, value):
            return 0.0

    algorithm = aide.PythonAlgorithm(Counting())
    result = run(algorithm, algorithm, keep_values=True)
    with pytest.raises(TypeError, match=r"Pair.*without_values"):
        result.save(tmp_path / "draws.nc")
    aide.engine.save(result.draws.without_values(), tmp_path / "draws.nc")
    runs.clear()
    with pytest.raises(TypeError, match="Pair"):
        run(algorithm, algorithm, keep_values=True, checkpoint=tmp_path / "runs.nc")
    assert len(runs) <= 2


def test_nothing_to_load(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no saved draws at .*draws\.nc"):
        aide.engine.load(tmp_path / "draws.nc")
