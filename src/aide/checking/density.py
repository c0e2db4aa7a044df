r"""Laws 1 and 5: does $\xi$ estimate the density of the outputs, and has it the claimed mass?

With $f$ a distribution of known density on a region $S$ (see `region`):

- law 1, integrated: $E_{x\sim f}[\xi(u, x)\,\varphi(x)/f(x)] = Z\,E_{simulate}[\varphi(x) 1_S(x)]$
  with $u$ from `regenerate`, for bounded $\varphi$;
- law 5: $E_{simulate}[f(x)/\xi] = 1/Z$, if the outputs' density is positive on $S$.

Where $Z$ is unknown, the ratio of two such means is compared instead.
"""

import numpy as np

from aide.checking.evidence import (
    MIN_TERMS,
    Evidence,
    is_heavy,
    mean_p_value,
    tail_p_value,
)
from aide.estimation.draws import Draws
from aide.estimation.interval import skewness

HEAVY = "the ratios are too heavy-tailed to judge their mean"


def density_evidence(
    draws: Draws, features: tuple[np.ndarray, np.ndarray], log_z: float | None, variant: str
) -> list[Evidence]:
    """Judge both laws; `draws` have the region as gold standard and the algorithm as target.

    Args:
        draws: Runs of both, with outputs.
        features: Columns with values in [0, 1] of the outputs of region and algorithm.
        log_z: The algorithm's claim.
        variant: Its name.
    """
    weights = np.exp(draws.gold.cross[:, 0] - draws.gold.own[:, 0] - (log_z or 0.0))
    inside = np.isfinite(draws.target.cross[:, 0]).astype(float)
    num = draws.target.num_runs
    if inside.mean() < 0.01 or not np.isfinite(weights).all():
        return [Evidence(1, variant, None, "the region holds too few outputs", num)]
    found = []
    if log_z is None:
        scale = inside.mean() / weights.mean()
        words = "shape of xi against the outputs (Z unknown)"
    else:
        scale = 1.0
        ratio = weights.mean() / inside.mean()
        words = f"xi integrates to {ratio:.3g} times the share of outputs in a typical region"
        found.append(_compare(weights, inside, words, variant))
    for column, (scored, seen) in enumerate(zip(features[0].T, features[1].T, strict=True)):
        words = f"feature {column + 1} of the outputs: {(weights * scored).mean() * scale:.3g} "
        words += f"by xi, {(inside * seen).mean():.3g} by simulation"
        if log_z is None:  # centred, so that the unknown factor cancels to first order
            centre = (inside * seen).mean() / inside.mean()
            scored, seen = scored - centre, seen - centre
        found.append(_compare(weights * scored * scale, inside * seen, words, variant))
    if (weights > 0).all() and log_z is not None:
        inverse = np.exp(draws.target.cross[:, 0] + log_z - draws.target.own[:, 0])
        p_value = mean_p_value(inverse, 1.0)
        words = f"E[h/xi] is {inverse.mean():.3g}, should be 1"
        words = words if p_value is not None else f"{words}; {HEAVY}"
        found.append(Evidence(5, variant, p_value, words, num, float(inverse.mean())))
    return found


def _compare(scored: np.ndarray, seen: np.ndarray, words: str, variant: str) -> Evidence:
    """Two independent means that should agree."""
    magnitude = float(scored.mean() / seen.mean()) if seen.mean() != 0 else None
    if scored.size < MIN_TERMS or is_heavy(scored):
        return Evidence(1, variant, None, f"{words}; {HEAVY}", seen.size, magnitude)
    parts = [(a.var(ddof=1) / a.size, skewness(a), a.size) for a in (scored, seen) if np.ptp(a)]
    error = np.sqrt(sum(variance for variance, _, _ in parts))
    difference = abs(scored.mean() - seen.mean())
    if error < 1e-9:
        p_value = 1.0 if difference < 1e-6 else 0.0
    else:
        # The larger of the two corrections for skewness, each as if its sample stood alone.
        p_value = max(tail_p_value(difference / error, s, n) for _, s, n in parts)
    return Evidence(1, variant, p_value, words, seen.size, magnitude)
