"""Measuring several targets against one gold standard."""

from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.keywords import keywords
from aide._core.random import as_key
from aide._core.types import GOLD, TARGET, Key, Role
from aide._core.validate import check_count
from aide.comparing.comparison import Comparison
from aide.engine.draw import check_targets, draw, draw_each
from aide.engine.draws import Draws
from aide.engine.outputs import check_algorithm
from aide.engine.pilot import pilot_key
from aide.engine.programs.tracing import one_call
from aide.engine.stage import Client, RunOptions, Sizes
from aide.estimation.closeness import judge, metas_to_raise
from aide.estimation.errors.tolerance import AnyTolerance, ErrorTolerance, Tolerance, as_tolerance
from aide.estimation.errors.variables import posterior_of
from aide.estimation.estimate import NUM_META, check_unlimited, check_unplanned
from aide.estimation.interval import InterimLook
from aide.estimation.summary import Estimate
from aide.estimation.until.goals import Decided, Goal, Limits, as_goal, limits_of
from aide.estimation.until.until import estimate_until
from aide.reporting.numbers import UNDECIDED

TIMES_META = 30
"""Default factor by which M may be raised: a choice of how much an undecided target may cost."""
TWO_LOOKS = 0.5
"""Share of the permitted error for each of two looks, before and after M is raised."""
PILOT_RUNS = 100
"""Largest number of runs of either algorithm in the pilot that chooses M: a choice."""
FEWEST_PILOTS = 20
"""Least number of runs in that pilot: with fewer, a looseness is hardly known; a choice."""


