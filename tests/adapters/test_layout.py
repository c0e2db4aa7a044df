"""Variables and their places in the vector: by name, never by an assumed order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aide.adapters.layout import Layout, Variable

LAYOUT = Layout(
    (
        Variable("tau", support="positive"),
        Variable("beta", (2, 2), (2, 2)),
        Variable("weights", (3,), (2,), "simplex"),
    )
)
PARTS = {
    "weights": np.array([5.0, 6.0]),
    "tau": np.array(0.0),
    "beta": 1.0 + np.arange(4.0).reshape(2, 2),
}


def test_every_coordinate_has_a_name(x64):
    assert LAYOUT.coordinates == (
        "tau", "beta[0,0]", "beta[0,1]", "beta[1,0]", "beta[1,1]", "weights[0]", "weights[1]"
    )  # fmt: skip
    assert LAYOUT.dimension == 7
    np.testing.assert_array_equal(LAYOUT.pack(PARTS), np.arange(7.0))


def test_the_order_of_a_dictionary_plays_no_part(x64):
    backwards = dict(reversed(PARTS.items()))
    np.testing.assert_array_equal(LAYOUT.pack(PARTS), LAYOUT.pack(backwards))
    alphabetical, _ = jax.flatten_util.ravel_pytree(PARTS)  # control: another order
    assert not np.array_equal(LAYOUT.pack(PARTS), alphabetical)


def test_unpacking_is_the_inverse(x64):
    again = LAYOUT.unpack(jnp.arange(7.0))
    for name, part in PARTS.items():
        np.testing.assert_array_equal(again[name], part)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 1.0}, "there is gamma, which the model does not have"),
        ({"tau": np.zeros(2)}, r"tau has the unconstrained shape \(\), got \(2,\)"),
    ],
)
def test_wrong_parts_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        LAYOUT.pack(PARTS | change)


def test_missing_and_unknown_names_are_all_named():
    with pytest.raises(ValueError, match="no tau, weights and there is gamma.*variables are tau"):
        LAYOUT.check_names("draws", ["beta", "gamma"])
    LAYOUT.check_names("draws", [*LAYOUT.names, "gamma"], derived=["gamma"])


def test_a_vector_of_another_length():
    with pytest.raises(ValueError, match=r"a vector of 7, got shape \(8,\)"):
        LAYOUT.unpack(jnp.zeros(8))


def test_names_must_differ_and_be_there():
    with pytest.raises(ValueError, match="mu occurs twice"):
        Layout((Variable("mu"), Variable("mu")))
    with pytest.raises(ValueError, match="no continuous variable"):
        Layout(())
