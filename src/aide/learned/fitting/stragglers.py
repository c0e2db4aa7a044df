"""Pilot chains that are stuck or late: too rare for a few hundred runs, dear in nats."""

import numpy as np

FALSE_ALARMS = 1e-3
"""Chance that a Gaussian posterior's own tail is called an outlier, over all pilots together."""
MARGIN = 2.0
"""Tails may be so much heavier than a Gaussian's before they are remarked upon."""
FEWEST_STEPS = 20
"""Shorter chains are not judged by how often they moved."""


def describe_stragglers(
    log_density: np.ndarray, moves: np.ndarray, size: int | None, num_steps: int
) -> tuple[str, ...]:
    r"""Sentences about pilots that ended too low or stopped moving; empty if there are none.

    For a Gaussian posterior of dimension $d$, $\max\log\gamma - \log\gamma(x)$ is half a
    $\chi^2_d$ variable.

    Args:
        log_density: At the last state of every pilot.
        moves: Share of the last half of its transitions that changed the state.
        size: Dimension of the state; `None` for discrete states, of whose tails nothing is known.
        num_steps: Transitions per pilot.
    """
    from scipy import stats

    num = len(log_density)
    sentences = []
    tail = np.inf if size is None else stats.chi2.isf(FALSE_ALARMS / num, size)
    limit = MARGIN * tail / 2
    gap = log_density.max() - log_density
    low = gap > limit
    if low.any():
        sentences.append(
            f"{low.sum()} of {num} pilot chains ({low.mean():.2%}) end where the log density is "
            f"more than {limit:.0f} nats below the best one seen (the lowest: {gap.max():.3g}). "
            "Either the posterior has heavy tails, or these chains were late or stuck. Such runs "
            "dominate the divergence when they occur; an estimate from "
            f"fewer than {int(np.ceil(3 / low.mean()))} runs may well miss them."
        )
    still = moves == 0.0
    if num_steps >= FEWEST_STEPS and still.any() and np.median(moves) > 0.1:
        sentences.append(
            f"{still.sum()} of {num} pilot chains ({still.mean():.2%}) did not move at all in the "
            f"last {num_steps - num_steps // 2} steps, while the median chain moved in "
            f"{np.median(moves):.0%} of them: they are stuck."
        )
    return tuple(sentences)
