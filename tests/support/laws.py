r"""The laws of every pair as statistics, each a z-score that is standard normal if it holds.

All come from one call of `aide.draw` per algorithm, with a reference distribution as gold standard:
the algorithm's outputs with $\xi$ of their own and of a fresh trace (laws 2 to 5), and $\xi$ of
fresh traces at outputs of the reference (law 1).
"""

import jax
import numpy as np
from scipy import special, stats

import aide
from aide._core.types import GOLD
from aide.engine.programs.places import Chunk
from aide.engine.programs.prepared import ignore
from aide.engine.programs.programs import compile_quickly
from aide.engine.runners.choose import runner_of
from aide.engine.runners.runner import MetaRuns
from support import Z_MAX, z_score

MAX_BINS = 8
MIN_INFORMATION = 25.0
"""Variance of the number of positive signs that a bin needs for a normal approximation."""
FEW = 4_000
"""Runs of the quick suite. With as many, every mistake that the controls of `tests/laws` make is
rejected, though not all beyond twice the limit, which those controls ask of 20,000 runs."""
ROUNDING = 1e-9
"""Below this, |l| is rounding; atoms of l further apart than this are different atoms."""


def draw(gold, target, num_gold, num_target, seed, **options):
    """`aide.draw`, compiled for quick compilation."""
    with compile_quickly():
        return aide.draw(
            jax.random.key(seed),
            gold,
            target,
            num_gold=num_gold,
            num_target=num_target,
            chunk_size=min(1000, max(num_gold, num_target)),
            **options,
        )


def law_draws(entry, seed=0, **options):
    """All runs that the laws look at."""
    num = entry.num_runs
    return draw(entry.reference, entry.algorithm, num, num, seed, keep_values=True, **options)


def log_ratios(draws):
    r"""$l = \log\xi_2 - \log\xi_1$ at the algorithm's own outputs."""
    return draws.target.own[:, 1] - draws.target.own[:, 0]


def swap_information(log_ratio):
    """Variance of the number of positive signs: how much law 2 has to look at."""
    size = np.abs(log_ratio[np.abs(log_ratio) > ROUNDING])
    chance = special.expit(-size)
    return float(np.sum(chance * (1 - chance)))


def swap_z(log_ratio):
    r"""Law 2 in bins of |l|: the largest z, shrunk so that `Z_MAX` keeps its meaning over all bins.

    Given $|l|$, $l > 0$ with probability $1/(1 + e^{|l|})$. Bins hold equal shares of the variance;
    |l| is rounded first, so that the two signs of an atom cannot fall into different bins.
    """
    log_ratio = log_ratio[np.abs(log_ratio) > ROUNDING]
    size = np.round(np.abs(log_ratio), 9)
    chance = special.expit(-size)
    variance = chance * (1 - chance)
    atoms, atom = np.unique(size, return_inverse=True)
    cumulative = np.cumsum(np.bincount(atom, variance))
    num_bins = int(np.clip(cumulative[-1] // MIN_INFORMATION, 1, MAX_BINS))
    share = (cumulative - np.bincount(atom, variance) / 2) / cumulative[-1]
    which = np.minimum((share * num_bins).astype(int), num_bins - 1)[atom]
    excess = np.bincount(which, (log_ratio > 0) - chance, num_bins)
    spread = np.sqrt(np.bincount(which, variance, num_bins))
    z = excess[spread > 0] / spread[spread > 0]
    limit = stats.norm.isf(stats.norm.sf(Z_MAX) / num_bins)
    return z[np.argmax(np.abs(z))] * Z_MAX / limit


def exchange_z(log_ratio):
    r"""Law 2 in one number: $E[(1-s)(2s-1)] = 0$ with $s = \xi_1/(\xi_1 + \xi_2)$."""
    s = special.expit(-log_ratio)
    return z_score((1 - s) * (2 * s - 1))


def density_z(draws, log_h, log_z=0.0):
    r"""Law 5: $E_{simulate}[h(x)\,Z/\xi] = 1$."""
    with jax.enable_x64(True):
        log_h = np.asarray(jax.vmap(log_h)(draws.target.values))
    return z_score(np.exp(log_h + log_z - draws.target.own[:, 0]), 1.0)


def mass_z(draws, log_z=0.0):
    r"""Law 1, integrated: $E_{x\sim f}[\xi/f(x)] = Z$ for the reference $f$."""
    return z_score(np.exp(draws.gold.cross[:, 0] - draws.gold.own[:, 0] - log_z), 1.0)


def probe_z(draws, log_z=0.0):
    r"""Law 1, integrated: $E_{x\sim f}[\xi\,\varphi(x)/f(x)] = Z\,E_{simulate}[\varphi(x)]$."""
    weights = np.exp(draws.gold.cross[:, 0] - draws.gold.own[:, 0] - log_z)
    scored, simulated = weights * _probe(draws.gold.values), _probe(draws.target.values)
    error = np.sqrt(scored.var(ddof=1) / scored.size + simulated.var(ddof=1) / simulated.size)
    return (scored.mean() - simulated.mean()) / error


def point_z(entry, x, seed=0):
    r"""Law 1 at one point: $E_r[\xi] = Z\,q(x)$."""
    num, key = entry.num_runs, jax.random.key(seed)
    runs, values, chunk = np.arange(num), np.full(num, float(x)), Chunk(num, min(1000, num))
    with compile_quickly():
        runner = runner_of(entry.algorithm)
    asked = MetaRuns(GOLD, values, runs, runs[:1], own=False)
    log_xi = runner.regenerate(key, asked, chunk, ignore)
    terms = np.exp(log_xi[:, 0] - entry.log_z - entry.log_q(x))
    if np.ptp(terms) < ROUNDING:  # the same number every time: it must be right, not just close
        return 0.0 if abs(terms[0] - 1.0) < ROUNDING else np.inf
    return z_score(terms, 1.0)


def self_z(log_ratio):
    r"""Law 4: AIDE of an algorithm against itself estimates $-2 E[l]$; far below 0 if it is broken.

    Above 0 is as it should be.
    """
    return min(z_score(-log_ratio), 0.0)


def all_scores(entry, draws):
    """Every law as a z-score, by name; laws 2 and 4 where the output leaves the trace open."""
    scores = {
        "1, mass": mass_z(draws, entry.log_z),
        "1, probe": probe_z(draws, entry.log_z),
        "5": density_z(draws, entry.log_h, entry.log_z),
    }
    if entry.log_q is not None:
        scores["1, left"], scores["1, right"] = (point_z(entry, x) for x in (-0.7, 0.9))
    if not entry.determined:
        log_ratio = log_ratios(draws)
        scores["2, binned"], scores["2, exchange"] = swap_z(log_ratio), exchange_z(log_ratio)
        scores["4"] = self_z(log_ratio)
    return scores


def _probe(values):
    """A bounded function of the outputs without any symmetry."""
    leaves = [np.reshape(leaf, (len(leaf), -1)) for leaf in jax.tree.leaves(values)]
    flat = np.concatenate(leaves, axis=1).astype(np.float64)
    return special.expit(1.3 * flat @ (-0.7) ** np.arange(flat.shape[1]) - 0.4)


def scores_of(entry, seed=0):
    """Laws 1, 2, 4 and 5 as z-scores, by name; there must be enough for law 2 to look at."""
    draws = law_draws(entry, seed)
    assert swap_information(log_ratios(draws)) > 200
    return all_scores(entry, draws)
