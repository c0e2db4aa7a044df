"""MCMC runs as inference algorithms, with the canonical meta-inference."""

from typing import Any

from aide._types import LogDensity
from aide._validate import check_count
from aide.kernels.kernel import AbstractKernel
from aide.smc.moves import Constant, Mcmc, Steps
from aide.smc.smc import Smc


def mcmc(
    initial: Any,
    log_joint: LogDensity,
    *,
    kernel: AbstractKernel,
    num_steps: int,
    label: str = "",
) -> Smc:
    r"""Start at $x_0 \sim k_1$, make `num_steps` transitions, output the last state.

    Formally AIS with a single jump in temperature: $\xi = \gamma(x_T)\,k_1(x_0)/\gamma(x_0)$, and
    `regenerate` runs the reversed kernel from $x_T$. That meta-inference assumes a chain in
    equilibrium: the bound never falls below the divergence of the *start* (Cusumano-Towner &
    Mansinghka 2017, Figure 2), so read it as an upper bound and look at the looseness.

    Args:
        initial: $k_1$, with `sample(key)` and `log_density(x)`.
        log_joint: $\log\gamma$, which the kernel leaves invariant.
        kernel: The transition, with its reversal.
        num_steps: Number of transitions; 0 returns the start.
        label: A name for tables.
    """
    check_count("num_steps", num_steps, 0)
    moves = (Steps(Constant(Mcmc(kernel, log_joint)), num_steps=num_steps),)
    return Smc(initial, moves, log_joint, 1, log_joint, label=label or f"MCMC, {num_steps} steps")
