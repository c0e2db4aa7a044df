"""Families of models for kinds of states; `FAMILIES` lists all of them."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import jax
import numpy as np

from aide._core.distribution import sample_from
from aide._core.types import Value
from aide.learned.fitting.discrete_states import DiscreteStates
from aide.learned.fitting.real_states import RealStates
from aide.learned.models.divided import DividedModel
from aide.learned.models.joint import JointModel
from aide.learned.records.pilots import PartRecords, PilotRuns


class StateFamily(Protocol):
    """The models of one kind of states, and how they are fitted.

    A new kind of state is a `JointModel`, a family that fits it to pilots, and an entry in
    `FAMILIES`.
    """

    words: ClassVar[str]
    """The kind of states in the words of messages."""
    models: ClassVar[tuple[type, ...]]
    """The classes of the family's models, by whose names files refer to them."""

    def serves(self, example: Value) -> bool:
        """Whether the family models states like `example`."""
        ...

    def tail_size(self, models: Any) -> int | None:
        """The dimension by which tails of the posterior are judged; `None` for no judgement."""
        ...

    def num_fits(self, num_parts: int, num_components: int | None) -> int:
        """Largest number of fits that `learn` reports."""
        ...

    def estimate_log_z(
        self,
        seed: int,
        pilots: PilotRuns,
        num_branches: list[int],
        evaluate: Callable[[np.ndarray], np.ndarray],
    ) -> float:
        r"""A rough $\log\hat Z$ from the pilots of a chain."""
        ...

    def learn(
        self,
        seed: int,
        parts: tuple[PartRecords, ...],
        num_branches: list[int],
        log_z: np.ndarray,
        num_components: int | None,
        num_lagging: int,
        report: Callable[[int], None],
    ) -> tuple[tuple[JointModel, ...], dict[str, float]]:
        r"""A model per part of the kernel, stacked over grid times, and scores of all candidates.

        `log_z` holds $\log\hat Z$ per grid time.
        """
        ...


FAMILIES: tuple[StateFamily, ...] = (RealStates(), DiscreteStates())


def family_for(start: Any) -> StateFamily:
    """The family of the states that a start distribution draws."""
    example = example_state(start)
    for family in FAMILIES:
        if family.serves(example):
            return family
    types = sorted({str(leaf.dtype) for leaf in jax.tree.leaves(example)})
    handled = " or ".join(f"states of {family.words}" for family in FAMILIES)
    raise TypeError(
        f"learned meta-inference handles {handled}, but start draws "
        f"{' and '.join(types) or 'nothing'}. Use canonical meta-inference, the algorithm as it is."
    )


def family_of(models: tuple[JointModel, ...]) -> StateFamily:
    """The family of the models; a divided model counts as its model `here`."""
    model = models[0].here if isinstance(models[0], DividedModel) else models[0]
    return next(family for family in FAMILIES if isinstance(model, family.models))


def example_state(start: Any) -> Value:
    """A state of zeros with the structure that the start draws."""
    with jax.enable_x64(True):
        shapes = jax.eval_shape(lambda: sample_from(start, jax.random.key(0)))
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


def state_size(start: Any) -> int:
    """Number of numbers in a state."""
    return sum(np.size(leaf) for leaf in jax.tree.leaves(example_state(start)))