@keywords("aide.compare")
@one_call()
def compare(
    key: Key | int,
    gold: InferenceAlgorithm,
    targets: Mapping[str, InferenceAlgorithm] | InferenceAlgorithm,
    *,
    tolerance: AnyTolerance | None = None,
    num_gold: int | None = None,
    num_target: int | None = None,
    num_meta_gold: int | None = None,
    num_meta_target: int | None = None,
    max_meta: int | None = None,
    until: float | Goal | None = None,
    max_runs: int | None = None,
    max_seconds: float | None = None,
    measure_looseness: bool = True,
    keep_values: bool | None = None,
    share: Draws | None = None,
    first_run: int = 0,
    checkpoint: Mapping[str, str | Path] | None = None,
    chunk_size: int | None = None,
    progress: bool | None = None,
    executor: Executor | Client | None = None,
    unchanged: bool = False,
) -> Comparison:
    r"""AIDE for several targets; the gold standard is run once.

    Each estimate has, to the bit, the draws of `aide.estimate` with the same key and arguments
    (with `until`, unless seconds decide).

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard.
        targets: The algorithms that are measured, by name; or one algorithm, named by its label.
        tolerance: Largest divergence in nats that is good enough, or errors: `means 0.1 sd, sds
            10%, probabilities 0.05`. With a tolerance, every target gets a verdict at 95%: `passed`
            (its divergence is below), `failed` (it is above) or `undecided`; outputs are then kept
            unless `keep_values=False`, because `failed` needs a lower limit (`Estimate.sandwich`).
        num_gold: Runs of the gold standard; by default 500, or all draws of
            `aide.ReferenceDraws` if it has fewer.
        num_target: Runs of every target; the default is that of `num_gold`.
        num_meta_gold: Meta-inference runs of the gold standard per output; by default 1. With
            `until`, a pilot chooses.
        num_meta_target: Meta-inference runs of every target per output; the same default.
        max_meta: Where looseness leaves a target undecided, its M (or the gold standard's) is
            raised once, up to this number; by default to 30 times the M asked for. 1 raises
            nothing. A pilot of up to 100 further runs, which is not judged, chooses the new M;
            limits allow for both looks. For a list of draws, the pilot takes draws that are not
            judged; if none are left, the new M is the largest.
        until: For each target, a standard error in nats, or `aide.estimation.Decided(tolerance)`:
            runs are added until it is reached, as by `aide.estimate`; the gold standard's runs are
            used for all targets.
        max_runs: Largest number of runs of both algorithms together that `until` may make for each
            target, its pilot included; by default 100,000.
        max_seconds: Largest number of seconds that `until` may take for each target, compilation
            included; by default unlimited.
        measure_looseness: Draw one more meta-inference run per output, which measures how loose
            the bounds are.
        keep_values: Keep the outputs, by default if they are small or there is a tolerance.
        share: Draws of the same gold standard with another target, whose gold runs are used again.
        first_run: Index of the first run, to spread runs over machines.
        checkpoint: A file for every target, by name, that stores finished blocks; the same call
            continues there.
        chunk_size: Runs computed at a time; never changes the numbers beyond rounding.
        progress: Show a progress bar; by default in long runs at a terminal.
        executor: Runs blocks of runs elsewhere; see `aide.draw`.
        unchanged: State that an algorithm in plain Python is the one that made the stored runs;
            see `aide.draw`.

    Returns:
        The estimates by name, their ranking, and with a tolerance a verdict for each.

    Example:
        >>> exact, near, far = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.1, 1.0))
        >>> found = aide.compare(0, exact, {"near": near, "far": far}, tolerance=0.1)
        >>> found.ranking, found.outcomes["near"], found.outcomes["far"]
        (('near', 'far'), 'passed', 'failed')
    """
    key = as_key(key)
    if not isinstance(targets, Mapping):
        check_algorithm("targets", targets)
        targets = {describe(targets): targets}
    if tolerance is not None:
        tolerance = as_tolerance(tolerance)
        _check_kept(tolerance, keep_values)
        keep_values = True if keep_values is None else keep_values
    if max_meta is not None:
        check_count("max_meta", max_meta)
    how: RunOptions = {
        "measure_looseness": measure_looseness,
        "keep_values": keep_values,
        "chunk_size": chunk_size,
        "progress": progress,
        "executor": executor,
        "unchanged": unchanged,
    }
    if until is not None:
        check_unplanned(share=share is not None, first_run=first_run != 0, max_meta=bool(max_meta))
        goal, limits = as_goal(until), limits_of(max_runs, max_seconds)
        sizes_asked = (num_gold, num_target), (num_meta_gold, num_meta_target)
        reached = _until(key, gold, targets, goal, limits, sizes_asked, how, checkpoint)
        wanted = goal.tolerance if isinstance(goal, Decided) and tolerance is None else tolerance
        return compare_estimates(reached, wanted)
    check_unlimited(max_runs, max_seconds)
    asked = {GOLD: NUM_META if num_meta_gold is None else num_meta_gold}
    asked[TARGET] = NUM_META if num_meta_target is None else num_meta_target
    sizes: Sizes = {
        "num_gold": num_gold,
        "num_target": num_target,
        "num_meta_gold": asked[GOLD],
        "num_meta_target": asked[TARGET],
        "first_run": first_run,
    }
    each = draw_each(key, gold, targets, share=share, checkpoint=checkpoint, **sizes, **how)
    drawn = dict(each)
    named = {name: posterior_of(gold, target) for name, target in targets.items()}
    if tolerance is None:
        found = {name: Estimate(d, posterior=named[name]) for name, d in drawn.items()}
        return compare_estimates(found)
    most = {role: TIMES_META * num if max_meta is None else max_meta for role, num in asked.items()}
    found = {}
    for name, draws in drawn.items():
        can_rise = any(
            not side.tractable and side.num_meta < most[side.role] for side in draws.sides
        )
        if isinstance(tolerance, ErrorTolerance) or not can_rise:
            found[name] = Estimate(draws, posterior=named[name])
            continue
        estimate = Estimate(draws, InterimLook(TWO_LOOKS), posterior=named[name])
        if judge(estimate, tolerance).outcome == UNDECIDED:
            call, file = (key, gold, targets[name]), checkpoint[name] if checkpoint else None
            estimate = _with_more_meta(call, estimate, tolerance, most, sizes, how, file)
        found[name] = estimate
    return compare_estimates(found, tolerance)


