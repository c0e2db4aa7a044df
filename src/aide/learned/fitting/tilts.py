r"""Fitting tilted models to sums over pilots (NumPy).

**How far a law is from a density** is learned by score matching (Hyvärinen 2005): with
$g = \nabla\log\gamma$, $\mu$ and $\Sigma$ the law's mean and covariance, the quadratic that brings
$\gamma\,e^{\frac12 x^\top Q x + l^\top x}$ nearest to it has, in coordinates with $\Sigma = I$,

$$Q = -I - \tfrac12 E[g (x - \mu)^\top + (x - \mu) g^\top], \qquad l = -E[g] - Q\mu.$$

$Q$ is then shrunk towards 0, by the factor that suits pilots which were held out. Errors of such a
score cost about $d^2/N$ nats in each relaxation time, however many steps that takes.

**A power** $\rho$ of $\gamma$ is for laws that lag far behind. With $S$ the regression of $g$ on
$x$ and $\tilde g = g - S x$ what it leaves, in the same coordinates, and $H$ the Hessian of
$\log\gamma$, score matching gives $\rho = \operatorname{tr}(S - E[H]) / E|\tilde g|^2$, which is 1
where the law is $\gamma$; it too is shrunk, towards 1. $g$ above is then $\rho\,g$.

**The step back** follows. By detailed balance (with the kernel's shadow, `from_shadow`, where it
has no accept step) the reverse of a step $x \to y$ is the kernel's own
guess $z \sim N(0, I)$ times $\varphi(x)$, with $\varphi = e^{\frac12 x^\top Q x + l^\top x}$ the
tilt of the states *before* the step. The state before is nearly $A y + C z + a$, which regression
tells almost without error, so that $z \mid y$ is normal with precision $I - C^\top Q C$ and mean
$(I - C^\top Q C)^{-1} C^\top (Q (A y + a) + l)$. With a power, $\varphi$ has the factor
$\gamma^{\rho - 1}$, whose gradient at $A y + a$ is taken for $g(y) + E[H](A y + a - y)$.
"""

from typing import NamedTuple

import jax
import numpy as np

from aide.learned.models.tilted import TiltedKernel
from aide.learned.records.statistics import Statistics

LEAST_PRECISION = 0.2
"""Of the step back, relative to the kernel's own guess: proposals are no wider than that."""
LEAST_SHARE, MOST_SHARE = 0.02, 0.9
"""Of the kernel's own guess; between them, the share of rejected steps."""
RIDGE = 1e-9
"""Relative to the diagonal, where a regression is singular."""
LEAST_POWER, MOST_POWER = 0.1, 1.5
"""Of a density: 0 would leave nothing of it, and below all is lost."""
NO_ENERGY = 1e-5
"""Of what gradients are besides linear, per state, in units of the law's spread."""


class Tilt(NamedTuple):
    r"""$Q$, $l$ and $\rho$; where there may be a power, the mean Hessian of $\log\gamma$."""

    quadratic: np.ndarray
    linear: np.ndarray
    power: float = 1.0
    bend: np.ndarray | None = None


class _Law(NamedTuple):
    """Moments of a law and of the gradient $g$ under it."""

    mean: np.ndarray
    covariance: np.ndarray
    mean_slope: np.ndarray
    cross: np.ndarray


def fit_tilts(statistics: Statistics, steps: np.ndarray) -> TiltedKernel:
    """Models stacked over all times; `steps` are those of `shadow_steps`."""
    models = [_fit_time(statistics, time, step) for time, step in enumerate(steps)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *models)


def _fit_time(statistics: Statistics, time: int, step: np.ndarray) -> TiltedKernel:
    bends = statistics.bends[:, time]
    before, after = (
        match(law[:, time], bends[:, place] if bends.size else None)
        for place, law in enumerate((statistics.before, statistics.after))
    )
    before = from_shadow(before, statistics.before[:, time].sum(axis=0), step)
    slope, shift, covariance = step_back(before, statistics.steps[:, time].sum(axis=0))
    moved = statistics.moved[:, time].sum() / statistics.count.sum()
    share = float(np.clip(1.0 - moved, LEAST_SHARE, MOST_SHARE))
    tilt = (after.quadratic, after.linear)
    return TiltedKernel.of(*tilt, slope, shift, covariance, share, after.power)


def match(sums: np.ndarray, bends: np.ndarray | None = None) -> Tilt:
    """The tilt of a law, from sums of $(1, x)(1, x, g)^T$ per fold, [folds, 1 + d, 1 + 2d].

    With a power if there are sums of $H$ too, and rows for $g$.
    """
    root = np.linalg.cholesky(_law(sums.sum(axis=0)).covariance)
    power = 1.0 if bends is None else match_power(sums, bends, root)
    law = _law(sums.sum(axis=0), power)
    quadratic = _matched(law, root)
    lean, curve = 0.0, 0.0
    for fold in sums:
        mine, judge = _matched(_law(sums.sum(axis=0) - fold, power), root), _law(fold, power)
        lean -= np.trace(mine) + np.sum(mine * judge.cross)
        curve += np.sum((mine @ judge.covariance) * mine)
    factor = float(np.clip(lean / curve, 0.0, 1.0)) if curve > 0.0 else 0.0
    quadratic = factor * quadratic
    bend = None if bends is None else _mean_bend(bends.sum(axis=0), sums.sum(axis=0))
    return Tilt(quadratic, -law.mean_slope - quadratic @ law.mean, power, bend)


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


