"""Learning the reverse of a chain from pilots."""

from typing import Any

import jax
import numpy as np

from aide._distribution import check_distribution
from aide._random import as_key
from aide._types import LogDensity
from aide._validate import check_count
from aide.kernels.retrace import parts_of
from aide.learned.constant import estimate_log_z
from aide.learned.fit import ReverseFit, example_state, state_size, unroll
from aide.learned.gaussians import Records, fit_times, gaussian_slots, mean_log_joint
from aide.learned.mixture import JointMixture
from aide.learned.pilots import (
    Chain,
    PartRecords,
    Pilots,
    evaluate_log_density,
    nearest,
    run_pilots,
    time_grid,
)

CHOICES = (2, 4, 6, 10)
"""Numbers of Gaussians that compete, for accepted steps; half as many serve rejected ones."""
HELD_OUT = 4
"""One pilot in so many judges the competition."""


def learn_reverse(
    key: Any,
    initial: Any,
    log_joint: LogDensity,
    *,
    kernel: Any,
    num_steps: int,
    num_pilots: int | None = None,
    num_components: int | None = None,
    log_z: float | None = None,
) -> ReverseFit:
    r"""Learn meta-inference for `aide.mcmc(initial, log_joint, kernel=..., num_steps=...)`.

    Runs pilot chains and fits, along a grid of times, the joint law of state and record as a
    mixture of the kernel in equilibrium and Gaussians. Any fit gives a valid bound.

    Args:
        key: A JAX key; use another one for the estimate itself.
        initial: The start distribution, with `sample(key)` and a log density.
        log_joint: $\log\gamma$, up to a constant.
        kernel: A Metropolis kernel, `Ula`, `Sgld`, or a `Cycle` or `Repeat` of them.
        num_steps: The longest chain to be measured.
        num_pilots: Pilot chains: by default 2,000 for one dimension up to 8,000 for ten.
        num_components: Gaussians for accepted steps (half as many for rejected ones); by default
            chosen by the likelihood of held-out pilots.
        log_z: $\log\int\gamma$, if you know it; estimated otherwise. Affects looseness only.
    """
    key = as_key(key)
    check_distribution("initial", initial)
    parts_of(kernel)
    kernel, num_steps = unroll(kernel, num_steps)
    check_count("num_steps", num_steps)
    size = state_size(initial)
    if num_pilots is None:
        num_pilots = int(np.clip(1400 + 600 * size, 2000, 8000))
    check_count("num_pilots", num_pilots, 50)
    if num_components is not None:
        check_count("num_components", num_components)
    chain = Chain(initial, log_joint, kernel)
    pilots = run_pilots(jax.random.fold_in(key, 0), chain, num_steps, num_pilots)
    _check_pilots(pilots)
    seed = int(jax.random.bits(jax.random.fold_in(key, 1)))
    if log_z is None:
        example = example_state(initial)
        evaluate = lambda states: evaluate_log_density(chain, example, states)
        log_z = estimate_log_z(seed, pilots.last, pilots.log_density, evaluate)
    models, tried = [], {}
    for number, part in enumerate(pilots.parts):
        branches = parts_of(kernel)[number].num_branches
        choice = num_components
        if choice is None:
            scores = {c: _held_out(seed, part, branches, c, log_z) for c in CHOICES}
            tried.update({f"part {number}, {c}": score for c, score in scores.items()})
            choice = max(scores, key=lambda c: scores[c])
        slots = gaussian_slots(branches, choice)
        fits = fit_times(seed, _records(part, slice(None), log_z), slots)
        stacked = [JointMixture.from_moments(*fit.inflated(), slots, size, log_z) for fit in fits]
        models.append(jax.tree.map(lambda *leaves: np.stack(leaves), *stacked))
    index = nearest(time_grid(num_steps), num_steps)
    constant = np.array(log_z, np.float64)
    return ReverseFit(tuple(models), index, constant, pilots.log_density, pilots.moves, tried)


def _records(part: PartRecords, pilots: slice, log_z: float, every: int = 1) -> list[Records]:
    part = PartRecords(*(array[pilots] for array in part))
    points = np.concatenate([part.state, part.noise], axis=2)
    log_kernel = part.log_density - log_z + part.log_own
    times = range(0, points.shape[1], every)
    return [Records(points[:, t], part.branch[:, t], log_kernel[:, t]) for t in times]


def _held_out(
    seed: int, part: PartRecords, num_branches: int, num_components: int, log_z: float
) -> float:
    """Mean log density of held-out records, over every third grid time."""
    slots = gaussian_slots(num_branches, num_components)
    cut = len(part.state) // HELD_OUT
    fits = fit_times(seed, _records(part, slice(cut, None), log_z, 3), slots)
    judges = _records(part, slice(cut), log_z, 3)
    pairs = zip(fits, judges, strict=True)
    return float(np.mean([mean_log_joint(fit.inflated(), judge, slots) for fit, judge in pairs]))


def _check_pilots(pilots: Pilots) -> None:
    for part in pilots.parts:
        if not np.isfinite(part.state).all() or np.isnan(part.log_density).any():
            raise ValueError(
                "log_density is NaN, or the state overflowed, in some pilot chains. The density "
                "must be a number, or -inf where there is no mass; an unadjusted kernel needs a "
                "smaller step size."
            )
