r"""What algorithms with learned meta-inference share: a fit, reverse particles, a walk back."""

import dataclasses
from abc import abstractmethod
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp

from aide._core.algorithm import Draw, describe
from aide._core.random import derive
from aide._core.types import Key, LogProb, Value
from aide._core.validate import check_size
from aide.learned.walk_back.backward import Backward
from aide.smc.policy import EssBelow
from aide.smc.resampling import Systematic

WHEN_UNEVEN = EssBelow(0.8, Systematic())
"""When and how walks back resample, unless stated."""
FEW = (1, 2, 3)
"""Reverse particles of versions for `aide.check`."""


class AbstractRefined(eqx.Module):
    r"""An algorithm whose `regenerate` runs SMC backwards in time with $P$ reverse particles.

    Its fields are, among others, `fit`, `num_reverse` and `resampler`. It runs and is scored apart
    (`aide._core.algorithm.ScoredApart`): the walk back is nearly all of its program.
    """

    @abstractmethod
    def run_with_trace(self, key: Key) -> tuple[Value, Any]:
        """Run the algorithm; its output, and what the walk back is to retain."""

    @abstractmethod
    def score_trace(self, key: Key, value: Value, trace: Any, is_own: Any) -> LogProb:
        r"""$\log\xi$ of a walk back around the trace where `is_own` is true, else of a free one."""

    def simulate(self, key: Key) -> Draw:
        """Run the algorithm, then walk back around what happened."""
        value, trace = self.run_with_trace(key)
        return Draw(value, self.score_trace(key, value, trace, jnp.asarray(True)))

    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""Walk back from $x$."""
        _, shapes = eqx.filter_eval_shape(self.run_with_trace, key)
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return self.score_trace(key, value, blank, jnp.asarray(False))

    def __check_init__(self: Any) -> None:
        check_size("num_reverse", self.num_reverse)

    @property
    def log_z(self) -> float:
        r"""$\log Z = 0$: $\xi$ is an unbiased estimate of $q(x)$ itself."""
        return 0.0

    def with_reverse(self, num_reverse: int) -> Self:
        """The same algorithm with another number of reverse particles."""
        refined: Any = self
        return dataclasses.replace(refined, num_reverse=num_reverse)

    def few_reverse(self: Any, words: str = "") -> dict[str, Any]:
        """Versions for `aide.check`: few reverse particles show errors best."""
        numbers = [num for num in FEW if num <= self.num_reverse]
        return {f"{num} reverse{words}": self.with_reverse(num) for num in numbers}

    def backward(self: Any) -> Backward:
        """The walk back."""
        return Backward(self.fit.models, self.fit.index, self.num_reverse, self.resampler)


def meta_key(key: Key, is_own: Any) -> Key:
    """The key of a walk back; a run has used up keys 0 and 1 derived from its own."""
    return jnp.where(is_own, derive(key, 2), key)


def refined_label(algorithm: Any) -> str:
    """The name of a refined algorithm that was given none."""
    return f"{describe(algorithm)}, refined"
