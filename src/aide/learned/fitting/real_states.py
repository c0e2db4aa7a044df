r"""States of real numbers: mixtures fitted to pilots, their size chosen by held-out pilots.

A rough $\log\hat Z$, from the last states of pilot chains, only balances the kernel's component
against the Gaussians: any value leaves the bound valid.
"""

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.numerics import FlatLayout, as_log
from aide._core.types import LogDensity, Value
from aide.learned.fitting.em import RecordsAtTime, fit_times, gaussian_slots, mean_log_joint
from aide.learned.models.joint import JointMixture
from aide.learned.models.tilted import TiltedKernel
from aide.learned.records.recorders import PartRecords, PilotRuns

TRIMMED = 0.02
"""Share of the pilots that log Z leaves out: those of lowest log density, which may be stuck."""
ENOUGH_EFFECTIVE = 100.0
"""Least effective number of draws for log Z by importance sampling; with fewer, by a bridge."""
CHOICES = (2, 4, 6, 10)
"""Candidate numbers of Gaussians for accepted steps; rejected steps get half as many."""
HELD_OUT = 4
"""One pilot in `HELD_OUT` is held out to compare numbers of Gaussians."""


def estimate_log_z(
    seed: int,
    last: np.ndarray,
    log_density: np.ndarray,
    evaluate: Callable[[np.ndarray], np.ndarray],
) -> float:
    r"""Importance sampling from a t distribution fitted to `last`; if that fails, a bridge.

    The bridge of Meng & Wong (1996) between the fitted distribution and the pilots' last states
    needs less overlap, but treats the pilots as draws from $\gamma$.

    Args:
        seed: Seed of the draws.
        last: Last states of the pilots, [n, d].
        log_density: Log densities of the last states.
        evaluate: Maps many states to their log densities.
    """
    from scipy import stats

    keep = log_density >= np.quantile(log_density, TRIMMED, method="lower")
    keep &= np.isfinite(log_density)
    if keep.sum() < 2:
        raise ValueError(
            f"log_density is -inf at the end of {np.sum(~np.isfinite(log_density))} of "
            f"{len(log_density)} pilot chains: the chains do not reach the posterior. Give them "
            "more steps or another start."
        )
    states, log_gamma = last[keep], log_density[keep]
    spread = np.cov(states.T).reshape((states.shape[1],) * 2)
    spread = spread + np.diag(1e-8 * np.diag(spread) + 1e-300)
    fitted = stats.multivariate_t(states.mean(axis=0), spread, df=10, allow_singular=True)
    draws = np.reshape(fitted.rvs(len(last), random_state=seed), last.shape)
    log_ratio = evaluate(draws) - fitted.logpdf(draws)
    peak = log_ratio.max()
    weights = np.exp(log_ratio - peak)
    if weights.sum() ** 2 > ENOUGH_EFFECTIVE * (weights**2).sum():
        return float(peak + np.log(weights.mean()))
    return _bridge(log_ratio, log_gamma - fitted.logpdf(states))


def _bridge(at_draws: np.ndarray, at_states: np.ndarray) -> float:
    r"""The $\log Z$ at which a logistic classifier with these log ratios is calibrated."""
    from scipy import optimize

    balance = np.log(len(at_states) / len(at_draws))

    def excess(log_z: float) -> float:
        wrong = np.logaddexp.reduce(-np.logaddexp(0.0, -(at_draws - log_z + balance)))
        missed = np.logaddexp.reduce(-np.logaddexp(0.0, at_states - log_z + balance))
        return float(wrong - missed)

    finite = np.concatenate([at_draws[np.isfinite(at_draws)], at_states])
    found = optimize.root_scalar(excess, bracket=(finite.min() - 50.0, finite.max() + 50.0))
    return float(found.root)


def evaluate_log_density(log_density: LogDensity, example: Value, states: np.ndarray) -> np.ndarray:
    """The log density of many flat states; NaN is an error."""
    with jax.enable_x64(True):
        layout = FlatLayout(example)
        evaluate = lambda x: as_log(log_density(layout.unravel(x)))
        values = np.asarray(jax.jit(jax.vmap(evaluate))(states))
    if np.isnan(values).any():
        worst = states[np.isnan(values)][0]
        raise ValueError(
            f"log_density is NaN at {worst}. It must be a number, or -inf where there is no mass."
        )
    return values


