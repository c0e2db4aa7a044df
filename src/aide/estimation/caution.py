"""Warnings about an estimate, in words a person can act on."""

import numpy as np

from aide.estimation.interval import FEW_RUNS, MOST_SKEWED, skewness
from aide.estimation.repeats import find_repeats
from aide.estimation.summary import Estimate
from aide.estimation.tails import HEAVY_TAIL, MIN_RUNS, pareto_shape

CONTRADICTION = 5.0
"""Standard errors by which an identity must fail before it is called violated."""


def find_cautions(estimate: Estimate) -> tuple[str, ...]:
    """All warnings that apply."""
    found = [*_infinities(estimate), *_tails(estimate), *_few_runs(estimate), *_skewed(estimate)]
    found += find_repeats(estimate.draws)
    return (*found, *_loose(estimate), *_below_zero(estimate), *_contradiction(estimate))


def _below_zero(estimate: Estimate) -> list[str]:
    if not estimate.value < -1e-9 or not np.isfinite(estimate.std_error):
        return []
    if estimate.value < -5 * estimate.std_error:
        return [
            f"The estimate is {-estimate.value / estimate.std_error:.0f} standard errors below 0, "
            "impossible for correct algorithms: a density or a meta-inference is wrong."
        ]
    return [
        "The estimate is below 0 by chance: the divergence is too close to 0 to tell it from 0 "
        "with this many runs."
    ]


def _infinities(estimate: Estimate) -> list[str]:
    found = []
    for of, by, terms in (
        ("gold standard", "target", estimate.gold_terms),
        ("target", "gold standard", estimate.target_terms),
    ):
        num = int(np.isinf(terms).sum())
        if num:
            found.append(
                f"{num} of {terms.size} outputs of the {of} have no mass under the {by} (log xi = "
                f"-inf): the bound is +inf. Either the {by} cannot produce them, or its "
                "meta-inference never finds out how (then raise its M)."
            )
    return found


def _tails(estimate: Estimate) -> list[str]:
    found = []
    for name, terms in (("gold", estimate.gold_terms), ("target", estimate.target_terms)):
        if terms.size < MIN_RUNS or np.isinf(terms).any():
            continue
        if terms.std() < 1e-9:
            continue
        shape = pareto_shape(terms)
        if shape > HEAVY_TAIL:
            found.append(
                f"The terms at the {name} outputs are heavy-tailed (Pareto k = {shape:.2f} > "
                f"{HEAVY_TAIL}): a few runs dominate, and the standard error is too small. Raise "
                "num_meta_gold or num_meta_target first, then the number of runs."
            )
    return found


def _few_runs(estimate: Estimate) -> list[str]:
    fewest = min(estimate.gold_terms.size, estimate.target_terms.size)
    if fewest == 1:
        return ["A single run has no standard error: use num_gold and num_target of 2 or more."]
    if fewest < FEW_RUNS:
        return [
            f"Only {fewest} runs on one side: rare failures and heavy tails cannot be seen, and "
            f"intervals may miss more often than they say (they were tested from {FEW_RUNS} on)."
        ]
    return []


def _skewed(estimate: Estimate) -> list[str]:
    found = []
    for name, terms in (("gold", estimate.gold_terms), ("target", estimate.target_terms)):
        skew = skewness(terms)
        if abs(skew) >= MOST_SKEWED:
            found.append(
                f"The {name} side's terms are strongly skewed (skewness {skew:.1f}; "
                f"intervals were tested below {MOST_SKEWED:g}): unless there are many runs, the "
                "interval may miss more often than it says."
            )
    return found


def _contradiction(estimate: Estimate) -> list[str]:
    from aide.estimation.sandwich.balance import bridge_z, log_ratio

    draws = estimate.draws
    ratio = log_ratio(draws, draws.num_meta_gold, draws.num_meta_target)
    z = None if ratio is None else bridge_z(ratio)
    if z is None or abs(z) < CONTRADICTION:
        return []
    return [
        f"The two algorithms contradict each other (Bennett's identity fails by {abs(z):.0f} "
        "standard errors): a log_z, a density or a meta-inference is wrong."
    ]


def _loose(estimate: Estimate) -> list[str]:
    found = []
    for role, gap in zip(("gold", "target"), estimate.looseness, strict=True):
        if gap is None or not np.isfinite(estimate.value):
            continue
        if gap.value == np.inf:
            found.append(
                f"Meta-inference of the {role} fails to explain some of its own outputs (log xi = "
                f"-inf): the looseness is infinite. Raise num_meta_{role}."
            )
        elif gap.value > max(0.5 * estimate.value, 3 * gap.std_error, 0.05):
            found.append(
                f"Up to {gap.value:.2g} of the {estimate.value:.2g} nats may be due to "
                f"meta-inference of the {role}, not to its outputs: raise num_meta_{role}."
            )
    return found
