"""Identities: the same for the same thing in another process, another for anything that changed."""

import os
import subprocess
import sys
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from support.pairs import gaussian

import aide
from aide._core.algorithm import Label
from aide._core.identity import identity_of, program_identity_of
from aide.problems.distributions import Normal

DATA = np.array([0.3, -0.4])


def log_joint(x):
    return jnp.sum(-0.5 * (x - DATA) ** 2)


def build():
    """One of everything: a library's distribution, a user's function, settings, arrays."""
    return aide.tempered_smc(
        dist.Normal(0.0, 2.0),
        log_joint,
        kernel=aide.kernels.Cycle(aide.kernels.RandomWalk(0.3), aide.kernels.Hmc(0.1, 2)),
        num_particles=3,
        temperatures=[0.5, 1.0],
        resampler=aide.smc.EssBelow(0.5, aide.smc.Systematic()),
    )


def test_equal_things_are_the_same():
    assert identity_of(build()).digest == identity_of(build()).digest
    assert not identity_of(build()).unseen


def test_shared_and_equal_parts_are_the_same():
    """It must not matter whether two parts are one object or two equal ones."""
    one, two = gaussian(0.0, 1.0), gaussian(0.0, 1.0)
    shared, separate = ([one, one], [one, two])
    assert identity_of(shared).digest == identity_of(separate).digest


@pytest.mark.full
def test_another_process_agrees():
    script = "from test_identity import build, identity_of\nprint(identity_of(build()).digest)"
    found = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
                "PYTHONHASHSEED": seed,
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]
    assert len(found[0].strip()) == 16


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        (np.zeros(3), np.zeros(4), ""),
        (np.zeros(3), np.zeros(3, np.float32), ""),
        (0.0, 0, ""),
        (1, True, ""),
        ({"a": 1}, {"a": 2}, "a"),
        ([1, [2, 3]], [1, [2, 4]], "1.1"),
        ({1, 2}, {1, 3}, ""),
        (partial(jnp.sum, axis=0), partial(jnp.sum, axis=1), "given.1.axis"),
        (lambda x: x + 1, lambda x: x + 2, "code"),
        (jnp.exp, jnp.log, ""),
        (jax.random.key(0), jax.random.key(1), ""),
        (aide.kernels.RandomWalk(0.1), aide.kernels.RandomWalk(0.2), "scale"),
        (aide.kernels.Hmc(0.1, 2), aide.kernels.Hmc(0.1, 3), "num_leapfrog"),
        (dist.Normal(0.0, 1.0), dist.Normal(0.5, 1.0), ""),
        (np.random.default_rng(0), np.random.default_rng(1), ""),
    ],
)
def test_differences_are_seen_and_named(one: Any, other: Any, where):
    first, second = identity_of(one), identity_of(other)
    assert first.digest != second.digest
    assert where in first.differences(second)


def test_a_random_generator_that_was_used_is_another():
    rng = np.random.default_rng(0)
    before = identity_of(rng)
    rng.normal()
    assert identity_of(rng).digest != before.digest


def test_programs_do_not_depend_on_what_is_traced():
    one, other = gaussian(0.0, 1.0), gaussian(3.0, 2.0)
    assert program_identity_of(one).digest == program_identity_of(other).digest
    assert identity_of(one).digest != identity_of(other).digest


def test_circles_end():
    ring: list[Any] = [1]
    ring.append(ring)
    again: list[Any] = [1]
    again.append(again)
    assert identity_of(ring).digest == identity_of(again).digest

    def recursive(n):
        return recursive(n - 1) if n else 0

    assert not identity_of(recursive).unseen


def test_a_stated_identity_is_taken_at_its_word():
    class Stated:
        aide_identity = "version 1"
        counter = 0

    one = Stated()
    before = identity_of(one)
    one.counter = 5
    assert identity_of(one).digest == before.digest
    one.aide_identity = "version 2"
    assert identity_of(one).digest != before.digest


def test_labels_are_ordinary_texts_and_no_part_of_a_structure():
    one, other = Label("one"), Label("other")
    assert one != other
    assert one == "one"
    assert len({one: 1, other: 2, "one": 3}) == 2
    assert jax.tree.structure(gaussian(0.0, 1.0, "one")) == jax.tree.structure(
        gaussian(0.0, 1.0, "other")
    )
    assert jax.tree.map(lambda leaf: leaf, gaussian(0.0, 1.0, "one")).label == "one"


def test_a_method_whose_argument_may_be_of_several_types():
    """JAX 0.11 made `ArrayLike` a union; nobody could look in, and every call compiled anew."""

    class Density(eqx.Module):
        shift: float

        def log_prob(self, x: int | jax.Array) -> Any:
            return self.shift - jnp.asarray(x) ** 2

    found = identity_of(Density(0.5).log_prob)
    assert not found.unseen
    assert found.digest == identity_of(Density(0.5).log_prob).digest
    assert found.digest != identity_of(Density(0.6).log_prob).digest
    assert not identity_of(Normal(0.0, 1.0).log_prob).unseen
    assert identity_of(int | str).digest != identity_of(int | bytes).digest