class _PowerTerms(NamedTuple):
    r"""The objective of score matching in the power: $\frac12\rho^2$ `energy` $- \rho$ `gain`."""

    energy: float
    gain: float

    @property
    def power(self) -> float:
        """1 where gradients are linear: any would do, with a quadratic to match."""
        return self.gain / self.energy if self.energy > NO_ENERGY else 1.0


def _power_terms(
    fitted: np.ndarray, sums: np.ndarray, bends: np.ndarray, root: np.ndarray
) -> _PowerTerms:
    """Of one set of pilots, with the regression of the gradient on the state that others gave."""
    size, white = len(root), np.linalg.inv(root)
    known, law = _law(fitted), _law(sums)
    covariance = white @ known.covariance @ white.T
    lean = np.linalg.solve(covariance, (root.T @ known.cross @ white.T).T).T
    lean = 0.5 * (lean + lean.T)
    here, cross = white @ law.covariance @ white.T, root.T @ law.cross @ white.T
    total = sums / sums[0, 0]
    slopes = total[1 + size :, 1 + size :] - np.outer(law.mean_slope, law.mean_slope)
    energy = (
        np.sum(slopes * (root @ root.T)) - 2 * np.sum(lean * cross) + np.sum(lean @ here * lean)
    )
    bend = root.T @ _mean_bend(bends, sums) @ root
    # The score is power times what the regression leaves, minus the state: that of N(0, I).
    gain = np.trace(lean) - np.trace(bend) + np.trace(cross) - np.sum(lean * here)
    return _PowerTerms(float(energy), float(gain))


def _mean_bend(bends: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """The mean Hessian, made symmetric."""
    return 0.5 * (bends + bends.T) / sums[0, 0]


def from_shadow(tilt: Tilt, sums: np.ndarray, step: np.ndarray) -> Tilt:
    r"""The tilt of a law from $\gamma\,e^{\frac18\sum_i h_i^2 g_i^2}$ instead of $\gamma$.

    With $g$ nearly $G x + g_0$, which regression tells almost without error, it is
    $Q - \frac14 G^\top h^2 G$ and $l - \frac14 G^\top h^2 g_0$.
    """
    law = _law(sums)
    bend = np.linalg.solve(law.covariance, law.cross.T).T
    base = law.mean_slope - bend @ law.mean
    pull = 0.25 * bend.T * step**2
    return tilt._replace(quadratic=tilt.quadratic - pull @ bend, linear=tilt.linear - pull @ base)


def _law(sums: np.ndarray, power: float = 1.0) -> _Law:
    """With the gradients times a power."""
    size = (sums.shape[1] - 1) // 2
    total = sums[: 1 + size] / sums[0, 0]
    mean, mean_slope = total[0, 1 : 1 + size], power * total[0, 1 + size :]
    covariance = total[1:, 1 : 1 + size] - np.outer(mean, mean)
    covariance = covariance + np.diag(1e-12 + RIDGE * np.diag(covariance))
    cross = power * total[1:, 1 + size :].T - np.outer(mean_slope, mean)
    return _Law(mean, covariance, mean_slope, cross)


def _matched(law: _Law, root: np.ndarray) -> np.ndarray:
    r"""$Q$ that minimises $E[\frac12|Q (x - \mu) + g|^2] + \operatorname{tr} Q$.

    In coordinates that `root` whitens, where $Q\Sigma + \Sigma Q = -2I - E[\dots]$ is solved as if
    $\Sigma$, nearly $I$ there, were the covariance on either side.
    """
    white = np.linalg.inv(root)
    covariance = white @ law.covariance @ white.T
    lean = root.T @ law.cross @ white.T
    inverse = np.linalg.inv(covariance)
    quadratic = -(np.eye(len(root)) + lean) @ inverse
    return white.T @ (0.5 * (quadratic + quadratic.T)) @ white


def step_back(tilt: Tilt, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """$B$ (or $(B, D)$), $b$ and $S$.

    Given the tilt of states before and sums of $(1, y, z)(1, y, z, x)^T$.
    """
    size, num = len(tilt.linear), len(sums)
    left, right = sums[:, :num], sums[:, num:]
    scale = np.sqrt(np.maximum(np.diag(left), 1e-300))
    left = left / np.outer(scale, scale) + RIDGE * np.eye(num)
    affine = (np.linalg.solve(left, right / scale[:, None]) / scale[:, None]).T
    base, from_after, from_noise = np.split(affine, [1, 1 + size], axis=1)
    bend, more = np.zeros((size, size)), tilt.power - 1.0  # of the density's power
    if tilt.bend is not None:
        bend = more * tilt.bend
    bent = tilt.quadratic + bend
    precision = np.eye(num - 1 - size) - from_noise.T @ bent @ from_noise
    values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
    covariance = (vectors / np.maximum(values, LEAST_PRECISION)) @ vectors.T
    pull = covariance @ from_noise.T
    slope = pull @ (bent @ from_after - bend)
    shift = pull @ (bent @ base[:, 0] + tilt.linear)
    if tilt.bend is not None:
        slope = np.concatenate([slope, more * pull], axis=1)
    return slope, shift, covariance
