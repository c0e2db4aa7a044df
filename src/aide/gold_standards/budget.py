"""What making a gold standard may cost: evaluations, and seconds."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from aide.engine.programs.places import checking_often


class TooLate(RuntimeError):
    """The seconds of a budget, or of a phase, are spent."""


def now() -> float:
    """Seconds on the clock of all budgets."""
    return time.monotonic()


@dataclass(frozen=True)
class Budget:
    """Limits, about: what has begun is finished.

    Attributes:
        evaluations: Log densities or gradients.
        seconds: Wall time from now on; what is chosen then depends on the machine.
        begun: When it was made, by `now`.
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
        """0 once they are spent."""
        return max(self.seconds - (now() - self.begun), 0.0)

    def is_late(self, share: float) -> bool:
        """Whether more than a share of the seconds is spent."""
        return self.is_timed and now() - self.begun > share * self.seconds

    def part(self, evaluations: float) -> "Budget":
        """The same seconds with other evaluations."""
        return Budget(evaluations, self.seconds, self.begun)

    @contextmanager
    def until(self, share: float) -> Iterator[None]:
        """Raise `TooLate` once more than a share of the seconds is spent.

        That is looked at before everything that is traced or compiled and after every chunk of
        runs, so that what is done here lasts longer by one of those at most.
        """
        self.check(share)
        if not self.is_timed:
            yield
            return
        with checking_often(partial(self.check, share)):
            yield

    def check(self, share: float) -> None:
        """Raise `TooLate` if more than a share of the seconds is spent."""
        if self.is_late(share):
            raise TooLate(f"{self.words(share)} had passed.")

    def words(self, share: float = 1.0) -> str:
        """`60% of max_seconds=20`."""
        part = f"{share:.0%} of " if share < 1.0 else ""
        return f"{part}max_seconds={self.seconds:g}"


class Stopwatch:
    """Seconds of one phase after another, for people."""

    def __init__(self, begun: float):
        self._last = begun
        self._laps: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """A phase has ended."""
        time = now()
        self._laps[phase] = self._laps.get(phase, 0.0) + time - self._last
        self._last = time

    @property
    def words(self) -> str:
        """`start 2, pilots 9, …`."""
        return ", ".join(f"{phase} {seconds:.0f}" for phase, seconds in self._laps.items())


class Goal(NamedTuple):
    """What is asked for: nats of looseness, and what may be spent on it.

    `names` are those of the coordinates, for messages.
    """

    looseness: float
    budget: Budget
    num_pilots: int | None = None
    names: tuple[str, ...] | None = None
