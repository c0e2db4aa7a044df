r"""Fitting tilted models to sums over pilots (NumPy).

**How far a law is from a density** is learned by score matching (Hyvärinen 2005): with
$g = \nabla\log\gamma$, $\mu$ and $\Sigma$ the law's mean and covariance, the quadratic that brings
$\gamma\,e^{\frac12 x^\top Q x + l^\top x}$ nearest to it has, in coordinates with $\Sigma = I$,

$$Q = -I - \tfrac12 E[g (x - \mu)^\top + (x - \mu) g^\top], \qquad l = -E[g] - Q\mu.$$

$Q$ is then shrunk towards 0, by the factor that suits pilots which were held out. Errors of such a
score cost about $d^2/N$ nats in each relaxation time, however many steps that takes.

**The step back** follows. By detailed balance (with the kernel's shadow, `from_shadow`, where it
has no accept step) the reverse of a step $x \to y$ is the kernel's own
guess $z \sim N(0, I)$ times $\varphi(x)$, with $\varphi = e^{\frac12 x^\top Q x + l^\top x}$ the
tilt of the states *before* the step. The state before is nearly $A y + C z + a$, which regression
tells almost without error, so that $z \mid y$ is normal with precision $I - C^\top Q C$ and mean
$(I - C^\top Q C)^{-1} C^\top (Q (A y + a) + l)$.
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


class Tilt(NamedTuple):
    """$Q$ and $l$."""

    quadratic: np.ndarray
    linear: np.ndarray


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
    after, before = (match(law[:, time]) for law in (statistics.after, statistics.before))
    before = from_shadow(before, statistics.before[:, time].sum(axis=0), step)
    slope, shift, covariance = step_back(before, statistics.steps[:, time].sum(axis=0))
    moved = statistics.moved[:, time].sum() / statistics.count.sum()
    share = float(np.clip(1.0 - moved, LEAST_SHARE, MOST_SHARE))
    return TiltedKernel.of(*after, slope, shift, covariance, share)


def match(sums: np.ndarray) -> Tilt:
    """The tilt of a law, from sums of $(1, x)(1, x, g)^T$ per fold, [folds, 1 + d, 1 + 2d]."""
    law = _law(sums.sum(axis=0))
    root = np.linalg.cholesky(law.covariance)
    quadratic = _matched(law, root)
    lean, curve = 0.0, 0.0
    for fold in sums:
        mine, judge = _matched(_law(sums.sum(axis=0) - fold), root), _law(fold)
        lean -= np.trace(mine) + np.sum(mine * judge.cross)
        curve += np.sum((mine @ judge.covariance) * mine)
    factor = float(np.clip(lean / curve, 0.0, 1.0)) if curve > 0.0 else 0.0
    quadratic = factor * quadratic
    return Tilt(quadratic, -law.mean_slope - quadratic @ law.mean)


def from_shadow(tilt: Tilt, sums: np.ndarray, step: np.ndarray) -> Tilt:
    r"""The tilt of a law from $\gamma\,e^{\frac18\sum_i h_i^2 g_i^2}$ instead of $\gamma$.

    With $g$ nearly $G x + g_0$, which regression tells almost without error, it is
    $Q - \frac14 G^\top h^2 G$ and $l - \frac14 G^\top h^2 g_0$.
    """
    law = _law(sums)
    bend = np.linalg.solve(law.covariance, law.cross.T).T
    base = law.mean_slope - bend @ law.mean
    pull = 0.25 * bend.T * step**2
    return Tilt(tilt.quadratic - pull @ bend, tilt.linear - pull @ base)


def _law(sums: np.ndarray) -> _Law:
    size = len(sums) - 1
    total = sums / sums[0, 0]
    mean, mean_slope = total[0, 1 : 1 + size], total[0, 1 + size :]
    covariance = total[1:, 1 : 1 + size] - np.outer(mean, mean)
    covariance = covariance + np.diag(1e-12 + RIDGE * np.diag(covariance))
    return _Law(mean, covariance, mean_slope, total[1:, 1 + size :].T - np.outer(mean_slope, mean))


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
    """$B$, $b$ and $S$, given the tilt of states before and sums of $(1, y, z)(1, y, z, x)^T$."""
    size, num = len(tilt.linear), len(sums)
    left, right = sums[:, :num], sums[:, num:]
    scale = np.sqrt(np.maximum(np.diag(left), 1e-300))
    left = left / np.outer(scale, scale) + RIDGE * np.eye(num)
    affine = (np.linalg.solve(left, right / scale[:, None]) / scale[:, None]).T
    base, from_after, from_noise = np.split(affine, [1, 1 + size], axis=1)
    precision = np.eye(num - 1 - size) - from_noise.T @ tilt.quadratic @ from_noise
    values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
    covariance = (vectors / np.maximum(values, LEAST_PRECISION)) @ vectors.T
    pull = covariance @ from_noise.T
    slope = pull @ tilt.quadratic @ from_after
    shift = pull @ (tilt.quadratic @ base[:, 0] + tilt.linear)
    return slope, shift, covariance