def _until(
    key: Key,
    gold: InferenceAlgorithm,
    targets: Mapping[str, InferenceAlgorithm],
    goal: Goal,
    limits: Limits,
    sizes: tuple[tuple[int | None, int | None], tuple[int | None, int | None]],
    how: RunOptions,
    checkpoint: Mapping[str, str | Path] | None,
) -> dict[str, Estimate]:
    """Estimates of all targets, to each of which runs are added until the goal is reached."""
    check_targets(gold, targets, checkpoint)
    found, shared = dict[str, Estimate](), None
    for name, target in targets.items():
        estimate = estimate_until(
            key,
            gold,
            target,
            goal,
            limits,
            runs=sizes[0],
            metas=sizes[1],
            shared=shared,
            how=how,
            checkpoint=None if checkpoint is None else checkpoint[name],
        )
        if shared is None or estimate.draws.gold.num_runs > shared.gold.num_runs:
            shared = estimate.draws
        found[name] = estimate
    return found


def _check_kept(tolerance: Tolerance, keep_values: bool | None) -> None:
    """Raise, before anything runs, if a tolerance of errors comes without outputs."""
    if isinstance(tolerance, ErrorTolerance) and keep_values is False:
        raise ValueError(
            f"tolerance '{tolerance}' is about errors, which need the outputs: leave out "
            "keep_values=False, or give a tolerance in nats."
        )


def _with_more_meta(
    call: tuple[Key, InferenceAlgorithm, InferenceAlgorithm],
    estimate: Estimate,
    tolerance: float,
    most: Mapping[Role, int],
    sizes: Sizes,
    how: RunOptions,
    file: str | Path | None,
) -> Estimate:
    """The same runs with a larger M if looseness prevents a decision; else the same estimate.

    A pilot that is not judged chooses M: the limits of the second look must not depend on a choice
    that its own terms made.
    """
    draws = estimate.draws
    raised = _metas_to_raise(call, estimate, tolerance, most, how)
    if not raised:
        return estimate
    larger = {f"num_meta_{role.word}": num for role, num in raised.items()}
    settings: dict[str, Any] = {**sizes, **larger, **how, "checkpoint": file}
    found = draw(*call, extend=draws if file is None else None, **settings)
    changes = [
        f"num_meta_{role.word} from {draws.side(role).num_meta:,} to {num:,}"
        for role, num in raised.items()
    ]
    words = (
        f"after raising {' and '.join(changes)}, because looseness hid the answer; all limits "
        "allow for both looks"
    )
    return Estimate(found, InterimLook(TWO_LOOKS, words), posterior=estimate.posterior)


def _metas_to_raise(
    call: tuple[Key, InferenceAlgorithm, InferenceAlgorithm],
    estimate: Estimate,
    tolerance: float,
    most: Mapping[Role, int],
    how: RunOptions,
) -> dict[Role, int]:
    """The larger M of either algorithm by a pilot; empty if none would help.

    The pilot is run only if the judged runs, too, say that a larger M would help. Its key is its
    own; of a list of draws, of which run i takes the same draw with every key, the pilot takes
    draws that are not judged. If the list has none left, M is the largest that is permitted.
    """
    draws, (key, *pair) = estimate.draws, call
    if not metas_to_raise(estimate, tolerance):
        return {}
    num = min(PILOT_RUNS, max(FEWEST_PILOTS, *(side.num_runs for side in draws.sides)))
    end = draws.first_run + max(side.num_runs for side in draws.sides)
    left = [side.chains.size - end for side in draws.sides if side.chains is not None]
    if min(left, default=num) >= FEWEST_PILOTS:
        num = min([num, *left])
        metas = {f"num_meta_{side.role.word}": side.num_meta for side in draws.sides}
        settings: dict[str, Any] = {**how, **metas, "keep_values": False}
        settings |= {"num_gold": num, "num_target": num, "first_run": end if left else 0}
        pilot = Estimate(draw(pilot_key(key), *pair, **settings), posterior=estimate.posterior)
        wanted = metas_to_raise(pilot, tolerance)
    else:
        wanted = {side.role: most[side.role] for side in draws.sides if not side.tractable}
    raised = {role: min(num, most[role]) for role, num in wanted.items()}
    return {role: num for role, num in raised.items() if num > draws.side(role).num_meta}


def compare_estimates(
    estimates: Mapping[str, Estimate], tolerance: AnyTolerance | None = None
) -> Comparison:
    """The comparison of given estimates, by name, with the same gold standard."""
    tolerance = None if tolerance is None else as_tolerance(tolerance)
    judged = {} if tolerance is None else {n: judge(e, tolerance) for n, e in estimates.items()}
    return Comparison(dict(estimates), tolerance, judged)
