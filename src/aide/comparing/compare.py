"""Measuring several targets against one gold standard."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.keywords import keywords
from aide._core.random import as_key
from aide._core.types import GOLD, TARGET, Key, Role
from aide._core.validate import check_count
from aide.comparing.comparison import Comparison
from aide.engine.draw import draw, draw_each
from aide.engine.draws import Draws
from aide.engine.options import CompareOptions
from aide.engine.outputs import check_algorithm
from aide.engine.programs.tracing import one_call
from aide.estimation.closeness import judge, metas_to_raise
from aide.estimation.errors.tolerance import ErrorTolerance, as_tolerance
from aide.estimation.errors.variables import posterior_of
from aide.estimation.look import Look
from aide.estimation.summary import Estimate
from aide.reporting.verdict import UNDECIDED

TIMES_META = 30
"""M is raised to at most this many times what was asked for, unless `max_meta` says otherwise."""
TWO_LOOKS = 0.5
"""The share of each of two looks: with the M asked for, and with a larger one."""


@keywords("aide.compare")
@one_call()
def compare(
    key: Key | int,
    gold: InferenceAlgorithm,
    targets: Mapping[str, InferenceAlgorithm] | InferenceAlgorithm,
    *,
    tolerance: Any = None,
    num_gold: int | None = None,
    num_target: int | None = None,
    num_meta_gold: int = 1,
    num_meta_target: int = 1,
    max_meta: int | None = None,
    **options: Unpack[CompareOptions],
) -> Comparison:
    r"""AIDE for several targets; the gold standard is run once.

    Each estimate has, to the bit, the draws of `aide.estimate` with the same key and settings.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard.
        targets: The algorithms being measured, by name; or one algorithm, whose name is its label.
        tolerance: Largest divergence in nats that is good enough, or errors: `means 0.1 sd, sds
            10%, probabilities 0.05`. With it, every target gets a verdict at 95%: `passed`
            (its divergence is below), `failed` (it is above) or `undecided`; outputs are then kept
            unless `keep_values=False`, because `failed` takes a lower limit (`Estimate.sandwich`).
        num_gold: Runs of the gold standard: 500 unless stated, or all draws of
            `aide.ReferenceDraws` if it has fewer.
        num_target: Runs of every target; the same.
        num_meta_gold: Meta-inference runs of the gold standard per output.
        num_meta_target: Meta-inference runs of every target per output.
        max_meta: Where looseness leaves a target undecided, its M (or the gold standard's) is
            raised once, up to this; by default 30 times what was asked for. 1 raises nothing.
            Limits allow for both looks.
        **options: Everything else `aide.draw` takes: `keep_values`, `share`, `chunk_size`,
            `progress`, `looseness`, `first_run`, `executor`; `checkpoint` is a mapping from names
            to files.
    """
    key = as_key(key)
    if not isinstance(targets, Mapping):
        check_algorithm("targets", targets)
        targets = {describe(targets): targets}
    if tolerance is not None:
        tolerance = as_tolerance(tolerance)
        _check_kept(tolerance, options)
    if max_meta is not None:
        check_count("max_meta", max_meta)
    sizes = {
        "num_gold": num_gold,
        "num_target": num_target,
        "num_meta_gold": num_meta_gold,
        "num_meta_target": num_meta_target,
    }
    options = {"keep_values": None if tolerance is None else True, **options}
    drawn = dict(draw_each(key, gold, targets, **sizes, **options))
    named = {name: posterior_of(gold, target) for name, target in targets.items()}
    if tolerance is None:
        found = {name: Estimate(d, posterior=named[name]) for name, d in drawn.items()}
        return compare_estimates(found)
    asked = {GOLD: num_meta_gold, TARGET: num_meta_target}
    most = {role: TIMES_META * num if max_meta is None else max_meta for role, num in asked.items()}
    found = {}
    for name, draws in drawn.items():
        can_rise = any(
            not side.tractable and side.num_meta < most[side.role] for side in draws.sides
        )
        if isinstance(tolerance, ErrorTolerance) or not can_rise:
            found[name] = Estimate(draws, posterior=named[name])
            continue
        estimate = Estimate(draws, Look(TWO_LOOKS), posterior=named[name])
        if judge(estimate, tolerance).outcome == UNDECIDED:
            call = (key, gold, targets[name])
            estimate = _with_more_meta(call, estimate, tolerance, most, sizes, name, options)
        found[name] = estimate
    return compare_estimates(found, tolerance)


def _check_kept(tolerance: Any, options: Mapping[str, Any]) -> None:
    """Before anything runs: errors need the outputs."""
    if isinstance(tolerance, ErrorTolerance) and options.get("keep_values") is False:
        raise ValueError(
            f"tolerance '{tolerance}' is about errors, which need the outputs: leave out "
            "keep_values=False, or give a tolerance in nats."
        )


def _with_more_meta(
    call: tuple[Key, InferenceAlgorithm, InferenceAlgorithm],
    estimate: Estimate,
    tolerance: Any,
    most: Mapping[Role, int],
    sizes: Mapping[str, Any],
    name: str,
    options: Mapping[str, Any],
) -> Estimate:
    """The same runs with a larger M where one is to blame; otherwise the same estimate."""
    draws = estimate.draws
    wanted = metas_to_raise(estimate, tolerance)
    raised = {role: min(num, most[role]) for role, num in wanted.items()}
    raised = {role: num for role, num in raised.items() if num > draws.side(role).num_meta}
    if not raised:
        return estimate
    larger = {f"num_meta_{role.word}": num for role, num in raised.items()}
    others = {key: value for key, value in options.items() if key not in ("share", "checkpoint")}
    settings: dict[str, Any] = {**sizes, **larger, **others}
    found = draw(*call, **settings, **_continued(draws, options.get("checkpoint"), name))
    changes = [f"{setting} from {sizes[setting]:,} to {num:,}" for setting, num in larger.items()]
    words = (
        f"after raising {' and '.join(changes)}, because looseness hid the answer; all limits "
        "allow for both looks"
    )
    return Estimate(found, Look(TWO_LOOKS, words), posterior=estimate.posterior)


def _continued(
    draws: Draws, checkpoint: Mapping[str, str | Path] | None, name: str
) -> dict[str, Any]:
    """Where the runs so far are found: in the file that goes on growing, or in memory."""
    return {"extend": draws} if checkpoint is None else {"checkpoint": checkpoint[name]}


def compare_estimates(estimates: Mapping[str, Estimate], tolerance: Any = None) -> Comparison:
    """The table of estimates that are there already, by name, of the same gold standard."""
    tolerance = None if tolerance is None else as_tolerance(tolerance)
    judged = {} if tolerance is None else {n: judge(e, tolerance) for n, e in estimates.items()}
    return Comparison(dict(estimates), tolerance, judged)
