"""Notes on an estimate: what limits its use, in sentences that say what to do.

To add a note, add a function here and its name in `find_notes`.
"""

from typing import TYPE_CHECKING

import numpy as np

from aide._core.types import GOLD, TARGET, Role
from aide.diagnosing.steps import MOST_SCATTER
from aide.engine.draws import Side
from aide.estimation.interval import (
    FALSE_ALARM,
    FEW_RUNS,
    HEAVY_TAIL,
    MIN_TERMS_FOR_TAIL,
    MOST_SKEWED,
    pareto_shape,
    skewness,
)
from aide.estimation.looseness import dominant_runs_of
from aide.estimation.reach import DISAGREEMENT_NATS, Reach, reach_of
from aide.estimation.terms import rests_on_one_density
from aide.reporting.numbers import in_nats

if TYPE_CHECKING:
    from aide.estimation.summary import Estimate

NAMES = {GOLD: "gold standard", TARGET: "target"}

MOST_RHAT = 1.05
"""R-hat above which a note says that chains disagree."""
FEW_EFFECTIVE = 20
"""Effective draws below which the estimate of the autocorrelation is itself unreliable."""
LEAST_EFFECTIVE = 10
"""Effective draws below which no standard error is shown: `1.08 ± ?`."""
WASTE = 4.0
"""Draws per effective draw from which on a note advises thinning."""
LEAST_LOOSENESS = 0.05
"""Nats of looseness below which no note is made of it."""
LOOSE_SHARE = 0.5
"""Share of the estimate from which on looseness gets a note."""


def find_notes(estimate: "Estimate") -> tuple[str, ...]:
    """All notes that apply, the most important first."""
    kinds = (
        _contradiction,
        _infinities,
        _one_density,
        _chains_disagree,
        _repeats,
        _missed,
        _loose,
        _scatter,
        _tails,
        _below_zero,
        _few_effective,
        _few_runs,
        _worth_thinning,
    )
    return tuple(note for kind in kinds for note in kind(estimate))


def is_impossible(estimate: "Estimate") -> bool:
    r"""Whether correct algorithms give so low an estimate with probability `FALSE_ALARM` at most.

    With $n$ runs on the smaller side, $P(\hat D \le -t/n) \le e^{-t}$ for correct algorithms,
    whatever their tails: $E_G[e^{-\ell}] \le 1$ and $E_T[e^{\ell}] \le 1$, so that
    $e^{-n\hat D}$, a product of such terms to powers of at most 1, has a mean of at most 1.
    """
    fewest = min(estimate.num_effective(role) for role in Role)
    return bool(estimate.value * fewest <= np.log(FALSE_ALARM))


def _below_zero(estimate: "Estimate") -> list[str]:
    if not estimate.value < -1e-9 or not np.isfinite(estimate.std_error):
        return []
    if is_impossible(estimate):
        return [
            f"The estimate is {in_nats(-estimate.value, 2)} below 0, which correct algorithms show "
            f"at most once in {1 / FALSE_ALARM:,.0f} times: a density or a meta-inference is wrong."
        ]
    return [
        "The estimate is below 0 by chance: the divergence is too close to 0 to tell it from 0 "
        "with this many runs."
    ]


def _chains_disagree(estimate: "Estimate") -> list[str]:
    found = []
    for side, worth in zip(estimate.draws.sides, estimate.worth, strict=True):
        if side.chains is None or worth is None:
            continue
        known = [r for r in (side.chains.rhat, worth.rhat) if not np.isnan(r)]
        if max(known, default=0.0) > MOST_RHAT:
            of = NAMES[side.role]
            what = f"The chain of the {of} drifts, or is too short to tell"
            if side.chains.num_chains > 1:
                what = (
                    f"The chains of the {of} do not agree with each other, drift, or are too short "
                    "to tell"
                )
            found.append(
                f"{what} (R-hat {max(known):.2f} > {MOST_RHAT}): numbers that take its draws as "
                "exact may mean little. Run longer chains."
            )
    return found


def _few_effective(estimate: "Estimate") -> list[str]:
    return [
        f"The {side.num_runs} draws of the {NAMES[side.role]} are worth only "
        f"{estimate.num_effective(side.role):.0f} independent ones: how strongly they depend on "
        "each other is itself hardly known, and intervals may fail more often than they say."
        for side in estimate.draws.sides
        if side.chains is not None and estimate.num_effective(side.role) < FEW_EFFECTIVE
    ]


