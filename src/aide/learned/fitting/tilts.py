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

from aide.learned.fitting.law_moments import RIDGE, Law, law_of, mean_bend
from aide.learned.fitting.powers import match_power
from aide.learned.models.tilted import TiltedKernel
from aide.learned.records.statistics import Statistics

LEAST_PRECISION = 0.2
"""Of the step back, relative to the kernel's own guess: proposals are no wider than that."""
LEAST_SHARE, MOST_SHARE = 0.02, 0.9
"""Of the kernel's own guess; between them, the share of rejected steps."""


class Tilt(NamedTuple):
    r"""$Q$, $l$ and $\rho$; where there may be a power, the mean Hessian of $\log\gamma$."""

    quadratic: np.ndarray
    linear: np.ndarray
    power: float = 1.0
    bend: np.ndarray | None = None


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
    root = np.linalg.cholesky(law_of(sums.sum(axis=0)).covariance)
    power = 1.0 if bends is None else match_power(sums, bends, root)
    law = law_of(sums.sum(axis=0), power)
    quadratic = _matched(law, root)
    lean, curve = 0.0, 0.0
    for fold in sums:
        mine, judge = _matched(law_of(sums.sum(axis=0) - fold, power), root), law_of(fold, power)
        lean -= np.trace(mine) + np.sum(mine * judge.cross)
        curve += np.sum((mine @ judge.covariance) * mine)
    factor = float(np.clip(lean / curve, 0.0, 1.0)) if curve > 0.0 else 0.0
    quadratic = factor * quadratic
    bend = None if bends is None else mean_bend(bends.sum(axis=0), sums.sum(axis=0))
    return Tilt(quadratic, -law.mean_slope - quadratic @ law.mean, power, bend)


def from_shadow(tilt: Tilt, sums: np.ndarray, step: np.ndarray) -> Tilt:
    r"""The tilt of a law from $\gamma\,e^{\frac18\sum_i h_i^2 g_i^2}$ instead of $\gamma$.

    With $g$ nearly $G x + g_0$, which regression tells almost without error, it is
    $Q - \frac14 G^\top h^2 G$ and $l - \frac14 G^\top h^2 g_0$.
    """
    law = law_of(sums)
    bend = np.linalg.solve(law.covariance, law.cross.T).T
    base = law.mean_slope - bend @ law.mean
    pull = 0.25 * bend.T * step**2
    return tilt._replace(quadratic=tilt.quadratic - pull @ bend, linear=tilt.linear - pull @ base)


def _matched(law: Law, root: np.ndarray) -> np.ndarray:
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
