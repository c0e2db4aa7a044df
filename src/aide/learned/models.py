"""From pilots to models of the reverse, one per part of the kernel: Gaussians or tables."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from aide.learned.em import fit_times, gaussian_slots
from aide.learned.gaussians import Records, mean_log_joint
from aide.learned.mixture import JointMixture
from aide.learned.pilots import PartRecords
from aide.learned.tables import box_of, fit_tables

CHOICES = (2, 4, 6, 10)
"""Numbers of Gaussians that compete, for accepted steps; half as many serve rejected ones."""
HELD_OUT = 4
"""One pilot in so many judges the competition."""


def learn_tables(
    parts: tuple[PartRecords, ...], num_branches: list[int], log_z: np.ndarray
) -> tuple[Any, ...]:
    r"""A table per part of the kernel; `log_z` holds $\log\hat Z$ per grid time."""
    box = box_of(parts, max(num_branches))
    pairs = zip(parts, num_branches, strict=True)
    return tuple(fit_tables(part, number, *box, log_z) for part, number in pairs)


def learn_mixtures(
    seed: int,
    parts: tuple[PartRecords, ...],
    num_branches: list[int],
    log_z: np.ndarray,
    num_components: int | None,
    report: Callable[[int], None],
    num_lagging: int = 0,
) -> tuple[tuple[Any, ...], dict[str, float]]:
    r"""A mixture per part, and the held-out scores where the number of Gaussians was chosen.

    Args:
        seed: For k-means.
        parts: Records of the pilots.
        num_branches: Per part.
        log_z: $\log\hat Z$ per grid time.
        num_components: Gaussians for accepted steps; chosen by held-out likelihood if `None`.
        report: Counts fits, `num_fits` in all.
        num_lagging: Lagging components (`aide.learned.mixture`).
    """
    models, tried = [], {}
    for number, (part, branches) in enumerate(zip(parts, num_branches, strict=True)):
        choice, size = num_components, part.state.shape[-1]
        if choice is None:
            scores = dict[int, float]()
            for candidate in CHOICES:
                scores[candidate] = _held_out(seed, part, branches, candidate, log_z, num_lagging)
                report(1)
                if scores[candidate] < max(scores.values()):
                    break  # more Gaussians only fit the noise
            report(len(CHOICES) - len(scores))
            tried.update({f"part {number}, {c}": score for c, score in scores.items()})
            choice = max(scores, key=lambda c: scores[c])
        slots = gaussian_slots(branches, choice)
        fits = fit_times(seed, _records(part, slice(None), log_z), slots, size, num_lagging)
        stacked = []
        for moments, constant in zip(fits, log_z, strict=True):
            weights, means, covariances, lagging = moments.inflated()
            model = JointMixture.from_moments(
                weights, means, covariances, slots, size, float(constant), lagging
            )
            stacked.append(model)
        models.append(jax.tree.map(lambda *leaves: np.stack(leaves), *stacked))
        report(1)
    return tuple(models), tried


def num_fits(num_parts: int, num_components: int | None) -> int:
    """How many fits `learn_mixtures` makes at most."""
    return num_parts * (1 if num_components else 1 + len(CHOICES))


def _records(part: PartRecords, pilots: slice, log_z: np.ndarray, every: int = 1) -> list[Records]:
    part = PartRecords(*(array[pilots] for array in part))
    points = np.concatenate([part.state, part.noise], axis=2)
    log_kernel = part.log_density - log_z
    times = range(0, points.shape[1], every)
    return [
        Records(points[:, t], part.branch[:, t], log_kernel[:, t], part.log_own[:, t])
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
    slots, size = gaussian_slots(num_branches, num_components), part.state.shape[-1]
    cut = len(part.state) // HELD_OUT
    records = _records(part, slice(cut, None), log_z, 3)
    fits = fit_times(seed, records, slots, size, num_lagging)
    judges = _records(part, slice(cut), log_z, 3)
    pairs = zip(fits, judges, strict=True)
    return float(np.mean([mean_log_joint(fit.inflated(), judge, slots) for fit, judge in pairs]))
