"""Families of models for kinds of states; `FAMILIES` lists all of them.

States of integers have tables, fitted to pilots in NumPy. A table is the pilots' relative
frequencies, shrunk towards the table of the time before; the weights of the three components are
those that best predict held-out pilots.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.distribution import sample_from
from aide._core.types import Value
from aide.learned.fitting.em import LEAST_COUNTS
from aide.learned.fitting.real_states import RealStates
from aide.learned.models.divided import DividedModel
from aide.learned.models.joint import JointModel, JointTable, states_of, strides_of
from aide.learned.records.recorders import PartRecords, PilotRuns

LARGEST = 200_000
"""Largest table, in states times branches, that thousands of pilots can teach: a choice."""
PRIOR_COUNTS = 20.0
"""Weight, in pilots, of the table of the time before (at the first time: of equal chances)."""
ITERATIONS = 200
"""Steps of EM for the three weights of a mixture: enough to converge, since a step is cheap."""


class DiscreteStates:
    """The family of integer states: tables over the box that pilots visited."""

    words: ClassVar[str] = "integers"
    models: ClassVar[tuple[type, ...]] = (JointTable,)

    def serves(self, example: Value) -> bool:
        """Whether a state has no real numbers."""
        kinds = {jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(example)}
        return kinds == {False}

    def tail_size(self, models: tuple[JointTable, ...]) -> int | None:
        """Return `None`: tails of discrete states are not judged."""
        return None

    def num_fits(self, num_parts: int, num_components: int | None) -> int:
        """One fit per part of the kernel."""
        return num_parts

    def estimate_log_z(
        self,
        seed: int,
        pilots: PilotRuns,
        num_branches: list[int],
        evaluate: Callable[[np.ndarray], np.ndarray],
    ) -> float:
        r"""$\log\sum_y\gamma(y)$ over the box."""
        values = evaluate(states_of(*box_of(pilots.parts, max(num_branches))))
        return float(np.logaddexp.reduce(values))

    def learn(
        self,
        seed: int,
        parts: tuple[PartRecords, ...],
        num_branches: list[int],
        log_z: np.ndarray,
        num_components: int | None,
        num_lagging: int,
        report: Callable[[int], None],
    ) -> tuple[tuple[JointTable, ...], dict[str, float]]:
        r"""A table per part of the kernel, with one lagging component for every `num_lagging`.

        `log_z` holds $\log\hat Z$ per grid time; `report` counts fits.
        """
        low, high = box_of(parts, max(num_branches))
        models = []
        for part, number in zip(parts, num_branches, strict=True):
            models.append(fit_tables(part, number, low, high, log_z))
            report(1)
        return tuple(models), {}


def box_of(parts: tuple[PartRecords, ...], num_branches: int) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and highest value of every coordinate; raise if the table were too large."""
    low = np.min([part.state.min(axis=(0, 1)) for part in parts], axis=0)
    high = np.max([part.state.max(axis=(0, 1)) for part in parts], axis=0)
    entries = np.prod(high - low + 1) * num_branches
    if entries > LARGEST:
        raise ValueError(
            f"a table over these discrete states would have {entries:.3g} entries "
            f"({len(low)} variables, {num_branches} branches); at most {LARGEST} can be learned. "
            "Use canonical meta-inference, the algorithm as it is, and raise num_meta_target."
        )
    return low, high


def fit_tables(
    part: PartRecords, num_branches: int, low: np.ndarray, high: np.ndarray, log_z: np.ndarray
) -> JointTable:
    r"""The models of one part of the kernel, stacked over the grid's times.

    `log_z` holds $\log\hat Z$ for every time.
    """
    num, num_times = part.branch.shape
    size = int(np.prod(high - low + 1))
    number = ((part.state - low) * strides_of(low, high)).sum(axis=2).astype(int)
    entry = number * num_branches + part.branch
    halves = np.arange(num) % 2
    tables = np.full((3, size * num_branches), 1 / (size * num_branches))
    weights, models = np.full(3, 1 / 3), []
    for t in range(num_times):
        for which, chosen in enumerate((halves == 0, halves == 1, slice(None))):
            counts = np.bincount(entry[chosen, t], minlength=size * num_branches)
            total = counts.sum() + PRIOR_COUNTS
            tables[which] = (counts + PRIOR_COUNTS * tables[which]) / total
        own = part.log_own[:, t]
        unseen = np.where(halves, tables[0][entry[:, t]], tables[1][entry[:, t]])
        marginals = tables[:2].reshape(2, size, num_branches).sum(axis=2)
        lagging = np.where(halves, marginals[0][number[:, t]], marginals[1][number[:, t]])
        log_gamma = part.log_density[:, t] - log_z[t]
        with np.errstate(divide="ignore"):
            terms = np.stack([log_gamma + own, np.log(lagging) + own, np.log(unseen)])
        weights = _best_weights(terms, weights)
        table = tables[2].reshape(size, num_branches)
        models.append(JointTable.from_table(weights, table, low, high, float(log_z[t])))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *models)


def _best_weights(log_terms: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """EM for the weights of three known densities, none below `LEAST_COUNTS` pilots."""
    for _ in range(ITERATIONS):
        with np.errstate(divide="ignore"):
            joint = np.log(weights)[:, None] + log_terms
        total = np.logaddexp.reduce(joint, axis=0)
        counts = np.exp(joint - total).sum(axis=1)
        weights = np.maximum(counts, LEAST_COUNTS)
        weights = weights / weights.sum()
    return weights


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
