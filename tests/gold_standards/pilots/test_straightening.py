"""Which scales depend on which coordinates, and coordinates in which they do not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aide.gold_standards.pilots.straightening import MOST_PLACES, find_structure, fit_coordinates

RNG = np.random.default_rng(4)
NOISE = RNG.normal(size=(4000, 6))


def funnel():
    """The third coordinate scales the first two; the others are normal."""
    x = NOISE.copy()
    x[:, 2] *= 2.0
    x[:, :2] *= np.exp(0.5 * x[:, 2:3])
    return x


def hierarchy():
    """Effects about a mean (0), with a log scale (1): differences have it, effects and mean."""
    x = NOISE.copy()
    x[:, 2:] = x[:, :1] + np.exp(x[:, 1:2]) * x[:, 2:]
    return x


@pytest.mark.parametrize(
    ("made", "children", "parents"),
    [(funnel, [0, 1], [2]), (hierarchy, [2, 3, 4, 5], [1])],
)
def test_scales_that_depend_on_others_are_found(made, children, parents):
    found = find_structure(made())
    assert found is not None
    assert found.children.tolist() == children
    assert found.parents.tolist() == parents


@pytest.mark.parametrize("made", [lambda: NOISE, lambda: NOISE @ RNG.normal(size=(6, 6))])
def test_normal_pilots_have_no_structure(made):
    assert find_structure(made()) is None


def test_heavy_tails_alone_are_no_structure():
    assert find_structure(RNG.standard_t(3, size=(4000, 6))) is None


def test_too_few_or_constant_pilots_have_none():
    assert find_structure(funnel()[:20]) is None
    assert find_structure(np.column_stack([NOISE[:, 0], np.ones(4000)])) is None


@pytest.mark.parametrize("made", [funnel, hierarchy])
def test_in_the_coordinates_scales_are_constant(made):
    x = made()
    structure = find_structure(x)
    assert structure is not None
    coordinates = fit_coordinates(structure, x)
    slopes = np.asarray(coordinates.slopes)[np.ix_(structure.children, structure.parents)]
    assert slopes == pytest.approx(0.5 if made is funnel else 1.0, abs=0.05)
    with jax.enable_x64(True):
        z = np.asarray(jax.vmap(coordinates.away)(jnp.asarray(x)))
    assert find_structure(z) is None
    assert find_structure(x) is not None


def test_many_coordinates_depend_on_the_parents_and_a_few_others():
    """A hierarchy among thirty coordinates that have nothing to do with it."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(4000, 62))
    x[:, 2:32] = x[:, :1] + np.exp(x[:, 1:2]) * x[:, 2:32]
    found = find_structure(x)
    assert found is not None
    assert (found.children.tolist(), found.parents.tolist()) == ([*range(2, 32)], [1])
    locations = np.asarray(fit_coordinates(found, x).locations)
    assert np.all(np.sum(locations != 0, axis=1)[2:32] <= 1 + MOST_PLACES)
    assert np.max(np.abs(locations[2:32, 0] - 1)) < 0.1
