"""Pairs of laws on finitely many points, whose every number is a finite sum: an independent truth.

Continuous laws are cut into thousands of cells and taken as the discrete laws they then are. Rare
parts, atoms, heavy tails, parts without mass under the other: all are exact. The functions at the
end count on these pairs how often a sentence that `aide` prints is false.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

import aide
from aide.convergence.convergence import Convergence
from aide.estimation.interval import total_variation_bound, unseen_share
from aide.estimation.notes import is_impossible
from aide.estimation.sandwich.balance import LogRatio, bridge_failure
from support.made import made_draws

LINE = np.arange(-40.0, 60.0, 0.02)
WIDE = np.sinh(np.linspace(-14.0, 14.0, 8001))
"""Cells up to 600,000 away, for heavy tails."""


class Pair(NamedTuple):
    """Log chances of every point under the gold standard and under the target."""

    log_p: np.ndarray
    log_q: np.ndarray

    @property
    def log_ratio(self) -> np.ndarray:
        r"""$\ell = \log p - \log q$ at every point."""
        with np.errstate(invalid="ignore"):
            return self.log_p - self.log_q

    @property
    def divergence(self) -> float:
        """Symmetrised KL divergence."""
        ratio = self.log_ratio
        return _mean(ratio, self.log_p) + _mean(-ratio, self.log_q)

    @property
    def total_variation(self) -> float:
        """Half the sum of all differences of chances."""
        return float(0.5 * np.abs(np.exp(self.log_p) - np.exp(self.log_q)).sum())

    def sample(self, rng: np.random.Generator, nums: tuple[int, int]) -> tuple[np.ndarray, ...]:
        r"""$\ell$ at gold draws and at target draws."""
        ratio = self.log_ratio
        return tuple(
            ratio[_choose(rng, log_chance, num)]
            for log_chance, num in zip((self.log_p, self.log_q), nums, strict=True)
        )

    def without(self, shares: tuple[float, float], calm: bool = False) -> float:
        r"""What is left of the divergence without the largest terms, of mass `shares` on each side.

        The terms are AIDE's own, $\ell$ and $-\ell$, or both $\ell\tanh(\ell/2)$.
        """
        ratio = self.log_ratio
        terms = (calm_of(ratio),) * 2 if calm else (ratio, -ratio)
        chances = self.log_p, self.log_q
        return float(sum(_trimmed(*part) for part in zip(terms, chances, shares, strict=True)))

    def with_most(self, shares: tuple[float, float]) -> float:
        """The same without the smallest terms: the most that is left of the divergence."""
        ratio, chances = self.log_ratio, (self.log_p, self.log_q)
        terms = -ratio, ratio
        return -float(sum(_trimmed(*part) for part in zip(terms, chances, shares, strict=True)))


def calm_of(ratio: np.ndarray) -> np.ndarray:
    r"""$\ell\tanh(\ell/2)$."""
    return ratio * np.tanh(ratio / 2)


def normal(mean: float = 0.0, std: float = 1.0) -> np.ndarray:
    """Log chances of a normal law on the line."""
    return _normalised(stats.norm.logpdf(LINE, mean, std))


def mixed(body: np.ndarray, part: np.ndarray, share: float) -> np.ndarray:
    """A law of which `share` is something else."""
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-share) + body, np.log(share) + part)


def cut(body: np.ndarray, low: float, high: float) -> np.ndarray:
    """The law within limits: no mass outside."""
    return _normalised(np.where((low <= LINE) & (high >= LINE), body, -np.inf))


def atoms(*chances: float) -> np.ndarray:
    """Log chances of a few points."""
    with np.errstate(divide="ignore"):
        return np.log(np.array(chances) / np.sum(chances))


def student(freedom: float) -> np.ndarray:
    """Student's t on wide cells; `np.inf` for the normal law on the same cells."""
    log_density = stats.norm.logpdf(WIDE) if np.isinf(freedom) else stats.t.logpdf(WIDE, freedom)
    return _normalised(log_density + np.log(np.gradient(WIDE)))


