"""Pilots of settings: a few runs each, in no result, which measure costs and foresee bounds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from aide._core.algorithm import InferenceAlgorithm
from aide._core.process import make_folder, write_atomically
from aide._core.types import Key
from aide.engine.pilot import PilotDraws, TimedGold, pilot_key
from aide.engine.runners.choose import identity_of
from aide.engine.stage import Sizes
from aide.estimation.errors.tolerance import ErrorTolerance, Tolerance, judge_errors
from aide.estimation.errors.variables import posterior_of
from aide.estimation.summary import Estimate
from aide.estimation.until.goals import Decided, Shown
from aide.estimation.until.plan import Allocation, allocate, as_allocation
from aide.estimation.until.until import PILOT_METAS, PILOT_RUNS
from aide.reporting.numbers import FAILED
from aide.tuning.point import Family, Setting, build, particles_of, words_of

SIZES: Sizes = {
    "num_gold": PILOT_RUNS,
    "num_target": PILOT_RUNS,
    "num_meta_gold": PILOT_METAS,
    "num_meta_target": PILOT_METAS,
}
"""Runs and M of the pilot of a setting."""
MOST_PILOTS = 16
"""Largest number of settings that all get a pilot; of more settings, a bisection gives pilots."""


class Planned(NamedTuple):
    """One setting, and the plan from its pilot.

    Attributes:
        index: Index of the setting in the settings as given.
        setting: The parameters.
        plan: Runs, M, cost, and the bound that is foreseen.
        seconds: Seconds of one run of the target.
        num_particles: The algorithm's number of particles, or `None`.
        cost: The cost by which settings are ordered.
        share: The largest error that the pilot estimates, divided by its tolerance; `None` for
            nats.
        is_beyond: Whether the pilot shows an error beyond its tolerance.
    """

    index: int
    setting: Setting
    plan: Allocation
    seconds: float
    num_particles: int | None
    cost: float
    share: float | None = None
    is_beyond: bool = False

    @property
    def name(self) -> str:
        """The setting in words."""
        return words_of(self.setting)

    def is_foreseen(self, tolerance: Tolerance, errors: float = 0.0) -> bool:
        """Whether the setting is foreseen within the tolerance, by `errors` standard errors."""
        if isinstance(tolerance, ErrorTolerance):
            return self.share is not None and self.share <= 1.0
        return self.plan.bound + errors * self.plan.std_error < tolerance

    def is_hopeless(self, tolerance: Tolerance, errors: float) -> bool:
        """Whether the bound is foreseen `errors` standard errors above the tolerance."""
        if isinstance(tolerance, ErrorTolerance):
            return self.is_beyond
        return not self.plan.bound - errors * self.plan.std_error <= tolerance

    def is_blocked_by_looseness(self, tolerance: Tolerance) -> bool:
        """Whether the bound is above the tolerance, and looseness may explain the excess.

        Errors are estimated without a bound: looseness widens their limits and moves nothing.
        """
        if isinstance(tolerance, ErrorTolerance):
            return False
        return self.plan.bound > tolerance >= self.plan.bound - self.plan.remaining


def goal_of(tolerance: Tolerance) -> Shown | Decided:
    """The goal of runs at one setting: a decision."""
    return Decided(tolerance) if isinstance(tolerance, ErrorTolerance) else Shown(tolerance)


class Pilots:
    """Pilots of settings, run when they are needed, and stored in a folder if there is one."""

    def __init__(
        self,
        key: Key | int,
        gold: InferenceAlgorithm,
        target: Family,
        settings: tuple[Setting, ...],
        tolerance: Tolerance,
        cost: str | Callable[[Setting], float] | None,
        folder: str | Path | None,
    ):
        self._target, self._settings, self._cost = target, settings, cost
        self._goal, self._gold = goal_of(tolerance), TimedGold(pilot_key(key), gold)
        self._algorithm, self._tolerance = gold, tolerance
        self._file = None if folder is None else make_folder(Path(folder)) / "pilots.json"
        words = str(tolerance) if isinstance(tolerance, ErrorTolerance) else tolerance
        self._of = [identity_of(gold).digest, words, [words_of(one) for one in settings]]
        self._stored = self._read()
        self.num_runs = 0

    @property
    def by_name(self) -> str:
        """The name of the cost by which settings are ordered."""
        if self._cost is None:
            return "seconds of one run"
        return self._cost if isinstance(self._cost, str) else "cost"

    def build(self, planned: Planned) -> InferenceAlgorithm:
        """The algorithm at a setting."""
        return build(self._target, planned.setting)

    def ladder(self) -> list[Planned]:
        """Settings with their pilots, from cheap to costly: all, or those of a bisection."""
        num = len(self._settings)
        if num <= MOST_PILOTS:
            found = [self._plan(index) for index in range(num)]
        else:
            found = self._halving(num)
        return sorted(found, key=lambda one: one.cost)

    def _halving(self, num: int) -> list[Planned]:
        found = {num - 1: self._plan(num - 1)}
        low, high = -1, num - 1
        while high - low > 1:
            middle = (low + high) // 2
            found[middle] = self._plan(middle)
            if found[middle].is_foreseen(self._tolerance):
                high = middle
            else:
                low = middle
        for index in range(max(high - 2, 0), min(high + 4, num)):  # neighbours on both sides
            if index not in found:
                found[index] = self._plan(index)
        return list(found.values())

    def _plan(self, index: int) -> Planned:
        setting = self._settings[index]
        algorithm = build(self._target, setting)
        identity = identity_of(algorithm).digest
        stored: dict[str, Any] | None = self._stored.get(str(index))
        if stored is None or stored["identity"] != identity:
            pilot = self._gold.measure(algorithm, SIZES)
            plan = allocate(pilot, self._goal, (None, None))
            stored = {
                "identity": identity,
                "plan": plan._asdict(),
                "seconds": pilot.costs[1].simulate,
                "errors": self._errors(pilot, algorithm),
            }
            self._write(index, stored)
        self.num_runs += PILOT_RUNS  # of stored pilots too: a study that continues ends alike
        plan, seconds = as_allocation(stored["plan"]), stored["seconds"]
        share, is_beyond = stored.get("errors") or (None, False)
        cost = self._cost_of(setting, seconds)
        known = index, setting, plan, seconds, particles_of(algorithm), cost
        return Planned(*known, share, is_beyond)

    def _errors(
        self, pilot: PilotDraws, algorithm: InferenceAlgorithm
    ) -> tuple[float, bool] | None:
        """The largest error divided by its tolerance, and whether an error is shown beyond it."""
        if not isinstance(self._tolerance, ErrorTolerance):
            return None
        found = Estimate(pilot.draws, posterior=posterior_of(self._algorithm, algorithm))
        closeness = judge_errors(found, self._tolerance)
        return closeness.shares[1], closeness.outcome == FAILED

    def _cost_of(self, setting: Setting, seconds: float) -> float:
        if self._cost is None:
            return seconds
        return float(setting[self._cost] if isinstance(self._cost, str) else self._cost(setting))

    def _read(self) -> dict[str, Any]:
        if self._file is None or not self._file.exists():
            return {}
        try:
            data = json.loads(self._file.read_text())
            of, pilots = data["of"], data["pilots"]
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"{self._file} holds no pilots of aide ({error}): delete it."
            ) from None
        if of != json.loads(json.dumps(self._of)):
            raise ValueError(
                f"{self._file} holds pilots of another call: the gold standard, the tolerance or "
                "the settings changed since. Choose another folder, or delete this one."
            )
        return pilots

    def _write(self, index: int, stored: dict[str, Any]) -> None:
        self._stored[str(index)] = stored
        if self._file is not None:
            data = {"of": self._of, "pilots": self._stored}
            write_atomically(self._file, (json.dumps(data, indent=1) + "\n").encode())
