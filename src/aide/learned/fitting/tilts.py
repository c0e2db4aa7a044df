r"""Fitting tilted models to sums over pilots (NumPy).

**The distance of a law from a density** is learned by score matching (Hyvärinen 2005): with
$g = \nabla\log\gamma$, $\mu$ and $\Sigma$ the law's mean and covariance, the quadratic that brings
$\gamma\,e^{\frac12 x^\top Q x + l^\top x}$ nearest to the law has, where $\Sigma = I$,

$$Q = -I - \tfrac12 E[g (x - \mu)^\top + (x - \mu) g^\top], \qquad l = -E[g] - Q\mu.$$

$Q$ is then shrunk towards 0, by the factor that is best for held-out pilots. Errors of such a score
cost about $d^2/N$ nats in each relaxation time, for any number of steps.

**A power** $\rho$ of $\gamma$ is for laws that lag far behind. With $S$ the regression of $g$ on
$x$ and $\tilde g = g - S x$ the residual of the regression, in the same coordinates, and $H$ the
Hessian of $\log\gamma$, the objective with the best $Q$ and $l$ is
$\frac12\rho^2 E|\tilde g|^2 - \rho\operatorname{tr}(S - E[H])$, up to a constant. Hence
$\rho = \operatorname{tr}(S - E[H]) / E|\tilde g|^2$, which is 1 where the law is $\gamma$. $\rho$
is shrunk too, towards 1. $g$ above is then replaced by $\rho\,g$.

**The step back** follows. By detailed balance (with the kernel's shadow, `from_shadow`, where the
kernel has no accept step) the reverse of a step $x \to y$ is the kernel's own guess
$z \sim N(0, I)$ times $\varphi(x)$, with $\varphi = e^{\frac12 x^\top Q x + l^\top x}$ the tilt of
the states *before* the step. The state before is nearly $A y + C z + a$, which regression gives
almost without error, so that $z \mid y$ is normal with precision $I - C^\top Q C$ and mean
$(I - C^\top Q C)^{-1} C^\top (Q (A y + a) + l)$. With a power, $\varphi$ has the factor
$\gamma^{\rho - 1}$, whose gradient at $A y + a$ is approximated by $g(y) + E[H](A y + a - y)$.
"""

from typing import NamedTuple

import jax
import numpy as np

from aide.learned.models.tilted import TiltedKernel
from aide.learned.records.statistics import Statistics

RIDGE = 1e-9
"""Share of the diagonal that is added to it, so that singular regressions can be solved."""
LEAST_POWER = 0.1
"""Smallest power of a density: a smaller one would leave hardly anything of the density."""
MOST_POWER = 1.5
"""Largest power of a density: a law that lags behind is wider, and needs powers below 1."""
NO_ENERGY = 1e-5
r"""Value of $E|\tilde g|^2$ below which gradients count as linear, and the power stays 1."""
LEAST_PRECISION = 0.2
"""Smallest precision of the step back, relative to that of the kernel's own guess."""
LEAST_SHARE = 0.02
"""Smallest share of the kernel's own guess in the step back, which keeps the proposal's tails."""
MOST_SHARE = 0.9
"""Largest share of the kernel's own guess; between both limits, the share of rejected steps."""


class Law(NamedTuple):
    """Moments of a law and of the gradient $g$ of a log density under that law."""

    mean: np.ndarray
    covariance: np.ndarray
    mean_gradient: np.ndarray
    cross: np.ndarray


def law_of(sums: np.ndarray, power: float = 1.0) -> Law:
    """The moments, from sums of $(1, x)(1, x, g)^T$, with gradients times a power."""
    size = (sums.shape[1] - 1) // 2
    total = sums[: 1 + size] / sums[0, 0]
    mean, mean_gradient = total[0, 1 : 1 + size], power * total[0, 1 + size :]
    covariance = total[1:, 1 : 1 + size] - np.outer(mean, mean)
    covariance = covariance + np.diag(1e-12 + RIDGE * np.diag(covariance))
    cross = power * total[1:, 1 + size :].T - np.outer(mean_gradient, mean)
    return Law(mean, covariance, mean_gradient, cross)


