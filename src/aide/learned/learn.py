"""Learning the reverse of a chain from pilots."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.distribution import check_distribution
from aide._core.random import as_key
from aide._core.types import LogDensity
from aide._core.validate import check_size
from aide.kernels.retrace import NO_RECORD, parts_of
from aide.learned.constant import estimate_log_z
from aide.learned.fit import ReverseFit, example_state, state_size, unroll
from aide.learned.models import learn_mixtures, learn_tables, num_fits
from aide.learned.pilots import (
    ChainRun,
    Pilots,
    evaluate_log_density,
    nearest,
    run_pilots,
    time_grid,
)
from aide.learned.tables import box_of, log_sum
from aide.learned.transitions import Same, Transitions
from aide.running.progress import Progress


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
    progress: bool | None = None,
) -> ReverseFit:
    r"""Learn meta-inference for `aide.mcmc(initial, log_joint, kernel=..., num_steps=...)`.

    Runs pilot chains and fits, along a grid of times, the joint law of state and record as a
    mixture of the kernel in equilibrium and Gaussians, or a table where states are integers. Any
    fit gives a valid bound.

    Args:
        key: A JAX key; use another one for the estimate itself.
        initial: The start distribution, with `sample(key)` and a log density.
        log_joint: $\log\gamma$, up to a constant.
        kernel: A Metropolis kernel, `Ula`, `Sgld`, or a `Cycle` or `Repeat` of them; for discrete
            states `GibbsSites` or `FiniteNoise`.
        num_steps: The longest chain to be measured.
        num_pilots: Pilot chains: by default 2,000 for one dimension up to 8,000 for ten.
        num_components: Gaussians for accepted steps (half as many for rejected ones); by default
            chosen by the likelihood of held-out pilots.
        log_z: $\log\int\gamma$, if you know it; estimated otherwise. Affects looseness only.
        progress: Show a progress bar; by default if it takes long and a person watches.
    """
    key = as_key(key)
    check_distribution("initial", initial)
    parts_of(kernel)
    kernel, num_steps = unroll(kernel, num_steps)
    check_size("num_steps", num_steps)
    num_pilots = count_pilots(num_pilots, state_size(initial))
    if num_components is not None:
        check_size("num_components", num_components)
    runner = ChainRun(Transitions(initial, Same(kernel, log_joint), None, num_steps))
    seed = int(jax.random.bits(jax.random.fold_in(key, 1), dtype=jnp.uint32))
    example, discrete = example_state(initial)
    branches = [part.num_branches for part in parts_of(kernel)]
    evaluate = lambda states: evaluate_log_density(log_joint, example, states)
    grid, tried = time_grid(num_steps), {}
    with learning_bars(num_pilots, len(branches), num_components, progress) as bars:
        pilots = run_pilots(jax.random.fold_in(key, 0), runner, num_pilots, bars.reporter(0))
        check_pilots(pilots)
        if log_z is None and discrete:
            log_z = log_sum(evaluate, *box_of(pilots.parts, max(branches)))
        elif log_z is None:
            log_z = estimate_log_z(seed, pilots.last, pilots.log_density, evaluate)
        constants = np.full(grid.size, log_z)
        if discrete:
            models = learn_tables(pilots.parts, branches, constants)
        else:
            models, tried = learn_mixtures(
                seed, pilots.parts, branches, constants, num_components, bars.reporter(1)
            )
    return ReverseFit(
        models, nearest(grid, num_steps), constants, pilots.log_density, pilots.moves, tried
    )


def learning_bars(
    num_pilots: int, num_parts: int, num_components: int | None, show: bool | None
) -> Progress:
    """Progress of pilots and of fits."""
    return Progress(("pilots", "fits"), (num_pilots, num_fits(num_parts, num_components)), show)


def count_pilots(num_pilots: int | None, size: int) -> int:
    """How many pilots: as stated, or 2,000 for one dimension up to 8,000 for ten."""
    if num_pilots is None:
        return int(np.clip(1400 + 600 * size, 2000, 8000))
    check_size("num_pilots", num_pilots, 50)
    return num_pilots


def check_pilots(pilots: Pilots) -> None:
    """Raise an error if a state or density of a pilot is no number, or a step left no record."""
    num = len(pilots.last)
    for part in pilots.parts:
        lost = (part.branch == NO_RECORD).any(axis=1)
        if lost.any():
            raise ValueError(
                f"the kernel drew a noise that is not among the noises of FiniteNoise, in "
                f"{lost.sum()} of {num} pilot chains. List every value the kernel can draw and its "
                "involution can return, exactly (type and rounding included)."
            )
        overflowed = ~np.isfinite(part.state).all(axis=(1, 2))
        if overflowed.any():
            raise ValueError(
                f"the state overflowed in {overflowed.sum()} of {num} pilot chains: the kernel, "
                "which has no accept step, diverges. Give it a smaller step size."
            )
        wrong = np.isnan(part.log_density)
        if wrong.any():
            x = np.array2string(part.state[tuple(np.argwhere(wrong)[0])], threshold=8)
            raise ValueError(
                f"log_density is NaN in {wrong.any(axis=1).sum()} of {num} pilot chains, first at "
                f"x = {x}. It must be a number, or -inf where there is no mass; common causes: "
                "inf - inf or 0 * inf far from the posterior, the log of a negative number."
            )
