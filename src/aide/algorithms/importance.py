"""Importance sampling with resampling (SIR)."""

from aide._core.distribution import Distribution
from aide._core.types import LogDensity
from aide.smc.smc import Smc


def sir(
    proposal: Distribution, log_joint: LogDensity, *, num_particles: int, label: str = ""
) -> Smc:
    r"""Draw $P$ proposals, output one of them by weight $\gamma(x)/k(x)$: SMC with no moves.

    Args:
        proposal: $k$, with `sample(key)` and `log_density(x)`.
        log_joint: $\log\gamma(x)$, normalised or not.
        num_particles: $P$.
        label: A name for tables.
    """
    return Smc(proposal, (), log_joint, num_particles, label=label or f"SIR, {num_particles}")
