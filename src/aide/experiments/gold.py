"""Measuring several targets against one gold standard whose runs are made once."""

from collections.abc import Sequence

import jax

from aide._core.algorithm import InferenceAlgorithm
from aide._core.roles import TARGET
from aide.draws.draw import draw
from aide.draws.draws import Draws
from aide.estimation.summary import Estimate


class GoldStandard:
    """A gold standard, its runs, and the numbers of runs all targets share."""

    def __init__(self, algorithm: InferenceAlgorithm, seed: int, num_runs: int):
        self.algorithm, self.num_runs = algorithm, num_runs
        self.key = jax.random.key(seed)
        self._draws: Draws | None = None

    def measure(self, target: InferenceAlgorithm, num_meta: int = 1) -> Draws:
        """Runs of the target and scores of both, with outputs."""
        draws = draw(
            self.key,
            self.algorithm,
            target,
            num_gold=self.num_runs,
            num_target=self.num_runs,
            num_meta_target=num_meta,
            keep_values=True,
            share=self._draws,
            looseness=False,
            progress=False,
        )
        self._draws = draws
        return draws


def estimates_for(draws: Draws, metas: Sequence[int]) -> list[Estimate]:
    """The estimate at each (smaller) number of meta-inference runs of the target."""
    return [Estimate(draws.with_num_meta(TARGET, meta)) for meta in metas]
