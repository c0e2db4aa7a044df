r"""Powers of a density that bring it near a law, by score matching (NumPy).

In coordinates in which the law has covariance $I$, let $S$ be the regression of the gradient $g$ of
$\log\gamma$ on $x$, $\tilde g = g - S x$ what it leaves, and $H$ the Hessian. The objective of
$\gamma^\rho\,e^{\frac12 x^\top Q x + l^\top x}$ with the best $Q$ and $l$ is
$\frac12\rho^2 E|\tilde g|^2 - \rho\operatorname{tr}(S - E[H])$, up to a constant.
"""

from typing import NamedTuple

import numpy as np

from aide.learned.fitting.law_moments import law_of, mean_bend

LEAST_POWER, MOST_POWER = 0.1, 1.5
"""Of a density: 0 would leave nothing of it, and below all is lost."""
NO_ENERGY = 1e-5
"""Of what gradients are besides linear, per state, in units of the law's spread."""


def match_power(sums: np.ndarray, bends: np.ndarray, root: np.ndarray) -> float:
    r"""$\rho$, in coordinates that `root` whitens, shrunk as held-out pilots say."""
    total, total_bend = sums.sum(axis=0), bends.sum(axis=0)
    excess = _power_terms(total, total, total_bend, root).power - 1.0
    lean, curve = 0.0, 0.0
    for fold, bend in zip(sums, bends, strict=True):
        mine = _power_terms(total - fold, total - fold, total_bend - bend, root).power - 1.0
        judge = _power_terms(total - fold, fold, bend, root)
        lean += (judge.gain - judge.energy) * mine
        curve += judge.energy * mine**2
    factor = float(np.clip(lean / curve, 0.0, 1.0)) if curve > 0.0 else 0.0
    return float(np.clip(1.0 + factor * excess, LEAST_POWER, MOST_POWER))


class PowerTerms(NamedTuple):
    r"""The objective of score matching in the power: $\frac12\rho^2$ `energy` $- \rho$ `gain`."""

    energy: float
    gain: float

    @property
    def power(self) -> float:
        """1 where gradients are linear: any would do, with a quadratic to match."""
        return self.gain / self.energy if self.energy > NO_ENERGY else 1.0


def _power_terms(
    fitted: np.ndarray, sums: np.ndarray, bends: np.ndarray, root: np.ndarray
) -> PowerTerms:
    """Of one set of pilots, with the regression of the gradient on the state that others gave."""
    size, white = len(root), np.linalg.inv(root)
    known, law = law_of(fitted), law_of(sums)
    covariance = white @ known.covariance @ white.T
    lean = np.linalg.solve(covariance, (root.T @ known.cross @ white.T).T).T
    lean = 0.5 * (lean + lean.T)
    here, cross = white @ law.covariance @ white.T, root.T @ law.cross @ white.T
    total = sums / sums[0, 0]
    slopes = total[1 + size :, 1 + size :] - np.outer(law.mean_slope, law.mean_slope)
    energy = (
        np.sum(slopes * (root @ root.T)) - 2 * np.sum(lean * cross) + np.sum(lean @ here * lean)
    )
    bend = root.T @ mean_bend(bends, sums) @ root
    # The score is power times what the regression leaves, minus the state: that of N(0, I).
    gain = np.trace(lean) - np.trace(bend) + np.trace(cross) - np.sum(lean * here)
    return PowerTerms(float(energy), float(gain))
