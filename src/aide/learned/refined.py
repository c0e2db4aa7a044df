r"""What algorithms with learned meta-inference share: a fit, reverse particles, a walk back."""

import dataclasses
from typing import Any, Self

import equinox as eqx

from aide._core.algorithm import describe
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

    Its fields are, among others, `fit`, `num_reverse` and `resampler`.
    """

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


def refined_label(algorithm: Any) -> str:
    """The name of a refined algorithm that was given none."""
    return f"{describe(algorithm)}, refined"
