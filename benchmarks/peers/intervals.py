"""Other intervals for a sum of two means, to compare with: bootstraps and smoothed tails."""

import numpy as np
from support.made import welch

NUM_RESAMPLES = 299
Interval = tuple[float, float]


def percentile(gold: np.ndarray, target: np.ndarray, rng: np.random.Generator) -> Interval:
    """Quantiles of the bootstrapped estimate."""
    sums = sum(_resample(terms, rng)[0] for terms in (gold, target))
    low, high = np.quantile(sums, [0.025, 0.975])
    return float(low), float(high)


def bootstrap_t(gold: np.ndarray, target: np.ndarray, rng: np.random.Generator) -> Interval:
    """Quantiles of the bootstrapped studentised estimate (Efron 1979; Hall 1988)."""
    parts = [_resample(terms, rng) for terms in (gold, target)]
    value = gold.mean() + target.mean()
    errors = np.sqrt(sum(variances for _, variances in parts))
    ratios = (sum(means for means, _ in parts) - value) / np.where(errors > 0, errors, np.inf)
    error = np.sqrt(gold.var(ddof=1) / gold.size + target.var(ddof=1) / target.size)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(value - high * error), float(value - low * error)


def smoothed(gold: np.ndarray, target: np.ndarray, rng: np.random.Generator) -> Interval:
    """Welch's interval after both tails were replaced by quantiles of generalised Pareto fits."""
    first, second = (-_smooth_upper(-_smooth_upper(terms)) for terms in (gold, target))
    return welch(first, second, 0.025), welch(first, second, 0.975)


METHODS = {"percentile": percentile, "bootstrap-t": bootstrap_t, "smoothed tails": smoothed}


def _resample(terms: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    drawn = terms[rng.integers(0, terms.size, (NUM_RESAMPLES, terms.size))]
    return drawn.mean(axis=1), drawn.var(axis=1, ddof=1) / terms.size


def _smooth_upper(terms: np.ndarray) -> np.ndarray:
    """The largest terms become expected quantiles of a generalised Pareto fit by moments."""
    size = int(min(0.2 * terms.size, 3 * np.sqrt(terms.size)))
    order = np.argsort(terms)
    base = terms[order[-size - 1]]
    excess = terms[order[-size:]] - base
    if excess.var() == 0:
        return terms
    ratio = excess.mean() ** 2 / excess.var(ddof=1)
    shape, scale = 0.5 * (1 - ratio), 0.5 * excess.mean() * (ratio + 1)
    points = (np.arange(size) + 0.5) / size
    log_tail = -np.log1p(-points)
    quantiles = (
        scale * log_tail if abs(shape) < 1e-6 else scale * np.expm1(shape * log_tail) / shape
    )
    smooth = terms.copy()
    smooth[order[-size:]] = base + quantiles
    return smooth
