"""States of real numbers: mixtures fitted to pilots, their size chosen by held-out pilots."""

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.types import Value
from aide.learned.fitting.em import fit_times, gaussian_slots
from aide.learned.fitting.log_constant import estimate_log_z
from aide.learned.fitting.moments import RecordsAtTime, mean_log_joint
from aide.learned.models.mixture import JointMixture
from aide.learned.models.tilted import TiltedKernel
from aide.learned.records.pilots import PartRecords, Pilots

CHOICES = (2, 4, 6, 10)
"""Numbers of Gaussians that compete, for accepted steps; half as many serve rejected ones."""
HELD_OUT = 4
"""One pilot in so many judges the competition."""


class RealStates:
    """The family of states that are real numbers: the kernel in equilibrium and Gaussians."""

    words: ClassVar[str] = "real numbers"
    models: ClassVar[tuple[type, ...]] = (JointMixture, TiltedKernel)

    def serves(self, example: Value) -> bool:
        """Whether a state has real numbers only."""
        kinds = {jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(example)}
        return kinds == {True}

    def tail_size(self, models: tuple[JointMixture | TiltedKernel, ...]) -> int | None:
        """The dimension, for what a Gaussian posterior's tail would be."""
        return models[0].sizes[0]

    def num_fits(self, num_parts: int, num_components: int | None) -> int:
        """How many fits `learn` makes at most."""
        return num_parts * (1 if num_components else 1 + len(CHOICES))

    def estimate_log_z(
        self,
        seed: int,
        pilots: Pilots,
        num_branches: list[int],
        evaluate: Callable[[np.ndarray], np.ndarray],
    ) -> float:
        r"""A rough $\log\int\gamma$ from the pilots' last states."""
        return estimate_log_z(seed, pilots.last, pilots.log_density, evaluate)

    def learn(
        self,
        seed: int,
        parts: tuple[PartRecords, ...],
        num_branches: list[int],
        log_z: np.ndarray,
        num_components: int | None,
        num_lagging: int,
        report: Callable[[int], None],
    ) -> tuple[tuple[JointMixture, ...], dict[str, float]]:
        r"""A mixture per part, and the held-out scores where the number of Gaussians was chosen.

        Args:
            seed: For k-means.
            parts: Records of the pilots.
            num_branches: Per part.
            log_z: $\log\hat Z$ per grid time.
            num_components: Gaussians for accepted steps; chosen by held-out likelihood if `None`.
            num_lagging: Lagging components (`aide.learned.models.mixture`).
            report: Counts fits, `num_fits` in all.
        """
        models, tried = [], {}
        for number, (part, branches) in enumerate(zip(parts, num_branches, strict=True)):
            choice = num_components
            if choice is None:
                scores = _compete(seed, part, branches, log_z, num_lagging, report)
                tried.update({f"part {number}, {c}": score for c, score in scores.items()})
                choice = max(scores, key=lambda c: scores[c])
            models.append(_fit(seed, part, branches, choice, log_z, num_lagging))
            report(1)
        return tuple(models), tried


def _compete(
    seed: int,
    part: PartRecords,
    num_branches: int,
    log_z: np.ndarray,
    num_lagging: int,
    report: Callable[[int], None],
) -> dict[int, float]:
    """Held-out scores of more and more Gaussians, until more only fit the noise."""
    scores = dict[int, float]()
    for candidate in CHOICES:
        scores[candidate] = _held_out(seed, part, num_branches, candidate, log_z, num_lagging)
        report(1)
        if scores[candidate] < max(scores.values()):
            break
    report(len(CHOICES) - len(scores))
    return scores


def _fit(
    seed: int,
    part: PartRecords,
    num_branches: int,
    num_components: int,
    log_z: np.ndarray,
    num_lagging: int,
) -> JointMixture:
    """The models of one part, stacked over the grid's times."""
    slots, size, mirrors = _layout(part, num_branches, num_components)
    records = _records(part, slice(None), log_z)
    fits = fit_times(seed, records, slots, size, num_lagging, mirrors)
    stacked = []
    for moments, constant in zip(fits, log_z, strict=True):
        weights, means, covariances, lagging = moments.inflated()
        model = JointMixture.from_moments(
            weights, means, covariances, slots, size, float(constant), lagging
        )
        stacked.append(model)
    return jax.tree.map(lambda *leaves: np.stack(leaves), *stacked)


def _layout(
    part: PartRecords, num_branches: int, num_components: int
) -> tuple[np.ndarray, int, bool]:
    """Which branches Gaussians serve, the size of y, and whether Gaussians come in pairs."""
    mirrors = bool((part.origin < 0).any())
    slots = gaussian_slots(num_branches, 2 * num_components if mirrors else num_components)
    return slots, part.state.shape[-1], mirrors


def _records(
    part: PartRecords, pilots: slice, log_z: np.ndarray, every: int = 1
) -> list[RecordsAtTime]:
    part = PartRecords(*(array[pilots] for array in part))
    points = np.concatenate([part.state, part.noise], axis=2)
    log_kernel = part.log_density - log_z
    times = range(0, points.shape[1], every)
    return [
        RecordsAtTime(
            points[:, t], part.branch[:, t], part.origin[:, t], log_kernel[:, t], part.log_own[:, t]
        )
        for t in times
    ]


def _held_out(
    seed: int,
    part: PartRecords,
    num_branches: int,
    num_components: int,
    log_z: np.ndarray,
    num_lagging: int,
) -> float:
    """Mean log density of held-out records, over every third grid time."""
    slots, size, mirrors = _layout(part, num_branches, num_components)
    cut = len(part.state) // HELD_OUT
    records = _records(part, slice(cut, None), log_z, 3)
    fits = fit_times(seed, records, slots, size, num_lagging, mirrors)
    judges = _records(part, slice(cut), log_z, 3)
    pairs = zip(fits, judges, strict=True)
    return float(np.mean([mean_log_joint(fit.inflated(), judge, slots) for fit, judge in pairs]))
