"""Is this gold standard golden? Against itself at other budgets and from other starts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import jax

from aide._core.algorithm import describe
from aide._core.random import as_key
from aide._core.validate import check_count
from aide.auditing.result import Audit, AuditTest
from aide.auditing.simulated.result import Simulated
from aide.auditing.starts import widen, with_start
from aide.comparing.closeness import check_tolerance
from aide.comparing.compare import compare
from aide.draws.outputs import check_algorithm


def audit(
    key: Any,
    gold: Any,
    *,
    budget: Callable[[float], Any] | None = None,
    starts: Mapping[str, Any] | Iterable[Any] = (),
    start_factor: float | None = 3.0,
    simulated: Simulated | None = None,
    tolerance: float = 0.5,
    num_runs: int = 300,
    num_meta: int = 1,
    **options: Any,
) -> Audit:
    r"""Compare a gold standard with itself: at half and double budget, and from other starts.

    Each comparison is AIDE's upper bound on the symmetrised KL divergence between two versions of
    the gold standard, whose runs are shared by all of them. Where the bound exceeds the tolerance,
    the lower bound of `Estimate.sandwich` tells disagreement from looseness. Agreement is
    necessary, never sufficient: the result says in words what no such test can show.

    Args:
        key: A JAX key.
        gold: The gold standard.
        budget: `budget(factor)` builds the gold standard with that multiple of its budget (0.5 and
            2 are asked for). Not needed for algorithms with two or more `num_particles`, nor for
            those with a method `with_budget(factor)` (which may return `None`).
        starts: The gold standard from other starts, far apart and wide; `aide.with_start` builds
            them. A dict gives them names.
        start_factor: `sir`, `tempered_smc`, `ais` and `mcmc` with real-valued states are also
            started from a distribution this many times as wide; `None` leaves it out.
        simulated: What `aide.audit_simulated` found for the same algorithm, for the verdict.
        tolerance: Nats of disagreement that would still do.
        num_runs: Runs of each version.
        num_meta: Meta-inference runs per output; more tighten the bounds.
        **options: Everything else `aide.draw` takes.
    """
    check_algorithm("gold", gold)
    check_count("num_runs", num_runs, 2)
    check_tolerance(tolerance)
    key = as_key(key)
    versions, untested = _budgets(gold, budget)
    if start_factor is not None:
        wider, reason = _wider(key, gold, start_factor)
        versions |= wider
        untested += reason
    versions |= _named(starts)
    if not versions:
        raise ValueError(
            f"nothing to compare {describe(gold)} with. " + " ".join(f"{u}." for u in untested)
        )
    found = compare(
        key,
        gold,
        versions,
        tolerance=tolerance,
        num_gold=num_runs,
        num_target=num_runs,
        num_meta_gold=num_meta,
        num_meta_target=num_meta,
        **options,
    )
    tests = tuple(AuditTest(n, one, found.closeness[n]) for n, one in found.items())
    return Audit(tests, simulated, tolerance, tuple(untested), describe(gold))


def _budgets(gold: Any, budget: Callable[[float], Any] | None) -> tuple[dict[str, Any], list[str]]:
    names = {"itself at half the budget": 0.5, "itself at double the budget": 2.0}
    if budget is not None:
        return {name: budget(factor) for name, factor in names.items()}, []
    if callable(getattr(gold, "with_budget", None)):
        versions = {name: gold.with_budget(factor) for name, factor in names.items()}
        lacking = [f"{name[0].upper()}{name[1:]}" for name, one in versions.items() if one is None]
        why = "pass budget=, a function that builds the gold standard with that budget"
        untested = [f"{name}: {why}" for name in lacking]
        return {name: one for name, one in versions.items() if one is not None}, untested
    size = getattr(gold, "num_particles", None)
    own = {field.name for field in fields(gold)} if is_dataclass(gold) else set()
    if not isinstance(size, int) or size < 2 or "num_particles" not in own:
        return {}, [
            "Other budgets: pass budget=, a function that builds the gold standard with "
            "0.5 and 2 times its budget"
        ]
    found = {}
    for name, factor in names.items():
        changes: dict[str, Any] = {"num_particles": int(size * factor)}
        if "label" in own:
            changes["label"] = f"{describe(gold)}, budget times {factor:g}"
        found[name] = replace(gold, **changes)
    return found, []


def _wider(key: Any, gold: Any, factor: float) -> tuple[dict[str, Any], list[str]]:
    try:
        start = widen(jax.random.fold_in(key, 2**32 - 1), getattr(gold, "initial", None), factor)
        wider = with_start(gold, start, f"{describe(gold)}, start {factor:g} times as wide")
    except TypeError:
        return {}, [
            f"Other starts of {describe(gold)}: pass starts=, the gold standard built with "
            "other starts"
        ]
    return {f"itself from a start {factor:g} times as wide": wider}, []


def _named(starts: Mapping[str, Any] | Iterable[Any]) -> dict[str, Any]:
    if isinstance(starts, Mapping):
        return {f"itself from {name}": version for name, version in starts.items()}
    if hasattr(starts, "simulate"):
        starts = (starts,)
    return {f"itself as {describe(s)} ({i + 1})": s for i, s in enumerate(starts)}