def _choose(rng: np.random.Generator, log_chance: np.ndarray, num: int) -> np.ndarray:
    chance = np.cumsum(np.exp(log_chance))
    return np.searchsorted(chance, rng.random(num) * chance[-1], side="right")


def _mean(terms: np.ndarray, log_chance: np.ndarray) -> float:
    chance = np.exp(log_chance)
    return float(np.sum(terms[chance > 0] * chance[chance > 0]))


def _trimmed(terms: np.ndarray, log_chance: np.ndarray, share: float) -> float:
    """Mean of the terms, given that they are not among the largest `share` of them."""
    chance = np.exp(log_chance)
    order = np.argsort(terms[chance > 0])
    terms, chance = terms[chance > 0][order], chance[chance > 0][order]
    kept = np.clip(1 - share - (np.cumsum(chance) - chance), 0.0, chance)
    return float(np.sum(terms[kept > 0] * kept[kept > 0]) / kept.sum())


def _normalised(log_chance: np.ndarray) -> np.ndarray:
    return log_chance - special.logsumexp(log_chance)


def _rare(share: float, place: float = 50.0) -> np.ndarray:
    return mixed(normal(), normal(place), share)


PAIRS = {
    "the same": Pair(normal(), normal()),
    "N(0.01, 1)": Pair(normal(), normal(0.01)),
    "N(0.1, 1)": Pair(normal(), normal(0.1)),
    "N(1, 1)": Pair(normal(), normal(1.0)),
    "N(3, 1)": Pair(normal(), normal(3.0)),
    "N(0, 1.2²)": Pair(normal(), normal(0.0, 1.2)),
    "N(0, 0.8²)": Pair(normal(), normal(0.0, 0.8)),
    "N(0, 3²)": Pair(normal(), normal(0.0, 3.0)),
    "gold: 1e-5 at 50": Pair(_rare(1e-5), normal()),
    "gold: 1e-4 at 50": Pair(_rare(1e-4), normal()),
    "gold: 0.1% at 50": Pair(_rare(1e-3), normal()),
    "gold: 0.3% at 50": Pair(_rare(3e-3), normal()),
    "gold: 1% at 50": Pair(_rare(1e-2), normal()),
    "gold: 3% at 50": Pair(_rare(3e-2), normal()),
    "target: 0.1% at 50": Pair(normal(), _rare(1e-3)),
    "target: 1% at 50": Pair(normal(), _rare(1e-2)),
    "late chains: 0.3% at 6": Pair(normal(), _rare(3e-3, 6.0)),
    "late chains: 1% at 6": Pair(normal(), _rare(1e-2, 6.0)),
    "late chains: 3% at 6": Pair(normal(), _rare(3e-2, 6.0)),
    "both: 0.8% at 50, at -30": Pair(_rare(8e-3), _rare(8e-3, -30.0)),
    "both: 4% at 50, at -30": Pair(_rare(4e-2), _rare(4e-2, -30.0)),
    "shifted, 1% at 20": Pair(_rare(1e-2, 20.0), normal(0.5)),
    "atoms: 1e-3 and 1e-2": Pair(atoms(0.999, 0.001), atoms(0.99, 0.01)),
    "atoms: 1e-2 and 1e-4": Pair(atoms(0.99, 0.01), atoms(0.9999, 0.0001)),
    "atoms: 0.3 and 0.1": Pair(atoms(0.7, 0.3), atoms(0.9, 0.1)),
    "infinite: atom of 0.5% missed": Pair(atoms(0.5, 0.495, 0.005), atoms(0.6, 0.4, 0.0)),
    "infinite: atom of 1e-4 missed": Pair(atoms(0.5, 0.4999, 0.0001), atoms(0.6, 0.4, 0.0)),
    "infinite: cut at 2.5": Pair(normal(), cut(normal(), -2.5, 2.5)),
    "Cauchy gold": Pair(student(1.0), student(np.inf)),
    "Cauchy target": Pair(student(np.inf), student(1.0)),
    "t with 3 degrees": Pair(student(3.0), student(np.inf)),
}
"""Everything a printed sentence has to survive."""


