r"""Exact moments of a Brownian motion that is observed with errors, scales known or not.

Given the scale $s$ of a step and that of an error $e$, states and observations are jointly normal
with covariances $s^2 \min(t, u)$ and $e^2$. If both scales are unknown with log-normal(0, 2)
priors, moments are averages over a grid of $(\log s, \log e)$ with weights
$p(s) p(e) p(y \mid s, e)$: two-dimensional quadrature, no sampling.
"""

from typing import NamedTuple

import numpy as np

PRIOR_SD = 2.0
"""Standard deviation of the logarithm of a scale under its prior."""
STEPS = np.log(0.005), np.log(1.5)
"""Ends of the grid of log s; at both the weight is below 1e-12 of the largest, for these data."""
ERRORS = np.log(1e-8), np.log(4.0)
"""Ends of the grid of log e; the weight at the lower end falls with the prior alone."""


class Moments(NamedTuple):
    """Means and standard deviations of (s, e, states), in this order."""

    mean: np.ndarray
    sd: np.ndarray


def known_scales(observed: np.ndarray, step: float, error: float) -> Moments:
    """Moments of the states alone, for given scales."""
    mean, variance, _ = _given(observed, np.array([step]), np.array([error]))
    return Moments(mean[0, 0], np.sqrt(variance[0, 0]))


def unknown_scales(observed: np.ndarray, num: int = 300) -> Moments:
    """Moments of both scales and of the states, by a grid of `num` times `2 num` scales."""
    log_step, log_error = np.linspace(*STEPS, num), np.linspace(*ERRORS, 2 * num)
    step, error = np.exp(log_step), np.exp(log_error)
    mean, variance, log_evidence = _given(observed, step, error)
    prior = -0.5 * (log_step[:, None] ** 2 + log_error[None] ** 2) / PRIOR_SD**2
    weight = np.exp(log_evidence + prior - np.max(log_evidence + prior))
    weight /= weight.sum()
    scales = np.stack(np.broadcast_arrays(step[:, None], error[None]), axis=2)
    means = np.concatenate([scales, mean], axis=2)
    squares = np.concatenate([scales**2, variance + mean**2], axis=2)
    first, second = (np.einsum("se,sek->k", weight, each) for each in (means, squares))
    return Moments(first, np.sqrt(second - first**2))


def _given(
    observed: np.ndarray, step: np.ndarray, error: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and variances of states (s, e, time) and log evidence (s, e), for all scales."""
    times, seen = np.arange(1.0, observed.size + 1), ~np.isnan(observed)
    covariance = np.minimum.outer(times, times)
    values, vectors = np.linalg.eigh(covariance[np.ix_(seen, seen)])
    turned, across = vectors.T @ observed[seen], covariance[:, seen] @ vectors
    square = step[:, None, None] ** 2
    total = square * values + error[None, :, None] ** 2
    mean = square * ((turned / total) @ across.T)
    variance = square * np.diag(covariance) - square**2 * ((1 / total) @ (across**2).T)
    log_evidence = -0.5 * np.sum(np.log(total) + turned**2 / total, axis=2)
    return mean, variance, log_evidence
