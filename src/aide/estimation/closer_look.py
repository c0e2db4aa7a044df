"""A closer look at two algorithms: their steps, and more meta-runs at a few outputs."""

import jax

from aide._core.algorithm import InferenceAlgorithm
from aide._core.types import Key, Role
from aide._core.versions import NoSuchVersion
from aide.diagnosing.diagnose import diagnose
from aide.engine.draw import draw
from aide.engine.draws import Draws

NUM_RUNS = 8
"""Extra runs, looked at step by step."""


class CloserLook:
    """The two algorithms of an estimate and a key, to look closer if that is asked for.

    Args:
        key: A JAX key; the runs are others than those of the estimate.
        algorithms: The gold standard and the target.
    """

    def __init__(self, key: Key, algorithms: tuple[InferenceAlgorithm, InferenceAlgorithm]):
        self._key, self._algorithms = key, algorithms

    def words(self, role: Role) -> tuple[str, ...]:
        """What would make an expert stop: kernels that hardly accept, populations of one ancestor.

        Nothing for an algorithm that does not describe its steps.
        """
        key = jax.random.fold_in(jax.random.fold_in(self._key, int(role)), 0xC105E2)
        try:
            found = diagnose(key, self._algorithms[role], num_runs=NUM_RUNS)
        except NoSuchVersion:
            return ()
        return found.step_notes

    def draw(self, role: Role, num_runs: int, num_meta: int) -> Draws:
        """Other runs of both algorithms, with more meta-runs of one of them."""
        key = jax.random.fold_in(jax.random.fold_in(self._key, int(role)), 0x2EAC4)
        return draw(
            key,
            *self._algorithms,
            num_gold=num_runs,
            num_target=num_runs,
            num_meta_gold=num_meta if role is Role.GOLD else 1,
            num_meta_target=num_meta if role is Role.TARGET else 1,
        )
