"""The headline of an estimate and the lines below it.

To add a line, add a function here and its name in `estimate_rows`.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from aide._core.types import GOLD, TARGET, Role
from aide.estimation.looseness import WORTHWHILE, Advice, fall_at_other
from aide.estimation.sandwich.sandwich import MIN_RUNS, is_closed_form
from aide.estimation.terms import is_tractable, rests_on_one_density
from aide.estimation.trust import stored_words
from aide.reporting.numbers import ROUNDING, in_nats, interval, rounded_up, with_error

if TYPE_CHECKING:
    from aide.estimation.summary import Estimate

WORTH_SAYING = 0.1
"""Nats by which the last doubling of M must have lowered the bound to be printed in any case."""
LEAST_SHIFT = 0.01
"""Least shift of a normal distribution, in sds, into which a divergence is translated."""

Rows = list[tuple[str, str]]
"""Name and text of lines."""


def estimate_headline(estimate: "Estimate") -> str:
    """The bound, its interval, and how many runs it rests on."""
    gold, target = estimate.draws.sides
    value = with_error(estimate.value, estimate.shown_error)
    limits = interval(*estimate.interval())
    is_normalised = gold.log_z is not None and target.log_z is not None
    if not is_normalised and rests_on_one_density(estimate.draws):
        return "No number: gold standard and target state the same density at every output"
    return f"Symmetrised KL divergence ≤ {value} nats (95% interval {limits})"


def estimate_rows(estimate: "Estimate") -> Rows:
    """Name and text of every line below the headline."""
    kinds = (
        reference_rows,
        audit_rows,
        _directions,
        _log_z,
        _looseness,
        _advice,
        _both_sides,
        _sandwich,
        _reading,
        _unseen,
        _runs,
        _look,
    )
    return [row for kind in kinds for row in kind(estimate)]


def estimate_numbers(estimate: "Estimate") -> dict[str, Any]:
    """The numbers, by name; limits at 95%."""
    return {
        "value": estimate.value,
        "std_error": estimate.std_error,
        "interval": estimate.interval(),
        "gold_to_target": estimate.gold_to_target,
        "target_to_gold": estimate.target_to_gold,
        "looseness": estimate.looseness,
        "log_z_bounds": estimate.log_z_bounds,
        "total_variation": estimate.total_variation(),
        "unseen": estimate.unseen(),
        "worth": estimate.worth,
        "num_runs": [side.num_runs for side in estimate.draws.sides],
        "num_meta": [side.num_meta for side in estimate.draws.sides],
        "names": [side.name for side in estimate.draws.sides],
    }


def reference_rows(estimate: "Estimate") -> Rows:
    """Stored draws: their number, effective number, R-hat, and what is assumed about them."""
    return [
        (side.role.word, stored_words(side, estimate.num_effective(side.role)))
        for side in estimate.draws.sides
        if side.chains is not None
    ]


def audit_rows(estimate: "Estimate") -> Rows:
    """Whether and how the gold standard was tested, unless it is a density taken as exact."""
    gold = estimate.draws.gold
    if gold.chains is not None or (gold.tractable and not gold.provenance):
        return []
    if not gold.provenance:
        return [
            (
                "gold",
                "It was not audited; aide.audit(key, gold) compares it with versions of itself.",
            )
        ]
    return [
        (
            "gold",
            f"Something speaks against it: {gold.provenance}" if gold.doubts else gold.provenance,
        )
    ]


def _directions(estimate: "Estimate") -> Rows:
    forward, backward = estimate.gold_to_target, estimate.target_to_gold
    if not forward.is_kl_bound:
        text = "They cannot be told apart: log Z is unknown, so only their sum is a divergence."
        return [("directions", text)]
    first, second = (with_error(one.value, one.std_error) for one in (forward, backward))
    return [
        ("gold → target", f"{first} nats, large where the target misses mass"),
        ("target → gold", f"{second} nats, large where the target invents mass"),
    ]


def _log_z(estimate: "Estimate") -> Rows:
    bounds = estimate.log_z_bounds
    if bounds is None:
        return []
    text = f"{with_error(*bounds.lower)} to {with_error(*bounds.upper)}"
    name = estimate.draws.side(bounds.of).name
    of = f"{bounds.of.word}, {name}" if name else bounds.of.word
    words = f"{text}, bounds for the {of} (on log p(y) if its xi is p(x, y))"
    return [("log Z", words)]


def _looseness(estimate: "Estimate") -> Rows:
    """What meta-inference adds at own outputs, and at the other's outputs if it is relevant."""
    found, draws = [], estimate.draws
    for role in Role:
        gap, other = estimate.looseness.of(role), role.other.word
        seen = gap is not None and max(abs(gap.value), gap.std_error) > ROUNDING
        text = "nothing that was seen" if gap is None or not seen else f"{with_error(*gap)} nats"
        text = f"Meta-inference of the {role.word} adds {text} at its own outputs"
        fall = fall_at_other(draws, role)
        least = min(WORTHWHILE * abs(estimate.value), WORTH_SAYING)
        if fall is None:
            text += f"; what it adds at the {other}'s is unknown (M = 1)"
            seen = seen or not is_tractable(draws, role)
        elif fall.value > max(2 * fall.std_error, least, ROUNDING):
            text += f"; at the {other}'s the last doubling of M took off {in_nats(fall.value, 2)}"
            seen = True
        if seen:
            found.append(("looseness", f"{text}."))
    return found


