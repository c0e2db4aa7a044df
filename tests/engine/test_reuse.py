r"""Runs made by something else are never taken for runs of this call.

A key, a name, or only a number inside of an algorithm may differ; the last case has the same name
and structure, and nothing but running it again can tell.
"""

from typing import Any

import jax
import pytest
from support.pairs import KEY, NoisyGaussian, assert_same, gaussian

import aide

GOLD, TARGET = NoisyGaussian(0.3, 0.8, 0.5), NoisyGaussian(-0.4, 0.5, 0.9)
CHANGED = NoisyGaussian(0.9, 0.2, 0.7)
"""Same class, other numbers: new data, as a user would have it."""
SAME_AGAIN = NoisyGaussian(0.3, 0.8, 0.5)


def _draw(gold: Any = GOLD, target: Any = TARGET, **options: Any):
    key = options.pop("key", KEY)
    counts: dict[str, Any] = {"num_gold": 20, "num_target": 15}
    return aide.draw(key, gold, target, **{**counts, **options})


@pytest.fixture(scope="module")
def kept():
    return _draw(keep_values=True)


@pytest.fixture(scope="module")
def lean(kept):
    return kept.without_values()


@pytest.mark.parametrize("argument", ["share", "extend"])
def test_another_key(kept, argument):
    with pytest.raises(ValueError, match=rf"{argument}.*\(0, 7\).*\(0, 8\)"):
        _draw(key=jax.random.key(8), **{argument: kept})


@pytest.mark.parametrize("argument", ["share", "extend"])
def test_another_first_run(kept, argument):
    with pytest.raises(ValueError, match=rf"{argument}.*run 0.*run 5"):
        _draw(first_run=5, **{argument: kept})


@pytest.mark.parametrize("argument", ["share", "extend"])
def test_another_kind_of_gold_standard(kept, argument):
    with pytest.raises(ValueError, match=rf"{argument}.*not made by this gold.*class .*Tractable"):
        _draw(gold=gaussian(0.0, 1.0, "exact"), **{argument: kept})


def test_another_kind_of_target(kept):
    with pytest.raises(ValueError, match=r"extend.*not made by this target.*class .*Tractable"):
        _draw(target=gaussian(0.0, 1.0, "fit"), extend=kept)


@pytest.mark.parametrize("argument", ["share", "extend"])
@pytest.mark.parametrize("stored", ["kept", "lean"])
def test_another_gold_standard_of_the_same_name(request, stored, argument):
    draws = request.getfixturevalue(stored)
    with pytest.raises(ValueError, match="not made by this gold algorithm"):
        _draw(gold=CHANGED, num_meta_target=2, **{argument: draws})


@pytest.mark.parametrize("stored", ["kept", "lean"])
@pytest.mark.parametrize("options", [{}, {"num_meta_gold": 2}, {"num_target": 18}])
def test_another_target_of_the_same_name(request, stored, options):
    """Also where nothing is missing, and where only the new runs would come from the new one."""
    draws = request.getfixturevalue(stored)
    with pytest.raises(ValueError, match="not made by this target algorithm"):
        _draw(target=CHANGED, extend=draws, **options)


@pytest.mark.parametrize("argument", ["share", "extend"])
def test_an_equal_algorithm_is_the_same(kept, argument):
    """Control: a new object with the same numbers is welcome."""
    assert_same(_draw(gold=SAME_AGAIN, **{argument: kept}), kept)


def test_share_and_extend_together(kept):
    with pytest.raises(ValueError, match="share or extend, not both"):
        _draw(share=kept, extend=kept)


def test_checkpoint_of_other_data(tmp_path):
    path = tmp_path / "runs.zarr"
    _draw(checkpoint=path)
    with pytest.raises(ValueError, match="not made by this target algorithm"):
        _draw(target=CHANGED, checkpoint=path)
    with pytest.raises(ValueError, match="not made by this gold algorithm"):
        _draw(gold=CHANGED, checkpoint=path)
    with pytest.raises(ValueError, match=r"\(0, 7\).*\(0, 8\)"):
        _draw(key=jax.random.key(8), checkpoint=path)


def test_share_with_a_checkpoint_can_be_called_again(kept, tmp_path):
    path = tmp_path / "runs.zarr"
    first = _draw(target=CHANGED, share=kept, checkpoint=path)
    assert_same(_draw(target=CHANGED, share=kept, checkpoint=path), first)
