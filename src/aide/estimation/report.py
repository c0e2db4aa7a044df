"""An estimate as text and as a table."""

from typing import Any

import numpy as np

from aide._core.text import plain
from aide.draws.repeats import rests_on_one_density
from aide.estimation.advice import WORTHWHILE, Advice
from aide.estimation.interval import FEW_RUNS
from aide.estimation.quantities import ROUNDING, Mean, cross_fall, is_tractable
from aide.estimation.summary import Estimate

MOST_RUNS = 5000
"""With more runs than this in all, a sandwich that trains classifiers is shown only if asked."""
WORTH_SAYING = 0.1
"""Nats that meta-inference adds at the other's outputs which are printed beside any bound."""


def summary_text(estimate: Estimate) -> str:
    """The short summary that `print` shows."""
    draws = estimate.draws
    low, high = estimate.interval()
    value = show(Mean(estimate.value, estimate.std_error))
    runs = f"N = {draws.gold.num_runs} + {draws.target.num_runs}"
    metas = f"M = {draws.num_meta_gold} / {draws.num_meta_target}"
    head = f"Symmetrised KL(gold, target) ≤ {value} nats"
    lines = [f"{head}   95%: {_number(low)} to {_number(high)}   {runs}, {metas}"]
    lines += [f"  {name:<15} {text}" for name, text in summary_rows(estimate)]
    return "\n".join(lines)


def summary_rows(estimate: Estimate) -> list[tuple[str, str]]:
    """Name and text of every line below the headline."""
    rows = []
    forward, backward = estimate.gold_to_target, estimate.target_to_gold
    if forward.is_kl_bound:
        first = show(Mean(forward.value, forward.std_error))
        second = show(Mean(backward.value, backward.std_error))
        rows.append(("gold → target", f"{first:<18} mass the target misses"))
        rows.append(("target → gold", f"{second:<18} mass the target invents"))
    else:
        rows.append(
            ("directions", "not separable: log Z is unknown, only their sum is a divergence")
        )
    bounds = estimate.log_z_bounds
    if bounds is not None:
        text = f"{show(bounds.lower)} to {show(bounds.upper)}"
        rows.append(("log Z", f"{text} of the {bounds.of} (log p(y) if its xi is p(x, y))"))
    rows += [("looseness", text) for text in _looseness(estimate)]
    rows += [("advice", advice_text(advice)) for advice in estimate.advice]
    rows += [("both sides", text) for text in _both_sides(estimate)]
    if shows_sandwich(estimate):
        rows.append(("sandwich", sandwich_text(estimate)))
    off = f"differs from the gold standard's by at most {estimate.total_variation():.2g} (95%)"
    if rests_on_one_density(estimate.draws):
        off = "may differ from the gold standard's: see the note"
    rows.append(("reading", f"any probability computed from the target {off}"))
    rows.append(("unseen", unseen_text(estimate)))
    rows += [("note", text) for text in estimate.warnings]
    return rows


def unseen_text(estimate: Estimate) -> str:
    """What all limits leave out."""
    gold, target = (f"{share:.2g}" for share in 100 * np.array(estimate.unseen()))
    share = f"{gold}%" if gold == target else f"{gold}% (gold) or {target}% (target)"
    return f"outputs rarer than {share} may be missing; they could add any number of nats"


def advice_text(advice: Advice) -> str:
    """One piece of advice in words.

    How far the bound would fall is not printed: where traces are discrete labels the prediction
    was off by factors of 2 to 7. That it falls, on average, is certain.
    """
    if advice.remaining > advice.fall.value:
        return (
            f"improve meta-inference of the {advice.role} (more particles, better proposals): "
            "a larger M alone would not do"
        )
    return f"raise num_meta_{advice.role}, say to {advice.num_meta}: the bound would fall"


