"""Errors in sentences: the quantities that are right, and the wrong ones with their errors."""

from collections.abc import Sequence

import numpy as np

from aide.estimation.errors.find import INTERVAL, MEAN, PROBABILITY, SD, ErrorOf, VariableErrors
from aide.reporting.numbers import rounded_up

MOST_NAMES = 3
"""Largest number of variables that a sentence names: a choice."""
SMALL = {MEAN: 0.1, SD: float(np.log(1.1)), PROBABILITY: 0.05}
"""An error is named if it exceeds half of this with certainty (sds, log ratio, share): a choice."""


def named(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Names in a list: `a`, `a and b`, `a, b and c`, or `a, b, c and 4 more`."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def sentence(variables: Sequence[VariableErrors], missed: Sequence[str] = ()) -> str:
    """The errors of all variables in one sentence.

    Args:
        variables: Variables with errors, worst first.
        missed: Phrases on dependences that the target misses.
    """
    parts = [_means(variables), _sds(variables), _probabilities(variables), *missed]
    text = "; ".join(part for part in parts if part)
    return f"{text[:1].upper()}{text[1:]}" if text else "Nothing to compare"


def percent(share: float) -> str:
    """A share between 0 and 1 in per cent, with one digit more if it is small."""
    return f"{100 * share:.2g}%" if abs(share) < 0.0995 else f"{100 * share:.0f}%"


def more_or_less(ratio: float) -> str:
    """A ratio of sds in words: `40% too small`, `12% too large`, `3.1 times too large`."""
    if ratio >= 2:
        return f"{ratio:.2g} times too large"
    if ratio >= 1:
        return f"{percent(ratio - 1)} too large"
    return f"{percent(1 - ratio)} too small" if ratio > 0.1 else f"{1 / ratio:.2g} times too small"


def sd_limit(log_ratio: float) -> str:
    """Words for a limit on the logarithm of a ratio of sds: `12%`, or `a factor of 3.1`."""
    ratio = float(np.exp(log_ratio))
    return f"{percent(ratio - 1)}" if ratio < 2 else f"a factor of {ratio:.2g}"


def shown(variables: Sequence[VariableErrors], quantity: str) -> list[tuple[str, ErrorOf]]:
    """Variables whose error of that quantity is certain and large enough, largest first."""
    found = [(one.name, error) for one in variables if (error := one.of(quantity)) is not None]
    large = [pair for pair in found if pair[1].least > SMALL[quantity] / 2]
    return sorted(large, key=lambda pair: pair[1].size, reverse=True)


def _largest(variables: Sequence[VariableErrors], quantity: str) -> float | None:
    found = [error.most for one in variables if (error := one.of(quantity)) is not None]
    return max(found, default=None)


def _means(variables: Sequence[VariableErrors]) -> str:
    most, wrong = _largest(variables, MEAN), shown(variables, MEAN)
    if most is None:
        return ""
    if not wrong:
        return f"means within {rounded_up(most)} sd"
    sizes = [abs(error.error) for _, error in wrong]
    few, many = f"{min(sizes):.2g}", f"{max(sizes):.2g}"
    size = few if few == many else f"{few} to {many}"
    words = "mean of" if len(wrong) == 1 else "means of"
    return f"{words} {named([name for name, _ in wrong])} off by {size} sd"


def _sds(variables: Sequence[VariableErrors]) -> str:
    most, wrong = _largest(variables, SD), shown(variables, SD)
    if most is None:
        return ""
    if not wrong:
        return f"sds within {sd_limit(most)}"
    found = []
    for small in (True, False):
        part = [(name, error.error) for name, error in wrong if (error.error < 1) is small]
        if not part:
            continue
        ratios = [ratio for _, ratio in part]
        size = more_or_less(min(ratios) if small else max(ratios))
        if len(part) > 1:
            size = f"up to {size}"
        found.append(f"{size} in {named([name for name, _ in part])}")
    return f"sds {' and '.join(found)}"


def _probabilities(variables: Sequence[VariableErrors]) -> str:
    most, wrong = _largest(variables, PROBABILITY), shown(variables, PROBABILITY)
    if most is None:
        return ""
    if not wrong:
        alone = _largest(variables, MEAN) is None and _largest(variables, SD) is None
        return f"probabilities within {percent(most)}" if alone else ""
    found = [f"{name} by {percent(error.size)}" for name, error in wrong[:MOST_NAMES]]
    return f"{'probability' if len(found) == 1 else 'probabilities'} off: {', '.join(found)}"


def interval_range(variables: Sequence[VariableErrors]) -> tuple[float, float] | None:
    """Least and largest estimate of the content of the target's 90% intervals."""
    found = [error.error for one in variables if (error := one.of(INTERVAL)) is not None]
    return (min(found), max(found)) if found else None
