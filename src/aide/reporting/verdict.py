"""The three words in which every verdict is given: in code, text, JSON, HTML and exit codes."""

from collections.abc import Iterable
from typing import Literal

Verdict = Literal["passed", "failed", "undecided"]

PASSED: Verdict = "passed"
"""What was asked was shown."""
FAILED: Verdict = "failed"
"""The contrary of what was asked was shown."""
UNDECIDED: Verdict = "undecided"
"""Neither was shown: more runs, or what a note says, could decide."""

COLOURS: dict[str, str] = {PASSED: "green", FAILED: "red", UNDECIDED: "yellow"}
EXIT_CODES: dict[str, int] = {PASSED: 0, FAILED: 1, UNDECIDED: 3}
"""Of commands; 2 is bad input."""


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on "all of these": failed if one failed, passed if all passed."""
    found = set(verdicts)
    if FAILED in found:
        return FAILED
    return PASSED if found <= {PASSED} else UNDECIDED


def colour_of(verdict: str | None) -> str:
    """The colour in which a verdict is shown; empty without one."""
    return COLOURS.get(verdict or "", "")
