"""Numbers and verdicts as text: the formatters of all reports."""

from collections.abc import Iterable
from typing import Literal

import numpy as np

ROUNDING = 1e-9
"""Size below which numbers are rounding errors and shown as 0."""
SMALLEST_P = 1e-12
"""P-value below which only this limit is shown."""


def with_error(value: float, std_error: float) -> str:
    """A number with its standard error, such as `0.213 ± 0.012`, in the digits that it justifies.

    Terms that are all equal give `± 0`: the runs showed no spread, which is no proof.
    """
    if not np.isfinite(value):
        return "+inf" if value > 0 else "-inf"
    if not np.isfinite(std_error):
        return f"{value:.4g} ± ?"
    if std_error < ROUNDING:
        return f"{0.0 if abs(value) < ROUNDING else value:.4g} ± 0"
    digits = int(max(1 - np.floor(np.log10(std_error)), 0))
    if digits > 6:
        return f"{value:.1e} ± {std_error:.1e}"
    return f"{value:.{digits}f} ± {std_error:.{digits}f}"


def short(value: float, digits: int = 3) -> str:
    """A number in a few digits, thousands as `6,500`; infinities with their sign."""
    if np.isinf(value):
        return "+inf" if value > 0 else "-inf"
    if 1e3 <= abs(value) < 1e6:
        return f"{float(f'{value:.{digits}g}'):,.0f}"
    return f"{0.0 if abs(value) < ROUNDING else value:.{digits}g}"


def in_nats(number: float | str, digits: int = 6) -> str:
    """A number with its unit, such as `0.5 nats` or `1 nat`, in at most `digits` digits."""
    text = number if isinstance(number, str) else f"{number:.{digits}g}"
    return f"{text} nat" if text == "1" else f"{text} nats"


def interval(low: float, high: float) -> str:
    """An interval in words, such as `0.19 to 0.24`."""
    return f"{short(low)} to {short(high)}"


def rounded_up(value: float) -> str:
    """A number in two digits, rounded up, so that "at most" holds."""
    if value <= 0 or not np.isfinite(value):
        return "1e-9" if value <= 0 else "+inf"
    digits = 1 - int(np.floor(np.log10(value)))
    return f"{np.ceil(value * 10**digits) / 10**digits:.2g}"


def p_value(value: float) -> str:
    """A p-value in words, such as `p = 0.03` or `p < 1e-12`."""
    return f"p < {SMALLEST_P:g}" if value < SMALLEST_P else f"p = {value:.2g}"


def factor(log_factor: float) -> str:
    """A factor, given by its log, in a few characters whatever its size."""
    if abs(log_factor) < 600 or np.isinf(log_factor):
        return f"{np.exp(log_factor):.3g}"
    return f"1e{log_factor / np.log(10):+.0f}"


def cell(value: float | None, form: str) -> str:
    """A cell with a number in a format of Python's; a dash if there is no number."""
    return "–" if value is None or np.isnan(value) else format(value, form)


Verdict = Literal["passed", "failed", "undecided"]

PASSED: Verdict = "passed"
"""The claim was shown."""
FAILED: Verdict = "failed"
"""The contrary of the claim was shown."""
UNDECIDED: Verdict = "undecided"
"""Neither was shown: more runs, or the advice in a note, could decide."""

COLOURS: dict[str, str] = {PASSED: "green", FAILED: "red", UNDECIDED: "yellow"}
"""Colours of verdicts, in the words of rich and HTML."""
EXIT_CODES: dict[str, int] = {PASSED: 0, FAILED: 1, UNDECIDED: 3}
"""Exit codes of commands by verdict; 2 is bad input."""


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on all claims together: failed if one failed, passed if all passed."""
    found = set(verdicts)
    if FAILED in found:
        return FAILED
    return PASSED if found <= {PASSED} else UNDECIDED


def colour_of(verdict: str | None) -> str:
    """The colour of a verdict; empty without one."""
    return COLOURS.get(verdict or "", "")
