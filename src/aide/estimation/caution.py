"""Warnings about an estimate, in words a person can act on."""

import numpy as np

from aide.draws.repeats import find_repeats
from aide.estimation.interval import FALSE_ALARM, FEW_RUNS, MOST_SKEWED, skewness
from aide.estimation.summary import Estimate
from aide.estimation.tails import HEAVY_TAIL, MIN_RUNS, pareto_shape


def find_cautions(estimate: Estimate) -> tuple[str, ...]:
    """All warnings that apply."""
    found = [*_infinities(estimate), *_tails(estimate), *_few_runs(estimate)]
    found += find_repeats(estimate.draws)
    return (*found, *_loose(estimate), *_below_zero(estimate), *_contradiction(estimate))


def is_impossible(estimate: Estimate) -> bool:
    r"""Whether the estimate is farther below 0 than correct algorithms get, but for `FALSE_ALARM`.

    With $n$ runs on the smaller side, $P(\hat D \le -t/n) \le e^{-t}$ for correct algorithms,
    whatever their tails: $E_G[e^{-\ell}] \le 1$ and $E_T[e^{\ell}] \le 1$, so that
    $e^{-n\hat D}$, a product of such terms to powers of at most 1, has a mean of at most 1.
    """
    fewest = min(estimate.gold_terms.size, estimate.target_terms.size)
    return bool(estimate.value * fewest <= np.log(FALSE_ALARM))


def _below_zero(estimate: Estimate) -> list[str]:
    if not estimate.value < -1e-9 or not np.isfinite(estimate.std_error):
        return []
    if is_impossible(estimate):
        return [
            f"The estimate is {-estimate.value:.2g} nats below 0, which correct algorithms show "
            f"at most once in {1 / FALSE_ALARM:,.0f} times: a density or a meta-inference is wrong."
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
                "meta-inference never finds out how (then a larger M helps)."
            )
    return found


def _tails(estimate: Estimate) -> list[str]:
    found = []
    for name, terms in (("gold", estimate.gold_terms), ("target", estimate.target_terms)):
        if np.isinf(terms).any() or terms.std() < 1e-9:
            continue
        shape = pareto_shape(terms) if terms.size >= MIN_RUNS else -np.inf
        skew = skewness(terms)
        if shape > HEAVY_TAIL:
            found.append(
                f"The terms at the {name} outputs are heavy-tailed (Pareto k = {shape:.2f} > "
                f"{HEAVY_TAIL}): a few runs dominate, the standard error is too small, and outputs "
                "that no run showed may matter more."
            )
        elif abs(skew) >= MOST_SKEWED:
            found.append(
                f"The {name} side's terms are strongly skewed (skewness {skew:.1f}): few runs "
                "decide, and outputs that no run showed may matter as much."
            )
    return found


def _few_runs(estimate: Estimate) -> list[str]:
    fewest = min(estimate.gold_terms.size, estimate.target_terms.size)
    if fewest == 1:
        return ["A single run has no standard error: use num_gold and num_target of 2 or more."]
    if fewest < FEW_RUNS:
        return [
            f"Only {fewest} runs on one side: intervals may miss more often than they say (they "
            f"were tested from {FEW_RUNS} on)."
        ]
    return []


def _loose(estimate: Estimate) -> list[str]:
    found = []
    advised = {advice.role for advice in estimate.advice}
    for role, gap in zip(("gold", "target"), estimate.looseness, strict=True):
        if gap is None or not np.isfinite(estimate.value):
            continue
        # What to do about it is said once, by the advice if there is one.
        remedy = "." if role in advised else f": raise num_meta_{role}."
        if gap.value == np.inf:
            found.append(
                f"Meta-inference of the {role} fails to explain some of its own outputs (log xi = "
                f"-inf): the looseness is infinite{remedy}"
            )
        elif gap.value > max(0.5 * estimate.value, 3 * gap.std_error, 0.05):
            found.append(
                f"{gap.value:.2g} of the {estimate.value:.2g} nats may be due to meta-inference of "
                f"the {role} at its own outputs, not to the outputs{remedy}"
            )
    return found


def _contradiction(estimate: Estimate) -> list[str]:
    from aide.estimation.sandwich.balance import bridge_failure, log_ratio

    draws = estimate.draws
    ratio = log_ratio(draws, draws.num_meta_gold, draws.num_meta_target)
    failure = None if ratio is None else bridge_failure(ratio)
    if failure is None:
        return []
    return [
        f"The two algorithms contradict each other: two means that must be equal differ by "
        f"{abs(failure):.2g} (Bennett's identity), as correct ones do at most once in "
        f"{1 / FALSE_ALARM:,.0f} times. A log_z, a density or a meta-inference is wrong."
    ]