SLACK = 1e-9
LEVEL = 0.95
CLAIMS = ("interval", "reading", "sandwich", "table reading", "contradiction", "below 0")
OLD = ("old interval", "old reading", "old contradiction")
"""Wrong on purpose: nothing left out, and five standard errors for a contradiction."""


def ratio_draws(ratio: tuple[np.ndarray, ...], log_z: Any = (0.0, 0.0)) -> aide.engine.Draws:
    r"""Draws of two tractable algorithms with M = 2, from $\ell$ at both kinds of outputs."""
    gold, target = (np.repeat(part[:, None], 2, axis=1) for part in ratio)
    sides = (np.zeros((len(gold), 3)), -gold), (np.zeros((len(target), 3)), target)
    return made_draws(*sides, (2, 2), log_z)


def count_false(pair: Pair, nums: tuple[int, int], count: int, seed: int = 0) -> dict[str, int]:
    """For every claim, and for the old ones, in how many of `count` replications it is false."""
    rng = np.random.default_rng(seed)
    truth, apart = pair.divergence, pair.total_variation
    shares = aide.estimation.Estimate(ratio_draws(pair.sample(rng, nums))).unseen(LEVEL)
    least, most = pair.without(shares), pair.with_most(shares)
    calm_least = pair.without(shares, calm=True)
    false = dict.fromkeys((*CLAIMS, *OLD), 0)
    for _ in range(count):
        ratio = pair.sample(rng, nums)
        estimate = aide.estimation.Estimate(ratio_draws(ratio))
        low, high = estimate.interval(LEVEL)
        found = estimate.sandwich(LEVEL)
        false["interval"] += low > most + SLACK or high < least - SLACK
        false["reading"] += estimate.total_variation(LEVEL) < apart - SLACK
        false["sandwich"] += found.lower > truth + SLACK or found.upper < calm_least - SLACK
        table = total_variation_bound(found.upper) + max(shares)
        false["table reading"] += min(table, 1.0) < apart - SLACK
        false["contradiction"] += bridge_failure(LogRatio(*ratio)) is not None
        false["below 0"] += is_impossible(estimate)
        false["old interval"] += not low - SLACK <= truth <= high + SLACK
        false["old reading"] += total_variation_bound(estimate.interval(0.9)[1]) < apart - SLACK
        false["old contradiction"] += _five_errors(LogRatio(*ratio))
    return false


def count_false_lengths(
    pairs: dict[int, Pair], nats: float, num_runs: int, count: int
) -> tuple[int, int]:
    """How often `Convergence.steps_within` is false, and how often it is if nothing is left out."""
    rng, steps = np.random.default_rng(0), tuple(pairs)
    share = unseen_share(num_runs, LEVEL)
    left = np.array([pair.without((share, share), calm=True) for pair in pairs.values()])
    whole = np.array([pair.divergence for pair in pairs.values()])
    nothing = tuple(np.nan for _ in steps)
    false = old = 0
    for _ in range(count):
        found = [
            aide.estimation.Estimate(ratio_draws(p.sample(rng, (num_runs,) * 2)))
            for p in pairs.values()
        ]
        first = Convergence(steps, tuple(found), nothing, nothing, nothing, 0).steps_within(nats)
        claimed = np.array([first is not None and number >= first for number in steps])
        false += bool((left[claimed] > nats).any())
        old += bool((whole[claimed] > nats).any())
    return false, old


def _five_errors(ratio: LogRatio) -> bool:
    """The rule before: a normal approximation for the difference of two bounded means."""
    gold, target = special.expit(-ratio.gold), special.expit(ratio.target)
    error = np.hypot(gold.std(ddof=1) / gold.size**0.5, target.std(ddof=1) / target.size**0.5)
    difference = abs(gold.mean() - target.mean())
    return bool(difference > 1e-9 and difference >= 5 * error)
