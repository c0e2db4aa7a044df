"""Versions of a particle filter: few particles, the first few observations."""

from typing import Any

from aide._core.versions import MOST_STEPS, Prefix, Shortened, Version, few_particles, rebuilt


class FilterVersions:
    """What filters with `num_particles` over `num_steps` observations have in common.

    The output is the whole path, so that the filter after some of the observations
    (`first_steps(num)`) is a filter.
    """

    def shrunk(self: Any) -> dict[str, Version]:
        """Few particles, on the first few observations."""
        short = Shortened(self)
        if self.num_steps > MOST_STEPS:
            words = f", first {MOST_STEPS} observations"
            short = Shortened(self.first_steps(MOST_STEPS), words)
        return few_particles(self, short, self.num_steps)

    def prefixes(self: Any) -> list[Prefix]:
        """The filter after each observation, with one particle."""
        one, total = rebuilt(self, num_particles=1), self.num_steps
        return [
            (f"step {num} of {total} (Extend)", lambda num=num: one.first_steps(num))
            for num in range(1, total + 1)
        ]

    def determines_trace(self: Any) -> bool:
        """Whether there is but one particle: its path is the output."""
        return self.num_particles == 1
