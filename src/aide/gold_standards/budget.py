"""What making a gold standard may cost: evaluations, and seconds."""

import time
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Budget:
    """Limits, about: what has begun is finished.

    Attributes:
        evaluations: Log densities or gradients.
        seconds: Wall time from now on; what is chosen then depends on the machine.
        begun: When it was made, by `time.monotonic`.
    """

    evaluations: float = float("inf")
    seconds: float = float("inf")
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float:
        """0 once they are spent."""
        return max(self.seconds - (time.monotonic() - self.begun), 0.0)

    def is_late(self, share: float) -> bool:
        """Whether more than a share of the seconds is spent."""
        return time.monotonic() - self.begun > share * self.seconds

    def part(self, evaluations: float) -> "Budget":
        """The same seconds with other evaluations."""
        return Budget(evaluations, self.seconds, self.begun)


class Stopwatch:
    """Seconds of one phase after another, for people."""

    def __init__(self, begun: float):
        self._last = begun
        self._laps: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """A phase has ended."""
        now = time.monotonic()
        self._laps[phase] = self._laps.get(phase, 0.0) + now - self._last
        self._last = now

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
