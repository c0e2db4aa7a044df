r"""`aide.tune`: the cheapest setting that is good enough.

A pilot under a key of its own measures the cost of the settings and foresees which are within the
tolerance. From the cheapest of those on, settings are tested one by one, each until it is decided:
the next cheaper one as long as they are shown to be within the tolerance. If the first one fails,
the next more costly ones follow.

Law: the chosen setting is beyond the tolerance with probability 2.5% at most (5% for errors of
variables, whose limits are two-sided), for any settings. Going down is a test in a fixed sequence:
a setting beyond the tolerance is chosen only if the first such setting in the sequence passes,
which needs the limits of one given setting to fail. Each further start, upwards, spends its own
share of the error, $1/(k(k+1))$ of start $k$. Given the pilot, the order is fixed in advance.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.keywords import keywords
from aide._core.types import Key
from aide.engine.draws import Draws
from aide.engine.outputs import check_algorithm
from aide.engine.programs.tracing import one_call
from aide.engine.stage import Client, RunOptions
from aide.estimation.errors.tolerance import AnyTolerance, ErrorTolerance, Tolerance, as_tolerance
from aide.estimation.interval import share_of
from aide.estimation.trust import trust_of_algorithm
from aide.estimation.until.goals import Limits, limits_of
from aide.estimation.until.until import estimate_until
from aide.tuning.pilots import Pilots, Planned, goal_of
from aide.tuning.point import METAS, Family, Setting, settings_of
from aide.tuning.tuned import TestedSetting, Tuned

HOPELESS_ERRORS = 3.0
"""Standard errors of the pilot above the tolerance from which on a setting is not tried."""
BUDGET_SHARE = 0.5
"""Share of the remaining budget that one setting may use while others may follow: a choice."""
MOST_STARTS = 4
"""Number of failed settings in a row after which more costly ones are no longer tried."""


@keywords("aide.tune")
@one_call()
def tune(
    key: Key | int,
    gold: InferenceAlgorithm,
    target: Family,
    settings: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
    *,
    tolerance: AnyTolerance,
    cost: str | Callable[[Setting], float] | None = None,
    max_runs: int | None = None,
    max_seconds: float | None = None,
    folder: str | Path | None = None,
    measure_looseness: bool = True,
    keep_values: bool | None = None,
    chunk_size: int | None = None,
    progress: bool | None = None,
    executor: Executor | Client | None = None,
    unchanged: bool = False,
) -> Tuned:
    """The cheapest setting of a target that is shown to be within a tolerance (97.5%; errors 95%).

    More runs are made where the decision is close, M is chosen for each setting, and the result
    says where looseness, not the algorithm, prevents a decision.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard.
        target: A function from parameters to an algorithm, or an algorithm; see `aide.sweep`.
        settings: A grid, or a list of settings; more than 16 must be given from cheap to costly.
        tolerance: Largest divergence in nats that is good enough, or errors: `means 0.1 sd, sds
            10%, probabilities 0.05`.
        cost: The name of a parameter, or a function of a setting; by default measured seconds of
            one run.
        max_runs: Largest number of runs in all; by default 100,000. The test of a setting may
            spend half of the rest while others may follow.
        max_seconds: Largest number of seconds in all; by default unlimited.
        folder: Stores finished parts; the same call continues there.
        measure_looseness: Draw one more meta-inference run per output, which measures how loose
            the bounds are.
        keep_values: Keep the outputs, which is the default here.
        chunk_size: Runs computed at a time; never changes the numbers beyond rounding.
        progress: Show progress bars; by default in long runs at a terminal.
        executor: Runs blocks of runs elsewhere; see `aide.draw`. Pilots run here, because they
            measure seconds, which must be those of one machine.
        unchanged: State that an algorithm in plain Python is the one that made the stored runs;
            see `aide.draw`.

    Returns:
        The cheapest setting that passed (`setting`, `None` if none did), its verdict, and what the
        others showed.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> exact = aide.Tractable.of(Normal(1.0, 0.5**0.5))
        >>> sampler = lambda num_particles: aide.sir(prior, log_joint, num_particles=num_particles)
        >>> settings = {"num_particles": [2, 200]}
        >>> aide.tune(0, exact, sampler, settings, tolerance=0.2, cost="num_particles").setting
        {'num_particles': 200}
    """
    check_algorithm("gold", gold)
    tolerance = as_tolerance(tolerance)
    _check_kept(tolerance, keep_values)
    how: RunOptions = {
        "measure_looseness": measure_looseness,
        "keep_values": True if keep_values is None else keep_values,
        "chunk_size": chunk_size,
        "progress": progress,
        "executor": executor,
        "unchanged": unchanged,
    }
    limit, begun = limits_of(max_runs, max_seconds), time.monotonic()
    chosen = settings_of(settings)
    if any(name in METAS for name in chosen[0]):
        raise ValueError(f"tune chooses {' and '.join(METAS)} itself: leave them out of settings.")
    pilots = Pilots(key, gold, target, chosen, tolerance, cost, folder)
    ladder = pilots.ladder()
    tried: dict[int, TestedSetting] = {}
    spent, shared = pilots.num_runs, None
    starts = _starts(ladder, tolerance)
    for number, (place, share) in enumerate(starts, 1):
        part = BUDGET_SHARE if number < len(starts) else 1.0
        if number > 1 and any(one.is_within for one in tried.values()):
            break
        while place >= 0:
            planned = ladder[place]
            if planned.is_hopeless(tolerance, HOPELESS_ERRORS):
                break
            seconds = part * (limit.seconds - (time.monotonic() - begun))
            left = Limits(int(part * (limit.runs - spent)), seconds)
            if min(left) <= 0:
                break
            found, shared = _decide(
                key, gold, pilots, planned, tolerance, left, share, shared, folder, how
            )
            tried[planned.index] = found
            spent += found.num_runs
            if not found.is_within:
                break
            place -= 1 if number == 1 else len(ladder)  # only the first start goes on downwards
    trust = trust_of_algorithm(gold)
    return Tuned(describe(gold), tolerance, tuple(ladder), tried, pilots.by_name, spent, trust)


def _check_kept(tolerance: Tolerance, keep_values: bool | None) -> None:
    """Raise, before anything runs, if a tolerance of errors comes without outputs."""
    if isinstance(tolerance, ErrorTolerance) and keep_values is False:
        raise ValueError(
            f"tolerance '{tolerance}' is about errors, which need the outputs: leave out "
            "keep_values=False, or give a tolerance in nats."
        )


def _starts(ladder: list[Planned], tolerance: Tolerance) -> list[tuple[int, float]]:
    """Places of the starts with their shares: the cheapest foreseen within, then costlier ones."""
    foreseen = [i for i, one in enumerate(ladder) if one.is_foreseen(tolerance, 1.0)]
    first = foreseen[0] if foreseen else len(ladder) - 1
    places = range(first, min(first + MOST_STARTS, len(ladder)))
    return [(place, share_of(number)) for number, place in enumerate(places, 1)]


def _decide(
    key: Key | int,
    gold: InferenceAlgorithm,
    pilots: Pilots,
    planned: Planned,
    tolerance: Tolerance,
    limits: Limits,
    share: float,
    shared: Draws | None,
    folder: str | Path | None,
    how: RunOptions,
) -> tuple[TestedSetting, Draws]:
    """Add runs at one setting until it is shown to be within, or its bound to be above."""
    file = None if folder is None else Path(folder) / f"setting-{planned.index}.nc"
    estimate = estimate_until(
        key,
        gold,
        pilots.build(planned),
        goal_of(tolerance),
        limits,
        share=share,
        plan=planned.plan,
        shared=shared,
        how=how,
        checkpoint=file,
    )
    num_runs = sum(side.num_runs for side in estimate.draws.sides)
    found = TestedSetting(planned, estimate, tolerance, num_runs)
    largest = (
        estimate.draws
        if shared is None
        else max((shared, estimate.draws), key=lambda draws: draws.gold.num_runs)
    )
    return found, largest
