"""The way from a public call to what JAX traces is short: its frames are counted."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aide

SOURCE = Path(aide.__file__).parent


class Watch:
    """Collects, for every call of `note`, the functions of the library that led there."""

    def __init__(self) -> None:
        self.ways = list[tuple[str, ...]]()

    def note(self) -> None:
        stack = [one for one in traceback.extract_stack() if SOURCE in Path(one.filename).parents]
        self.ways.append(tuple(one.name for one in stack if one.name != "checked"))

    @property
    def hops(self) -> int:
        """Calls from the public function to the algorithm, on the longest way.

        `one_run` and the operation that it traces are the last two. Decorators do not count.
        """
        ways = [way[: way.index("one_run")] for way in self.ways if "one_run" in way]
        return max(map(len, ways)) + 2


class Watched(eqx.Module):
    mean: float
    watch: Any = eqx.field(static=True)
    log_z: float = 0.0

    def sample(self, key: Any) -> Any:
        self.watch.note()
        return self.mean + jax.random.normal(key, (2,))

    def log_prob(self, x: Any) -> Any:
        return -0.5 * jnp.sum((x - self.mean) ** 2) - np.log(2 * np.pi)

    def simulate(self, key: Any) -> aide.Draw:
        x = self.sample(key)
        return aide.Draw(x, self.log_prob(x))

    def regenerate(self, key: Any, value: Any) -> Any:
        return self.log_prob(value)


def hops_of(call: Callable[[Watched], Any]) -> int:
    watch = Watch()
    call(Watched(0.0, watch))
    return watch.hops


def joint(x: Any) -> Any:
    return -0.5 * jnp.sum((x - 1.0) ** 2)


SIZES = {"num_gold": 5, "num_target": 5}


def test_eight_hops_lead_from_estimate_and_compare_to_an_algorithm():
    assert hops_of(lambda law: aide.estimate(0, law, law, **SIZES)) <= 8
    assert hops_of(lambda law: aide.compare(0, law, {"itself": law}, **SIZES)) <= 8


@pytest.mark.full
def test_eight_hops_lead_from_refine_to_a_recorded_run():
    def refine(law: Watched) -> Any:
        chain = aide.mcmc(law, joint, kernel=aide.kernels.RandomWalk(0.9), num_steps=4)
        return aide.refine(0, chain, num_pilots=100, num_reverse=10)

    assert hops_of(refine) <= 8


@pytest.mark.full
def test_twelve_hops_lead_from_gold_standard_to_a_run():
    def gold_standard(law: Watched) -> Any:
        return aide.gold_standard(0, joint, law, num_pilots=100, max_looseness=0.3)

    assert hops_of(gold_standard) <= 12