def _advice(estimate: "Estimate") -> Rows:
    return [("advice", advice_text(advice)) for advice in estimate.advice]


def advice_text(advice: Advice) -> str:
    """One piece of advice in words.

    The predicted fall of the bound is not printed: where traces are discrete labels, predictions
    were off by factors of 2 to 7. That the bound falls on average is certain.
    """
    if advice.remaining > advice.fall.value:
        return (
            f"Improve meta-inference of the {advice.role.word} (more particles, better proposals): "
            "a larger M alone would not help enough."
        )
    return f"Raise num_meta_{advice.role.word}, say to {advice.num_meta}: the bound would fall."


def _both_sides(estimate: "Estimate") -> Rows:
    """Bounds on each direction from both sides, where looseness makes them differ visibly."""
    found = []
    directions = (
        ("KL(gold‖target)", estimate.kl_bounds.gold_to_target, GOLD),
        ("KL(target‖gold)", estimate.kl_bounds.target_to_gold, TARGET),
    )
    for name, bracket, role in directions:
        gap = estimate.looseness.of(role)
        if bracket is None or gap is None or not np.isfinite(gap.value):
            continue
        if gap.value > max(2 * gap.std_error, ROUNDING):
            text = f"{with_error(*bracket.lower)} and {with_error(*bracket.upper)}"
            found.append(("both sides", f"{name} lies between {text} nats, on average."))
    return found


def _sandwich(estimate: "Estimate") -> Rows:
    """The sandwich at 95% where it is a formula; otherwise the call that computes it."""
    draws = estimate.draws
    fewest = min(side.num_runs for side in draws.sides)
    if fewest < 2 or rests_on_one_density(draws):
        return []
    if is_closed_form(draws):
        return [("sandwich", f"{estimate.sandwich().words}.")]
    needs = [] if fewest >= MIN_RUNS else [f"{MIN_RUNS} runs or more on both sides"]
    if any(side.values is None for side in draws.sides):
        needs.append("keep_values=True")
    given = f"; it needs {' and '.join(needs)}" if needs else ""
    return [("sandwich", f"estimate.sandwich() gives a lower limit of the divergence too{given}.")]


def _reading(estimate: "Estimate") -> Rows:
    most = rounded_up(estimate.total_variation())
    off = f"differs from the gold standard's by at most {most} (95%)"
    if rests_on_one_density(estimate.draws):
        off = "may differ from the gold standard's: see the note"
    found = [("reading", f"Any probability computed from the target {off}.")]
    if rests_on_one_density(estimate.draws):
        return found
    value = estimate.value
    if np.isfinite(value) and value >= LEAST_SHIFT**2:
        shift = f"A normal distribution that is shifted by {np.sqrt(value):.2g} sd"
        found.append(("reading", f"{shift} is {value:.2g} nats from where it was."))
    elif not np.isfinite(value):
        apart = rounded_up(estimate.jensen_shannon()), rounded_up(estimate.hellinger())
        text = (
            f"The Jensen–Shannon divergence, which is finite, is at most {apart[0]} nats (its "
            f"largest value is 0.693), and the Hellinger distance at most {apart[1]} (its largest "
            "value is 1), with 95% confidence each."
        )
        found.append(("reading", text))
    return found


def _unseen(estimate: "Estimate") -> Rows:
    """The mass of outputs that no limit counts."""
    gold, target = (f"{share:.2g}" for share in 100 * np.array(estimate.unseen()))
    share = f"{gold}%" if gold == target else f"{gold}% (gold) or {target}% (target)"
    text = (
        f"Outputs rarer than {share} may be missing; they could add any number of nats, but no "
        "more than their share to a probability, and the reading includes them."
    )
    return [("unseen", text)]


def _runs(estimate: "Estimate") -> Rows:
    """Numbers of runs and of meta-inference runs."""
    of = [
        f"{side.role.word}, {side.name}" if side.name else side.role.word
        for side in estimate.draws.sides
    ]
    gold, target = estimate.draws.sides
    runs = f"{gold.num_runs:,} of the {of[0]}, and {target.num_runs:,} of the {of[1]}."
    metas = f"M = {gold.num_meta:,} and {target.num_meta:,}"
    return [("runs", f"{runs} Meta-inference runs per output: {metas}.")]


def _look(estimate: "Estimate") -> Rows:
    """Why no more runs were added, for an estimate with several looks."""
    return [("stopped", estimate.look.words)] if estimate.look.words else []