class RealStates:
    """The family of states that are real numbers: the kernel in equilibrium and Gaussians."""

    words: ClassVar[str] = "real numbers"
    models: ClassVar[tuple[type, ...]] = (JointMixture, TiltedKernel)

    def serves(self, example: Value) -> bool:
        """Whether a state has real numbers only."""
        kinds = {jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(example)}
        return kinds == {True}

    def tail_size(self, models: tuple[JointMixture | TiltedKernel, ...]) -> int | None:
        """The dimension of a state, which says how heavy a Gaussian posterior's tail would be."""
        return models[0].sizes[0]

    def num_fits(self, num_parts: int, num_components: int | None) -> int:
        """Largest number of fits that `learn` makes."""
        return num_parts * (1 if num_components else 1 + len(CHOICES))

    def estimate_log_z(
        self,
        seed: int,
        pilots: PilotRuns,
        num_branches: list[int],
        evaluate: Callable[[np.ndarray], np.ndarray],
    ) -> float:
        r"""A rough $\log\int\gamma$ from the pilots' last states."""
        return estimate_log_z(seed, pilots.last, pilots.log_density, evaluate)

    def learn(
        self,
        seed: int,
        parts: tuple[PartRecords, ...],
        num_branches: list[int],
        log_z: np.ndarray,
        num_components: int | None,
        num_lagging: int,
        report: Callable[[int], None],
    ) -> tuple[tuple[JointMixture, ...], dict[str, float]]:
        r"""A mixture per part, and the held-out scores where the number of Gaussians was chosen.

        Args:
            seed: Seed of k-means.
            parts: Records of the pilots.
            num_branches: Number of branches of each part.
            log_z: $\log\hat Z$ per grid time.
            num_components: Gaussians for accepted steps; chosen by held-out likelihood if `None`.
            num_lagging: Lagging components (`aide.learned.models.joint`).
            report: Called with the number of finished fits, `num_fits` in all.
        """
        models, tried = [], {}
        for number, (part, branches) in enumerate(zip(parts, num_branches, strict=True)):
            choice = num_components
            if choice is None:
                scores = _compete(seed, part, branches, log_z, num_lagging, report)
                tried.update({f"part {number}, {c}": score for c, score in scores.items()})
                choice = max(scores, key=lambda c: scores[c])
            models.append(_fit(seed, part, branches, choice, log_z, num_lagging))
            report(1)
        return tuple(models), tried


def _compete(
    seed: int,
    part: PartRecords,
    num_branches: int,
    log_z: np.ndarray,
    num_lagging: int,
    report: Callable[[int], None],
) -> dict[int, float]:
    """Held-out scores of more and more Gaussians, until a score falls."""
    scores = dict[int, float]()
    for candidate in CHOICES:
        scores[candidate] = _held_out(seed, part, num_branches, candidate, log_z, num_lagging)
        report(1)
        if scores[candidate] < max(scores.values()):
            break
    report(len(CHOICES) - len(scores))
    return scores


def _fit(
    seed: int,
    part: PartRecords,
    num_branches: int,
    num_components: int,
    log_z: np.ndarray,
    num_lagging: int,
) -> JointMixture:
    """The models of one part, stacked over the grid's times."""
    slots, size, mirrors = _layout(part, num_branches, num_components)
    records = _records(part, slice(None), log_z)
    fits = fit_times(seed, records, slots, size, num_lagging, mirrors)
    stacked = []
    for moments, constant in zip(fits, log_z, strict=True):
        weights, means, covariances, lagging = moments.inflated()
        model = JointMixture.from_moments(
            weights, means, covariances, slots, size, float(constant), lagging
        )
        stacked.append(model)
    return jax.tree.map(lambda *leaves: np.stack(leaves), *stacked)


def _layout(
    part: PartRecords, num_branches: int, num_components: int
) -> tuple[np.ndarray, int, bool]:
    """Branches of the Gaussians, the size of $y$, and whether Gaussians come in pairs."""
    mirrors = bool((part.origin < 0).any())
    slots = gaussian_slots(num_branches, 2 * num_components if mirrors else num_components)
    return slots, part.state.shape[-1], mirrors


def _records(
    part: PartRecords, pilots: slice, log_z: np.ndarray, every: int = 1
) -> list[RecordsAtTime]:
    part = PartRecords(*(array[pilots] for array in part))
    points = np.concatenate([part.state, part.noise], axis=2)
    log_kernel = part.log_density - log_z
    times = range(0, points.shape[1], every)
    return [
        RecordsAtTime(
            points[:, t], part.branch[:, t], part.origin[:, t], log_kernel[:, t], part.log_own[:, t]
        )
        for t in times
    ]


def _held_out(
    seed: int,
    part: PartRecords,
    num_branches: int,
    num_components: int,
    log_z: np.ndarray,
    num_lagging: int,
) -> float:
    """Mean log density of held-out records, over every third grid time."""
    slots, size, mirrors = _layout(part, num_branches, num_components)
    cut = len(part.state) // HELD_OUT
    records = _records(part, slice(cut, None), log_z, 3)
    fits = fit_times(seed, records, slots, size, num_lagging, mirrors)
    unseen = _records(part, slice(cut), log_z, 3)
    pairs = zip(fits, unseen, strict=True)
    return float(np.mean([mean_log_joint(fit.inflated(), one, slots) for fit, one in pairs]))