def mean_hessian(hessians: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """The mean Hessian, made symmetric."""
    return 0.5 * (hessians + hessians.T) / sums[0, 0]


def match_power(sums: np.ndarray, hessians: np.ndarray, root: np.ndarray) -> float:
    r"""$\rho$, in coordinates that `root` whitens, shrunk towards 1.

    $\rho - 1$ is multiplied by the factor that minimises the objective on held-out pilots.
    """
    total, total_hessian = sums.sum(axis=0), hessians.sum(axis=0)
    excess = _power_objective(total, total, total_hessian, root).power - 1.0
    gain, cost = 0.0, 0.0
    for fold, hessian in zip(sums, hessians, strict=True):
        others, other_hessians = total - fold, total_hessian - hessian
        left_out_fit = _power_objective(others, others, other_hessians, root).power - 1.0
        held_out = _power_objective(others, fold, hessian, root)
        gain += (held_out.gain - held_out.energy) * left_out_fit
        cost += held_out.energy * left_out_fit**2
    factor = _shrinkage(gain, cost)
    return float(np.clip(1.0 + factor * excess, LEAST_POWER, MOST_POWER))


def _shrinkage(gain: float, cost: float) -> float:
    """The factor f between 0 and 1 that maximises f gain - f² cost / 2."""
    return float(np.clip(gain / cost, 0.0, 1.0)) if cost > 0.0 else 0.0


class PowerObjective(NamedTuple):
    r"""The objective of score matching in the power: $\frac12\rho^2$ `energy` $- \rho$ `gain`."""

    energy: float
    gain: float

    @property
    def power(self) -> float:
        """The best power; 1 for linear gradients, where a quadratic replaces any power."""
        return self.gain / self.energy if self.energy > NO_ENERGY else 1.0


def _power_objective(
    fitted: np.ndarray, sums: np.ndarray, hessians: np.ndarray, root: np.ndarray
) -> PowerObjective:
    """The objective for the pilots of `sums`, with the regression of $g$ on $x$ from `fitted`."""
    size, white = len(root), np.linalg.inv(root)
    known, law = law_of(fitted), law_of(sums)
    covariance = white @ known.covariance @ white.T
    regression = np.linalg.solve(covariance, (root.T @ known.cross @ white.T).T).T
    regression = 0.5 * (regression + regression.T)
    here, cross = white @ law.covariance @ white.T, root.T @ law.cross @ white.T
    total = sums / sums[0, 0]
    spread = total[1 + size :, 1 + size :] - np.outer(law.mean_gradient, law.mean_gradient)
    energy = np.sum(spread * (root @ root.T)) - 2 * np.sum(regression * cross)
    energy = energy + np.sum(regression @ here * regression)
    hessian = root.T @ mean_hessian(hessians, sums) @ root
    # The score is power times the residual minus the state, as for N(0, I).
    gain = np.trace(regression) - np.trace(hessian) + np.trace(cross) - np.sum(regression * here)
    return PowerObjective(float(energy), float(gain))


class Tilt(NamedTuple):
    r"""$Q$, $l$ and $\rho$; with powers also the mean Hessian of $\log\gamma$."""

    quadratic: np.ndarray
    linear: np.ndarray
    power: float = 1.0
    hessian: np.ndarray | None = None


def fit_tilts(statistics: Statistics, steps: np.ndarray) -> TiltedKernel:
    """Models stacked over all times; `steps` come from `shadow_steps`."""
    models = [_fit_time(statistics, time, step) for time, step in enumerate(steps)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *models)


def _fit_time(statistics: Statistics, time: int, step: np.ndarray) -> TiltedKernel:
    hessians = statistics.hessians[:, time]
    before, after = (
        match(law[:, time], hessians[:, place] if hessians.size else None)
        for place, law in enumerate((statistics.before, statistics.after))
    )
    before = from_shadow(before, statistics.before[:, time].sum(axis=0), step)
    slope, shift, covariance = step_back(before, statistics.steps[:, time].sum(axis=0))
    moved = statistics.moved[:, time].sum() / statistics.count.sum()
    share = float(np.clip(1.0 - moved, LEAST_SHARE, MOST_SHARE))
    tilt = (after.quadratic, after.linear)
    return TiltedKernel.of(*tilt, slope, shift, covariance, share, after.power)


def match(sums: np.ndarray, hessians: np.ndarray | None = None) -> Tilt:
    """The tilt of a law, from sums of $(1, x)(1, x, g)^T$ per fold, [folds, 1 + d, 1 + 2d].

    With `hessians`, and rows of $g$ in `sums`, a power is fitted too.
    """
    root = np.linalg.cholesky(law_of(sums.sum(axis=0)).covariance)
    power = 1.0 if hessians is None else match_power(sums, hessians, root)
    law = law_of(sums.sum(axis=0), power)
    quadratic = _matched(law, root)
    gain, cost = 0.0, 0.0
    for fold in sums:
        left_out_fit = _matched(law_of(sums.sum(axis=0) - fold, power), root)
        held_out_law = law_of(fold, power)
        gain -= np.trace(left_out_fit) + np.sum(left_out_fit * held_out_law.cross)
        cost += np.sum((left_out_fit @ held_out_law.covariance) * left_out_fit)
    quadratic = _shrinkage(gain, cost) * quadratic
    hessian = None if hessians is None else mean_hessian(hessians.sum(axis=0), sums.sum(axis=0))
    return Tilt(quadratic, -law.mean_gradient - quadratic @ law.mean, power, hessian)


def from_shadow(tilt: Tilt, sums: np.ndarray, step: np.ndarray) -> Tilt:
    r"""The tilt of a law from $\gamma\,e^{\frac18\sum_i h_i^2 g_i^2}$ instead of $\gamma$.

    With $g$ nearly $G x + g_0$, which regression gives almost without error, the tilt is
    $Q - \frac14 G^\top h^2 G$ and $l - \frac14 G^\top h^2 g_0$.
    """
    law = law_of(sums)
    regression = np.linalg.solve(law.covariance, law.cross.T).T
    base = law.mean_gradient - regression @ law.mean
    pull = 0.25 * regression.T * step**2
    quadratic, linear = tilt.quadratic - pull @ regression, tilt.linear - pull @ base
    return tilt._replace(quadratic=quadratic, linear=linear)


def _matched(law: Law, root: np.ndarray) -> np.ndarray:
    r"""$Q$ that minimises $E[\frac12|Q (x - \mu) + g|^2] + \operatorname{tr} Q$.

    Coordinates are those that `root` whitens. $Q\Sigma + \Sigma Q = -2I - E[\dots]$ is solved as if
    both products were $Q\Sigma$, since $\Sigma$ is nearly $I$ there.
    """
    white = np.linalg.inv(root)
    covariance = white @ law.covariance @ white.T
    cross = root.T @ law.cross @ white.T
    inverse = np.linalg.inv(covariance)
    quadratic = -(np.eye(len(root)) + cross) @ inverse
    return white.T @ (0.5 * (quadratic + quadratic.T)) @ white


def step_back(tilt: Tilt, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """$B$ (or $(B, D)$), $b$ and $S$ of `aide.learned.models.tilted`.

    `tilt` is that of states before the step, `sums` are those of $(1, y, z)(1, y, z, x)^T$.
    """
    size, num = len(tilt.linear), len(sums)
    left, right = sums[:, :num], sums[:, num:]
    scale = np.sqrt(np.maximum(np.diag(left), 1e-300))
    left = left / np.outer(scale, scale) + RIDGE * np.eye(num)
    affine = (np.linalg.solve(left, right / scale[:, None]) / scale[:, None]).T
    base, from_after, from_noise = np.split(affine, [1, 1 + size], axis=1)
    excess = tilt.power - 1.0
    of_power = np.zeros((size, size)) if tilt.hessian is None else excess * tilt.hessian
    quadratic = tilt.quadratic + of_power
    precision = np.eye(num - 1 - size) - from_noise.T @ quadratic @ from_noise
    values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
    covariance = (vectors / np.maximum(values, LEAST_PRECISION)) @ vectors.T
    pull = covariance @ from_noise.T
    slope = pull @ (quadratic @ from_after - of_power)
    shift = pull @ (quadratic @ base[:, 0] + tilt.linear)
    if tilt.hessian is not None:
        slope = np.concatenate([slope, excess * pull], axis=1)
    return slope, shift, covariance
