"""MCMC runs as inference algorithms, with canonical or learned meta-inference."""

from typing import Any

from aide._core.types import LogDensity
from aide._core.validate import check_size
from aide.kernels.kernel import AbstractKernel, as_invariant
from aide.smc.moves import Constant, Rejuvenate, Steps
from aide.smc.smc import Smc

NUM_REVERSE = 100
"""Reverse particles of learned meta-inference unless stated."""


def mcmc(
    initial: Any,
    log_joint: LogDensity,
    *,
    kernel: AbstractKernel,
    num_steps: int,
    meta: Any = "canonical",
    num_reverse: int | None = None,
    label: str = "",
) -> Any:
    r"""Start at $x_0 \sim k_1$, make `num_steps` transitions, output the last state.

    With canonical meta-inference this is formally AIS with a single jump in temperature:
    $\xi = \gamma(x_T)\,k_1(x_0)/\gamma(x_0)$, and `regenerate` runs the reversed kernel from $x_T$,
    as if the chain were in equilibrium. The bound then never falls below the divergence of the
    *start* (Cusumano-Towner & Mansinghka 2017, Figure 2). Learned meta-inference
    (`aide.learn_reverse`) makes it tight.

    Args:
        initial: $k_1$, with `sample(key)` and `log_density(x)`.
        log_joint: $\log\gamma$, which the kernel leaves invariant (unless it is unadjusted).
        kernel: The transition; canonical meta-inference needs its reversal.
        num_steps: Number of transitions; 0 returns the start.
        meta: "canonical", or what `aide.learn_reverse` returned for this chain or a longer one.
        num_reverse: Reverse particles of learned meta-inference (100 unless stated). More tighten
            the bound: looseness falls about as their inverse.
        label: A name for tables.
    """
    check_size("num_steps", num_steps, 0)
    name = label or f"MCMC, {num_steps} steps"
    if meta is None or (isinstance(meta, str) and meta == "canonical"):
        if num_reverse is not None:
            raise ValueError(
                f"num_reverse = {num_reverse} belongs to learned meta-inference. Pass "
                "meta=aide.learn_reverse(...), or leave num_reverse out and raise num_meta_target."
            )
        moves = (Steps(Constant(Rejuvenate(as_invariant(kernel), log_joint)), num_steps=num_steps),)
        return Smc(initial, moves, log_joint, 1, log_joint, label=name)
    if not callable(getattr(meta, "attach", None)):
        raise TypeError(
            f"meta must be 'canonical' or the result of aide.learn_reverse, got {meta!r}."
        )
    num_reverse = NUM_REVERSE if num_reverse is None else num_reverse
    return meta.attach(initial, log_joint, kernel, num_steps, num_reverse, name)
