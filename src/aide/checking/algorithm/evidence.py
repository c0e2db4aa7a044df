"""What one test saw."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Evidence:
    r"""The outcome of one test.

    Attributes:
        law: Number of the law.
        variant: The (shrunken) algorithm that was run.
        p_value: Chance of so large a deviation if the law holds, over all cells and functions of
            this test together; exact, or an upper bound, at every sample size and every tail.
            `None` if the test could not be made.
        words: What was seen.
        num_runs: Runs of `simulate` it looked at.
        log_mass: Log of the mass of $\xi$ on a region, relative to its claim (law 1).
        doubt: Why a large p-value does not speak for the law here; `None` if it does.
    """

    law: int
    variant: str
    p_value: float | None
    words: str
    num_runs: int
    log_mass: float | None = None
    doubt: str | None = None
