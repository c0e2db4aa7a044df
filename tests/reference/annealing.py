r"""Kernels as matrices and annealed importance sampling, enumerated on two sites of three values.

States are numbered 0 to 8; `STATES[i]` is state i as two sites. All densities are vectors over
states, all kernels row-stochastic matrices.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np

from reference.resampling import Law, Twin, ancestor_vectors

STATES = np.array(list(itertools.product(range(3), repeat=2)))
PRIOR = np.array([0.2, 0.05, 0.1, 0.02, 0.15, 0.08, 0.12, 0.18, 0.1])
GAMMA = np.array([0.3, 0.02, 0.4, 1.1, 0.25, 0.05, 0.1, 0.9, 0.03])
"""An unnormalised density with strong dependence between the sites."""
TEMPERATURES: Any = np.array([0.3, 0.7, 1.0])


def tempered(temperature: float) -> np.ndarray:
    r"""$p^{1-\beta}\gamma^\beta$."""
    return PRIOR ** (1 - temperature) * GAMMA**temperature


def gibbs_site(density: np.ndarray, site: int) -> np.ndarray:
    """Resample one site given the other."""
    same = STATES[:, None, 1 - site] == STATES[None, :, 1 - site]
    chance = same * density
    return chance / chance.sum(axis=1, keepdims=True)


def gibbs_sweep(density: np.ndarray, sites: tuple[int, ...]) -> np.ndarray:
    """Resample sites one after another."""
    kernel = np.eye(len(STATES))
    for site in sites:
        kernel = kernel @ gibbs_site(density, site)
    return kernel


def metropolis(density: np.ndarray, proposal: np.ndarray) -> np.ndarray:
    """Metropolis-Hastings with a proposal matrix; what is not accepted stays."""
    flow = density[:, None] * proposal
    ratio = np.divide(flow.T, flow, out=np.zeros_like(flow), where=flow > 0)
    kernel = proposal * np.minimum(1.0, ratio)
    return kernel + np.diag(1 - kernel.sum(axis=1))


class AisLaws(NamedTuple):
    """Traces x_1, x_2, x_3 of AIS, [N, 3], with q(u, x) and r(u; x); x is the last state."""

    traces: np.ndarray
    q: np.ndarray
    r: np.ndarray


def enumerate_ais(forward: tuple[int, ...], backward: tuple[int, ...]) -> AisLaws:
    """AIS with Gibbs sweeps over the sites `forward`, walked back by sweeps over `backward`."""
    return enumerate_sweeps((forward, forward), (backward, backward))


def enumerate_sweeps(
    forward: tuple[tuple[int, ...], ...], backward: tuple[tuple[int, ...], ...]
) -> AisLaws:
    """AIS with other sweeps at each of its two steps."""
    traces = np.array(list(itertools.product(range(len(STATES)), repeat=3)))
    q, r = PRIOR[traces[:, 0]], np.ones(len(traces))
    for t in range(2):
        density = tempered(TEMPERATURES[t])
        q = q * gibbs_sweep(density, forward[t])[traces[:, t], traces[:, t + 1]]
        r = r * gibbs_sweep(density, backward[t])[traces[:, t + 1], traces[:, t]]
    return AisLaws(traces, q, r)


class SmcLaws(NamedTuple):
    """Traces of tempered SMC: first states [N, 2], ancestors [N, 2], last states [N, 2].

    `q` and `r` are [N, 2], for both output indices.
    """

    first: np.ndarray
    ancestors: np.ndarray
    last: np.ndarray
    q: np.ndarray
    r: np.ndarray


def enumerate_smc(
    temperature: float, rho: Law, tau: Twin, forward: tuple[int, ...], backward: tuple[int, ...]
) -> SmcLaws:
    """Two particles, two temperatures (the second one 1), one Gibbs sweep after resampling."""
    pairs = np.array(list(itertools.product(range(len(STATES)), repeat=2)))
    vectors = ancestor_vectors(2)
    i, a, j = np.indices((len(pairs), len(vectors), len(pairs))).reshape(3, -1)
    first, ancestors, last = pairs[i], vectors[a], pairs[j]
    there = gibbs_sweep(tempered(temperature), forward)
    back = gibbs_sweep(tempered(temperature), backward)
    weights = (tempered(temperature) / PRIOR)[pairs]
    weights /= weights.sum(axis=1, keepdims=True)
    laws = np.stack([rho(w) for w in weights])
    twins = np.stack([tau(law, w) for law, w in zip(laws, weights, strict=True)])
    moved = there[np.take_along_axis(first, ancestors, axis=1), last]
    ends = (tempered(1.0) / tempered(temperature))[last]
    q = (PRIOR[first].prod(axis=1) * laws[i, a] * moved.prod(axis=1))[:, None] * (
        ends / ends.sum(axis=1, keepdims=True)
    )
    r = np.empty_like(q)
    for k in range(2):
        b = ancestors[:, k]
        own = np.take_along_axis(first, b[:, None], axis=1)[:, 0]
        others = PRIOR[first[np.arange(len(b)), 1 - b]] * moved[:, 1 - k]
        r[:, k] = 0.5 * back[last[:, k], own] * others * twins[i, b, k, a]
    return SmcLaws(first, ancestors, last, q, r)