def _worth_thinning(estimate: "Estimate") -> list[str]:
    found = []
    for side, worth in zip(estimate.draws.sides, estimate.worth, strict=True):
        if worth is None or not FEW_EFFECTIVE <= worth.effective < side.num_runs / WASTE:
            continue
        factor = int(side.num_runs / (2 * worth.effective))
        found.append(
            f"The {side.num_runs:,} draws of the {NAMES[side.role]} are worth {worth.effective:.0f}"
            f" independent ones: num_{side.role.word}={side.num_runs // factor} (evenly spread), "
            f"or the draws thinned({factor}), would cost {factor} times less there and say nearly "
            "as much."
        )
    return found


def _infinities(estimate: "Estimate") -> list[str]:
    found = []
    for role in Role:
        of, by, terms = NAMES[role], NAMES[role.other], estimate.terms.at(role)
        num = int(np.isinf(terms).sum())
        if num:
            found.append(
                f"{num} of {terms.size} outputs of the {of} have no mass under the {by} (log xi = "
                f"-inf): the bound is +inf. Either the {by} cannot produce them, or its "
                "meta-inference never finds out how (then a larger M helps)."
            )
    return found


def _tails(estimate: "Estimate") -> list[str]:
    found = []
    for role in Role:
        name, terms = role.word, estimate.terms.at(role)
        if np.isinf(terms).any() or terms.std() < 1e-9:
            continue
        shape = pareto_shape(terms) if terms.size >= MIN_TERMS_FOR_TAIL else -np.inf
        skew = skewness(terms)
        if shape > HEAVY_TAIL:
            found.append(
                f"The terms at the {name} outputs are heavy-tailed (Pareto k = {shape:.2f} > "
                f"{HEAVY_TAIL}): a few runs dominate, the standard error is too small, and outputs "
                "that no run showed may matter more."
            )
        elif abs(skew) >= MOST_SKEWED:
            found.append(
                f"The terms at the {name} outputs are strongly skewed (skewness {skew:.1f}): few "
                "runs decide the mean, and outputs that no run showed may matter as much."
            )
    return found


def _few_runs(estimate: "Estimate") -> list[str]:
    fewest = min(side.num_runs for side in estimate.draws.sides)
    if fewest == 1:
        return ["A single run has no standard error: use num_gold and num_target of 2 or more."]
    if fewest < FEW_RUNS:
        return [
            f"Only {fewest} runs on one side: intervals may fail to hold the mean more often than "
            f"they say; they were tested from {FEW_RUNS} runs on."
        ]
    return []


def _repeats(estimate: "Estimate") -> list[str]:
    found = []
    for side in estimate.draws.sides:
        if side.chains is not None:  # each stored draw is used once; a chain may repeat a state
            continue
        different, num = num_different(side), side.num_runs
        if different is not None and different < num:
            factor = np.sqrt(1 + num / different)
            found.append(
                f"The {num} outputs of the {NAMES[side.role]} are only {different} different ones. "
                "If it draws from a stored list, runs are not independent: the standard error is "
                f"about {factor:.1f} times too small, and no limit holds. Use every stored draw "
                "once."
            )
    return found


def num_different(side: Side) -> int | None:
    """Number of different outputs; `None` if they are not real or were not compared."""
    return None if side.fingerprints is None else np.unique(side.fingerprints).size


def _one_density(estimate: "Estimate") -> list[str]:
    if not rests_on_one_density(estimate.draws):
        return []
    remedy = (
        "aide.compare_draws(gold, target) compares the draws themselves."
        if all(side.chains is not None for side in estimate.draws.sides)
        else "aide.check tests a sampler against its density."
    )
    return [
        "Both algorithms state the same density at every output seen, so the estimate is 0 "
        "whatever their samplers do: it shows that the densities agree there, not the outputs. "
        f"{remedy}"
    ]