def _looseness(estimate: Estimate) -> list[str]:
    """What either meter reads: at the algorithm's own outputs, and at the other's if it matters."""
    found, draws = [], estimate.draws
    for role, gap in zip(("gold", "target"), estimate.looseness, strict=True):
        other = "target" if role == "gold" else "gold"
        seen = gap is not None and max(abs(gap.value), gap.std_error) > ROUNDING
        text = "none seen" if gap is None or not seen else f"{show(gap)} nats"
        text = f"{text} from meta-inference of the {role} at its own outputs"
        fall = cross_fall(draws, role)
        least = min(WORTHWHILE * abs(estimate.value), WORTH_SAYING)
        if fall is None:
            text += f"; unknown at the {other}'s (M = 1)"
            seen = seen or not is_tractable(draws, role)
        elif fall.value > max(2 * fall.std_error, least, ROUNDING):
            text += f"; at the {other}'s the last doubling of M took off {fall.value:.2g}"
            seen = True
        if seen:
            found.append(text)
    return found


def shows_sandwich(estimate: Estimate) -> bool:
    """Whether the sandwich was asked for or is cheap: no classifier, or few runs and outputs."""
    draws = estimate.draws
    sides = (draws.gold, draws.target)
    if 0.95 in estimate.asked_levels:
        return True
    if min(side.num_runs for side in sides) < 2 or rests_on_one_density(draws):
        return False
    if is_tractable(draws, "gold") and is_tractable(draws, "target"):
        return True
    few, many = min(s.num_runs for s in sides), sum(s.num_runs for s in sides)
    kept = all(side.values is not None for side in sides)
    return kept and few >= FEW_RUNS and many <= MOST_RUNS


def sandwich_text(estimate: Estimate) -> str:
    """The sandwich at 95% in words."""
    found = estimate.sandwich()
    text = f"{_number(found.lower)} ≤ divergence ≤ {_number(found.upper)} (95%)"
    if found.lower > found.upper:
        return f"{text}: impossible, so by chance or because a density is wrong"
    if found.exact:
        return f"{text}; both densities are known"
    if found.saturated:
        return f"{text}; the number of runs limits the lower end"
    return text


def _both_sides(estimate: Estimate) -> list[str]:
    """Brackets of one direction, where looseness makes a visible difference."""
    found = []
    names = ("KL(gold‖target)", "KL(target‖gold)")
    for name, bracket, gap in zip(names, estimate.kl_bounds, estimate.looseness, strict=True):
        if bracket is None or gap is None or not np.isfinite(gap.value):
            continue
        if gap.value > max(2 * gap.std_error, ROUNDING):
            found.append(f"{show(bracket.lower)} to {show(bracket.upper)} nats for {name}")
    return found


def summary_table(estimate: Estimate) -> Any:
    """The same as a rich table. Texts are never read as markup."""
    from rich.table import Table
    from rich.text import Text

    draws = estimate.draws
    low, high = estimate.interval()
    title = plain(f"{draws.names[1]}  against  {draws.names[0]}")
    table = Table(title=Text(title), title_justify="left")
    table.add_column("quantity", no_wrap=True)
    table.add_column("value")
    value = Text(f"{show(Mean(estimate.value, estimate.std_error))} nats", style="bold")
    value.append(f"   95%: {_number(low)} to {_number(high)}", style="not bold")
    table.add_row("symmetrised KL ≤", value)
    for name, text in summary_rows(estimate):
        table.add_row(name, Text(text, style="yellow" if name == "note" else ""))
    runs = f"N = {draws.gold.num_runs} + {draws.target.num_runs}"
    table.add_row("runs", f"{runs}, M = {draws.num_meta_gold} / {draws.num_meta_target}")
    return table


def show(mean: Mean) -> str:
    """`0.213 ± 0.012`: as many digits as the standard error justifies.

    Terms that are all equal give `± 0`: so many runs showed no spread, which is no proof.
    """
    if not np.isfinite(mean.value):
        return "+inf" if mean.value > 0 else "-inf"
    if not np.isfinite(mean.std_error):
        return f"{mean.value:.4g} ± ?"
    if mean.std_error < ROUNDING:
        return f"{0.0 if abs(mean.value) < ROUNDING else mean.value:.4g} ± 0"
    digits = int(max(1 - np.floor(np.log10(mean.std_error)), 0))
    if digits > 6:
        return f"{mean.value:.1e} ± {mean.std_error:.1e}"
    return f"{mean.value:.{digits}f} ± {mean.std_error:.{digits}f}"


def _number(value: float) -> str:
    if np.isinf(value):
        return f"{value:+.3g}"
    return f"{0.0 if abs(value) < ROUNDING else value:.3g}"
