"""An estimate as text and as a table."""

from typing import Any

import numpy as np

from aide.estimation.summary import Estimate, Mean

ROUNDING = 1e-9
"""A looseness below this is rounding: the algorithm is tractable."""


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
    for role, gap in zip(("gold", "target"), estimate.looseness, strict=True):
        if gap is not None and max(abs(gap.value), gap.std_error) > ROUNDING:
            rows.append(
                ("looseness", f"at most {show(gap)} nats from meta-inference of the {role}")
            )
    off = estimate.total_variation()
    rows.append(
        ("reading", f"any probability computed from the target is off by at most {off:.2g}")
    )
    rows += [("note", text) for text in estimate.warnings]
    return rows


def summary_table(estimate: Estimate) -> Any:
    """The same as a rich table."""
    from rich.markup import escape
    from rich.table import Table

    draws = estimate.draws
    low, high = estimate.interval()
    title = escape(f"{draws.names[1]}  against  {draws.names[0]}")
    table = Table(title=title, title_justify="left")
    table.add_column("quantity", no_wrap=True)
    table.add_column("value")
    value = show(Mean(estimate.value, estimate.std_error))
    table.add_row(
        "symmetrised KL ≤", f"[bold]{value} nats[/]   95%: {_number(low)} to {_number(high)}"
    )
    for name, text in summary_rows(estimate):
        table.add_row(name, f"[yellow]{text}[/]" if name == "note" else text)
    runs = f"N = {draws.gold.num_runs} + {draws.target.num_runs}"
    table.add_row("runs", f"{runs}, M = {draws.num_meta_gold} / {draws.num_meta_target}")
    return table


def show(mean: Mean) -> str:
    """`0.213 ± 0.012`: as many digits as the standard error justifies."""
    if not np.isfinite(mean.value):
        return "+inf" if mean.value > 0 else "-inf"
    if not np.isfinite(mean.std_error):
        return f"{mean.value:.4g} ± ?"
    if mean.std_error < ROUNDING:
        return f"{0.0 if abs(mean.value) < ROUNDING else mean.value:.4g} (exact)"
    digits = int(max(1 - np.floor(np.log10(mean.std_error)), 0))
    if digits > 6:
        return f"{mean.value:.1e} ± {mean.std_error:.1e}"
    return f"{mean.value:.{digits}f} ± {mean.std_error:.{digits}f}"


def _number(value: float) -> str:
    return f"{value:+.3g}" if np.isinf(value) else f"{value:.3g}"