def _loose(estimate: "Estimate") -> list[str]:
    found = []
    advised = {advice.role for advice in estimate.advice}
    for role in Role:
        gap = estimate.looseness.of(role)
        if gap is None or not np.isfinite(estimate.value):
            continue
        dominant = dominant_runs_of(estimate.draws, role)
        if dominant is not None:
            times = "once" if len(dominant.gaps) == 1 else f"{len(dominant.gaps)} times"
            found.append(
                f"{dominant.subject} the looseness of the {NAMES[role]}, "
                f"{in_nats(gap.value, 2)}: {dominant.words}. "
                f"Meta-inference failed there {times}; more runs tell how often."
            )
            continue
        # The remedy is stated once: by the advice, if there is one.
        remedy = "." if role in advised else f": raise num_meta_{role.word}."
        if gap.value == np.inf:
            found.append(
                f"Meta-inference of the {role.word} fails to explain some of its own outputs (log "
                f"xi = -inf): the looseness is infinite{remedy}"
            )
        elif gap.value > max(LOOSE_SHARE * estimate.value, 3 * gap.std_error, LEAST_LOOSENESS):
            part = "all" if gap.value >= estimate.value else f"{gap.value:.2g}"
            found.append(
                f"Meta-inference of the {role.word} adds {part} of the "
                f"{in_nats(estimate.value, 2)} at its own outputs, which says nothing against the "
                f"outputs{remedy}"
            )
    return found


def missed_words(reach: Reach) -> str:
    """A sentence about outputs of the other algorithm that meta-inference hardly reaches."""
    of, by = NAMES[reach.role.other], NAMES[reach.role]
    own = "none" if not reach.own_share else f"{reach.own_share:.1%}"
    return (
        f"At {reach.far_share:.0%} of the outputs of the {of} the log xi of the {by} differs by "
        f"{in_nats(reach.difference, 2)} between {reach.num_meta[-1]} meta-inference runs (at "
        f"{own} of its own outputs by more than {DISAGREEMENT_NATS:g} nats): its meta-inference "
        f"hardly reaches these outputs. The {by} itself hardly produces such outputs, as with a "
        "mode that its start misses, and the divergence may be much smaller than the bound, of "
        f"which the last doubling of M took off {in_nats(reach.slope.value, 2)}."
    )


def _missed(estimate: "Estimate") -> list[str]:
    found = [reach_of(estimate.draws, role) for role in Role]
    remedy = {TARGET: " Of a chain, aide.refine(key, chain, towards=gold) learns the way."}
    return [
        missed_words(reach) + remedy.get(reach.role, "")
        for reach in found
        if reach is not None and reach.missed
    ]


def own_scatter(side: Side) -> float:
    r"""Standard deviation, in nats, of an estimate of $\log q$ at an algorithm's own output.

    It is $\mathrm{sd}(l)/\sqrt2$ with $l = \log\xi_2 - \log\xi_1$. In an SMC algorithm $l$ is a
    difference of two log evidences, so that this is about the standard deviation of one of them.
    """
    if side.own.shape[1] < 2 or side.num_runs < 2:
        return 0.0
    gaps = side.own[:, 1] - side.own[:, 0]
    return float(np.std(gaps, ddof=1) / np.sqrt(2)) if np.isfinite(gaps).all() else 0.0


def _scatter(estimate: "Estimate") -> list[str]:
    found = []
    for side in estimate.draws.sides:
        if own_scatter(side) <= MOST_SCATTER:
            continue
        blamed = () if estimate.closer_look is None else estimate.closer_look.words(side.role)
        hint = "" if blamed else f" aide.diagnose(key, {side.role.word}) shows its steps."
        found.append(
            f"Two estimates of the log density of the {NAMES[side.role]} at one output differ by "
            f"{own_scatter(side):.1f} nats (standard deviation); in SMC and AIS the log evidence "
            f"varies as much from run to run.{hint}"
        )
        found += [f"Steps of the {NAMES[side.role]}: {text}" for text in blamed]
    return found


def _contradiction(estimate: "Estimate") -> list[str]:
    from aide.estimation.sandwich.balance import bridge_failure, log_ratio_of

    ratio = log_ratio_of(estimate.draws)
    failure = None if ratio is None else bridge_failure(ratio)
    if failure is None:
        return []
    return [
        f"The two algorithms contradict each other: two means that must be equal differ by "
        f"{abs(failure):.2g} (Bennett's identity), as correct ones do at most once in "
        f"{1 / FALSE_ALARM:,.0f} times. A log_z, a density or a meta-inference is wrong."
    ]
