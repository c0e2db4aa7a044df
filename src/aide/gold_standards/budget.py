"""Limits on the cost of making a gold standard: evaluations and seconds.

The timetable names the shares of the seconds after which a step is left out (`LAST_…`: no such step
begins later) or ends; all shares are choices. What is left at the end is for the tests.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from aide.engine.programs.places import checking_often

CLIMBS_STOP = 0.1
"""Optimisers that look for a start stop, but not before one climb has ended."""
LAST_PASS = 0.3
"""No further pass of pilots along a path begins."""
LAST_RIVAL = 0.4
"""No pilots leave from a wider start."""
PILOTS_CUT = 0.45
"""Pilots take the rest of their path in one step; the search for modes ends."""
LAST_COVERING = 0.5
"""No pilots leave from a start that covers what others found."""
RIVAL_GIVEN_UP = 0.55
"""Pilots from a wider start are given up."""
COVERING_GIVEN_UP = 0.6
"""Pilots from a covering start are given up."""
LAST_LENGTHENING = 0.6
"""No longer path is tried to reach the looseness."""
SIZING_GIVEN_UP = 0.8
"""The trial of a number of particles is given up."""


class TooLate(RuntimeError):
    """The seconds of a budget, or of a phase, have passed."""


def now() -> float:
    """Seconds on the clock that all budgets use."""
    return time.monotonic()


@dataclass(frozen=True)
class Budget:
    """Approximate limits: a step that has begun is finished.

    Attributes:
        evaluations: Number of evaluations of the log density or its gradient.
        seconds: Wall time since `begun`; with this limit results depend on the machine.
        begun: Time at which the budget was made, by `now`.
    """

    evaluations: float = float("inf")
    seconds: float = float("inf")
    begun: float = field(default_factory=lambda: now())

    @property
    def is_timed(self) -> bool:
        """Whether there is a limit of seconds."""
        return self.seconds < float("inf")

    @property
    def seconds_left(self) -> float:
        """Seconds that are left; 0 once all have passed."""
        return max(self.seconds - (now() - self.begun), 0.0)

    def is_late(self, share: float) -> bool:
        """Whether more than a share of the seconds has passed."""
        return self.is_timed and now() - self.begun > share * self.seconds

    def part(self, evaluations: float) -> "Budget":
        """A budget with the same seconds and other evaluations."""
        return Budget(evaluations, self.seconds, self.begun)

    @contextmanager
    def until(self, share: float) -> Iterator[None]:
        """Raise `TooLate` inside the block once more than a share of the seconds has passed.

        The time is checked before every trace or compilation and after every chunk of runs, so
        that the block overruns by one compilation or one chunk of runs at most.
        """
        self.check(share)
        if not self.is_timed:
            yield
            return
        with checking_often(partial(self.check, share)):
            yield

    def check(self, share: float) -> None:
        """Raise `TooLate` if more than a share of the seconds has passed."""
        if self.is_late(share):
            raise TooLate(f"{self.words(share)} had passed.")

    def words(self, share: float = 1.0) -> str:
        """The limit in words, such as `60% of max_seconds=20`."""
        part = f"{share:.0%} of " if share < 1.0 else ""
        return f"{part}max_seconds={self.seconds:g}"


class Laps:
    """Seconds of one phase after another, for the record of a gold standard."""

    def __init__(self, begun: float):
        self._last = begun
        self._laps: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """Add the seconds since the last call to a phase, which ends now."""
        time = now()
        self._laps[phase] = self._laps.get(phase, 0.0) + time - self._last
        self._last = time

    @property
    def words(self) -> str:
        """The seconds of every phase, such as `start 2, pilots 9, …`."""
        return ", ".join(f"{phase} {seconds:.0f}" for phase, seconds in self._laps.items())


class Goal(NamedTuple):
    """The looseness that is asked for, in nats, and what reaching it may cost.

    `names` are the names of the coordinates, for messages.
    """

    looseness: float
    budget: Budget
    num_pilots: int | None = None
    names: tuple[str, ...] | None = None
