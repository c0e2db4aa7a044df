r"""How many runs and meta-inference runs a call makes, and the file that keeps this plan.

A pilot measures variances and costs. Runs cost $c_G$ and $c_T$ seconds, their terms have the
variances $v_G$ and $v_T$. The cheapest way to a variance $s^2$ is
$N_i = \sqrt{v_i/c_i}\,(\sqrt{v_G c_G} + \sqrt{v_T c_T})/s^2$, and of all M that bring looseness
down far enough the one is chosen for which that is cheapest.

The plan is made once and kept beside the checkpoint, so that an interrupted call ends as it would
have ended.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.process import write_atomically
from aide._core.types import GOLD, TARGET, Role
from aide.engine.draws import Draws
from aide.engine.pilot import PilotDraws
from aide.engine.runners.choose import identity_of
from aide.estimation.errors.tolerance import ErrorTolerance, as_tolerance
from aide.estimation.looseness import Forecast, predict_falls
from aide.estimation.sandwich.balance import balanced_terms
from aide.estimation.terms import is_tractable, terms_of
from aide.estimation.until.goals import Goal, StandardError

CANDIDATES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500)
"""Numbers of meta-inference runs, M, to choose from."""
FEWEST_RUNS = 100
"""Least runs per side of the first look: from here on the coverage of all limits was measured."""
LOPSIDED = 20.0
"""Largest ratio of the runs of one side to those of the other."""
MARGIN = 1.1
"""Factor on the runs that the pilot predicts, since its variances are themselves uncertain."""
ERRORS = 2.5
"""Standard errors between the bound and the limit that is to decide, at the first look."""
LEAST_VARIANCE_SHARE = 0.25
"""Least share of the pilot's variance that is predicted for a larger M: two variances of few runs
differ by chance."""


class Allocation(NamedTuple):
    """The plan that a pilot leads to.

    Attributes:
        runs: Runs of gold standard and target at the first look.
        metas: M of gold standard and target.
        seconds: Measured seconds of one run of gold standard and target, scores included.
        chunk_size: Runs computed at a time.
        bound: Predicted bound with this M, in nats.
        std_error: Standard error of the predicted bound, from the pilot's runs.
        remaining: Nats that meta-inference is predicted to add to the bound.
    """

    runs: tuple[int, int]
    metas: tuple[int, int]
    seconds: tuple[float, float]
    chunk_size: int | None
    bound: float = np.nan
    std_error: float = np.nan
    remaining: float = 0.0


class _Candidate(NamedTuple):
    """A pair of M, with the looseness, bound, variances and costs that the pilot predicts."""

    metas: tuple[int, int]
    remaining: float
    bound: float
    variances: tuple[float, float]
    costs: tuple[float, float]

    def runs_for(self, error: float) -> tuple[float, float]:
        """The cheapest numbers of runs for a standard error."""
        total = sum(np.sqrt(v * c) for v, c in zip(self.variances, self.costs, strict=True))
        gold, target = (
            np.sqrt(v / c) * total / error**2
            for v, c in zip(self.variances, self.costs, strict=True)
        )
        return max(gold, target / LOPSIDED), max(target, gold / LOPSIDED)

    def seconds_for(self, error: float) -> float:
        """Seconds of the cheapest runs for a standard error, at least `FEWEST_RUNS` per side."""
        runs = (max(num, FEWEST_RUNS) for num in self.runs_for(error))
        return sum(num * cost for num, cost in zip(runs, self.costs, strict=True))


def allocate(pilot: PilotDraws, goal: Goal, metas: tuple[int | None, int | None]) -> Allocation:
    """The cheapest plan that is predicted to reach a goal; `metas` that are given are kept."""
    choices = list(_candidates(pilot, metas, not isinstance(goal, StandardError)))
    if isinstance(goal, StandardError):
        best, error = _for_error(choices, goal.nats, goal.nats)
    else:
        tolerance = as_tolerance(goal.tolerance)
        nats = tolerance.nats if isinstance(tolerance, ErrorTolerance) else tolerance
        best, error = _for_verdict(choices, nats, pilot)
    runs = [int(np.ceil(max(MARGIN * num, FEWEST_RUNS))) for num in best.runs_for(error)]
    sizes = [side.num_runs for side in pilot.draws.sides]
    own = float(np.sqrt(sum(v / n for v, n in zip(best.variances, sizes, strict=True))))
    found = (runs[0], runs[1]), best.metas, best.costs, pilot.chunk_size
    return Allocation(*found, best.bound, own, best.remaining)


def _for_error(choices: list[_Candidate], slack: float, error: float) -> tuple[_Candidate, float]:
    """The cheapest candidate with `slack` nats of looseness at most, or near the least."""
    least = min(choice.remaining for choice in choices)
    enough = [choice for choice in choices if choice.remaining <= max(slack, 1.25 * least)]
    return min(enough, key=lambda choice: choice.seconds_for(error)), error


def _for_verdict(
    choices: list[_Candidate], tolerance: float, pilot: PilotDraws
) -> tuple[_Candidate, float]:
    """The M for which a verdict is predicted to be cheapest, and the standard error it needs.

    The limits must be closer to the bound than the tolerance is; the pilot's own error is
    subtracted from that distance. Where nothing is left, the distance is taken to be small, and the
    smaller the farther the bound is above the tolerance, so that a larger M is weighed against its
    cost. If the bounds of all candidates are far above the tolerance, only the looseness decides,
    since it could hide a divergence within the tolerance.
    """
    num = min(side.num_runs for side in pilot.draws.sides)

    def own_error(choice: _Candidate) -> float:
        return max(float(np.sqrt(sum(choice.variances) / num)), 1e-3 * tolerance)

    def distance(choice: _Candidate) -> float:
        own = own_error(choice)
        clear = tolerance - choice.bound - own
        return clear if clear > own / 4 else own / 4 * float(np.exp((clear - own / 4) / own))

    if min(choice.bound - 3 * own_error(choice) for choice in choices) < tolerance:
        best = min(choices, key=lambda choice: choice.seconds_for(distance(choice) / ERRORS))
    else:
        slack = max(tolerance / 4, 0.2 * min(choice.bound for choice in choices))
        best, _ = _for_error(choices, slack, tolerance / ERRORS)
    return best, max(abs(tolerance - best.bound) - own_error(best), own_error(best) / 4) / ERRORS


def _candidates(
    pilot: PilotDraws, metas: tuple[int | None, int | None], balanced: bool
) -> Iterator[_Candidate]:
    draws = pilot.draws
    options, forecasts = [], []
    for role in Role:
        given = metas[role]
        forecast = predict_falls(draws, role, max(*CANDIDATES, given or 1))
        forecasts.append(forecast)
        if given is not None:
            options.append((given,))
        elif is_tractable(draws, role):
            options.append((1,))
        else:  # a second trace makes lower limits sharper
            options.append(CANDIDATES if forecast is not None else (draws.side(role).num_meta,))
    for gold, target in itertools.product(*options):
        yield _candidate(pilot, forecasts, (gold, target), balanced)


def _candidate(
    pilot: PilotDraws, forecasts: list[Forecast | None], metas: tuple[int, int], balanced: bool
) -> _Candidate:
    draws, falls, remaining = pilot.draws, 0.0, 0.0
    for role, forecast in zip(Role, forecasts, strict=True):
        draws = draws.with_num_meta(role, min(metas[role], draws.side(role).num_meta))
        if forecast is not None:
            falls += float(forecast.falls[metas[role] - 1])
            remaining += float(forecast.remaining[metas[role] - 1])
    bound = sum(float(part.mean()) for part in _finite(draws, balanced)) - falls
    variances = _variances(draws, metas, balanced)
    costs = pilot.run_cost(GOLD, metas), pilot.run_cost(TARGET, metas)
    return _Candidate(metas, remaining, bound, variances, costs)


def _variances(draws: Draws, metas: tuple[int, int], balanced: bool) -> tuple[float, float]:
    r"""Predicted variances of the terms at M, which may be larger than the pilot's M.

    Beyond the pilot's M they are taken to fall like $v_\infty + b/M$, with $b$ from the pilot's
    variances at M and M/2, and never below `LEAST_VARIANCE_SHARE` of the pilot's variance.
    """
    now = [side.num_meta for side in draws.sides]
    half = draws
    for role in Role:
        half = half.with_num_meta(role, max(now[role] // 2, 1))
    beyond = min(have / want for have, want in zip(now, metas, strict=True))
    found = []
    for whole, part in zip(_finite(draws, balanced), _finite(half, balanced), strict=True):
        seen = float(whole.var(ddof=1))
        fall = max(float(part.var(ddof=1)) - seen, 0.0)  # b/M at the M of the pilot
        found.append(max(seen - (1 - beyond) * fall, LEAST_VARIANCE_SHARE * seen))
    return found[0], found[1]


def _finite(draws: Draws, balanced: bool) -> tuple[np.ndarray, np.ndarray]:
    """The finite terms behind a limit; more runs change nothing about infinite ones."""
    gold, target = balanced_terms(draws) if balanced else terms_of(draws)
    return gold[np.isfinite(gold)], target[np.isfinite(target)]


def plan_path(checkpoint: str | Path) -> Path:
    """`runs.nc` has its plan in `runs.nc.plan.json`."""
    path = Path(checkpoint)
    return path.with_name(f"{path.name}.plan.json")


def read_plan(
    path: Path, algorithms: tuple[InferenceAlgorithm, InferenceAlgorithm], goal: Goal, given: Any
) -> Allocation | None:
    """The stored plan of this call; `None` if there is none.

    A pilot measures time, which differs from run to run. Only the stored plan lets a resumed call
    end with the runs with which it would have ended.

    Raises:
        ValueError: The file is the plan of another call.
    """
    if not path.exists():
        return None
    try:
        stored = json.loads(path.read_text())
        found, of = as_allocation(stored["plan"]), stored["of"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no plan of aide ({error}): delete it with its runs.") from None
    if of != _described(algorithms, goal, given):
        raise ValueError(
            f"{path} is the plan of another call: its algorithms, until or sizes changed since. "
            "Choose another checkpoint, or delete this one and its plan."
        )
    return found


def as_allocation(data: Mapping[str, Any]) -> Allocation:
    """The allocation that was written to JSON by `_asdict`."""
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return Allocation(**fields)


def write_plan(
    path: Path,
    plan: Allocation,
    algorithms: tuple[InferenceAlgorithm, InferenceAlgorithm],
    goal: Goal,
    given: Any,
) -> None:
    """Store a plan before the first of its runs."""
    data = {"plan": plan._asdict(), "of": _described(algorithms, goal, given)}
    write_atomically(path, (json.dumps(data, indent=1) + "\n").encode())


def _described(
    algorithms: tuple[InferenceAlgorithm, InferenceAlgorithm], goal: Goal, given: Any
) -> Any:
    """The algorithms, the goal and the sizes of a call, as data of JSON."""
    identities = [identity_of(algorithm).digest for algorithm in algorithms]
    words = [type(goal).__name__, *goal]
    return json.loads(json.dumps({"identities": identities, "until": words, "given": given}))
