"""The table of errors: every quantity of every variable, with limits that hold together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from aide.estimation.errors.lines import (
    BELOW,
    INTERVAL,
    MEAN,
    PROBABILITY,
    SD,
    Lines,
    find_lines,
)
from aide.estimation.errors.overlap import Overlap
from aide.estimation.errors.quantiles import CONTENT
from aide.estimation.errors.simultaneous import limits_of, single_level
from aide.estimation.errors.variables import OutputVariable

WORTH_MENTIONING = {MEAN: 0.1, SD: np.log(1.1), INTERVAL: 0.05, PROBABILITY: 0.05} | {
    name: 0.05 for name in BELOW
}
"""Units in which errors of different quantities are compared, to order variables: a choice."""


class ErrorOf(NamedTuple):
    """The error of one quantity of one variable.

    Attributes:
        quantity: `mean`: target minus gold standard, in sds of the gold standard. `sd`: the
            target's over the gold standard's. `below 5%` and so on: the target's share below that
            quantile of the gold standard. `90% interval`: probability of the target's 90% interval
            under the gold standard. `probability`: target minus gold standard.
        error: The estimate.
        low: Lower limit, for the whole table.
        high: Upper limit, for the whole table.
        std_error: Standard error of the estimate; of its logarithm for `sd`.
        gold: The quantity under the gold standard, in its own units.
        target: The quantity under the target, in its own units.
    """

    quantity: str
    error: float
    low: float
    high: float
    std_error: float
    gold: float
    target: float

    @property
    def none(self) -> float:
        """The value of `error` if both algorithms agree."""
        if self.quantity in (MEAN, PROBABILITY):
            return 0.0
        return {SD: 1.0, INTERVAL: CONTENT}.get(self.quantity, self.gold)

    @property
    def least(self) -> float:
        """Lower limit of the size of the error; logarithmic for `sd`."""
        low, high = self._deviations()
        return max(low, -high, 0.0)

    @property
    def most(self) -> float:
        """Upper limit of the size of the error; logarithmic for `sd`."""
        low, high = self._deviations()
        return max(-low, high)

    @property
    def size(self) -> float:
        """The estimated size of the error; logarithmic for `sd`."""
        return abs(self._deviation(self.error))

    def _deviations(self) -> tuple[float, float]:
        return self._deviation(self.low), self._deviation(self.high)

    def _deviation(self, value: float) -> float:
        if self.quantity == SD:
            with np.errstate(divide="ignore"):
                return float(np.log(value))
        return value - self.none


class AveragedDraws(NamedTuple):
    """The number of averaged draws of the target at which bias equals the Monte Carlo error.

    Attributes:
        value: The estimate.
        low: Lower limit, by the limits of the table.
        high: Upper limit; infinite if the bias may be 0.
    """

    value: float
    low: float
    high: float


class VariableErrors(NamedTuple):
    """All errors of one variable.

    Attributes:
        name: Name of the variable.
        errors: One error per quantity.
    """

    name: str
    errors: tuple[ErrorOf, ...]

    def of(self, quantity: str) -> ErrorOf | None:
        """The error of one quantity, if the variable has it."""
        return next((one for one in self.errors if one.quantity == quantity), None)

    @property
    def averaged_draws(self) -> AveragedDraws | None:
        r"""$n = sd_q^2/b^2$, at which $sd_q/\sqrt n$ is as large as the bias $b$ of the mean.

        Limits are those of the table, of $b$ and, for a mean, of $sd_q$; for a probability $q$,
        $sd_q^2 = q(1-q)$ is taken over all $q = p + b$ with $b$ within limits, $p$ as estimated.
        """
        mean, sd, event = self.of(MEAN), self.of(SD), self.of(PROBABILITY)
        if mean is not None and sd is not None:
            spreads = sd.low, sd.error, sd.high
            error = mean
        elif event is not None:
            shares = [float(np.clip(event.gold + b, 0, 1)) for b in (event.low, event.high)]
            sds = [np.sqrt(q * (1 - q)) for q in shares]
            largest = 0.5 if shares[0] <= 0.5 <= shares[1] else max(sds)
            now = float(np.clip(event.target, 0, 1))
            spreads, error = (min(sds), np.sqrt(now * (1 - now)), largest), event
        else:
            return None
        biases = error.most, error.size, error.least
        found = [
            np.inf if b == 0 else float(s / b) ** 2 for s, b in zip(spreads, biases, strict=True)
        ]
        return AveragedDraws(found[1], found[0], found[2])

    @property
    def rank(self) -> tuple[float, float]:
        """Key of the order of variables: lower limits of errors first, then estimates.

        Keys are rounded, so that rounding errors do not order variables with equal errors.
        """
        units = [WORTH_MENTIONING[one.quantity] for one in self.errors]
        parts = list(zip(self.errors, units, strict=True))
        return (
            round(max((one.least / unit for one, unit in parts), default=0.0), 9),
            round(max((one.size / unit for one, unit in parts), default=0.0), 9),
        )


class Table(NamedTuple):
    """Errors of all variables, worst first, and the names of variables without errors.

    Attributes:
        variables: Variables with errors.
        constant: Names of variables that are the same number in all outputs.
        infinite: Names of variables with infinite values, which have no mean.
        level: Probability with which all limits hold together.
        single: Probability with which each limit holds by itself.
        collapsed: Names of variables that are constant under one algorithm only: no sds to compare.
    """

    variables: tuple[VariableErrors, ...]
    constant: tuple[str, ...]
    infinite: tuple[str, ...]
    level: float
    single: float
    collapsed: tuple[str, ...] = ()

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Names of variables that vary but have neither a mean nor an sd in the table."""
        return (*self.infinite, *self.collapsed)


def find_table(overlap: Overlap, variables: Sequence[OutputVariable], level: float) -> Table:
    """Estimate every quantity of every variable; limits hold together at `level`."""
    infinite, constant, moving = [], [], []
    for variable in variables:
        if not np.isfinite(variable.values).all():
            infinite.append(variable.name)
        elif np.ptp(variable.values) == 0:
            constant.append(variable.name)
        else:
            moving.append(variable)
    lines = find_lines(overlap, moving)
    found: dict[str, list[ErrorOf]] = {}
    single = level
    if lines.variables:
        single = single_level(overlap, lines.found, level)
        for name, error in zip(lines.variables, _with_limits(lines, single), strict=True):
            found.setdefault(name, []).append(error)
    collapsed = tuple(one.name for one in moving if one.name not in found)
    errors = [VariableErrors(name, tuple(each)) for name, each in found.items()]
    ordered = sorted(errors, key=lambda one: one.rank, reverse=True)
    unable = tuple(constant), tuple(infinite)
    return Table(tuple(ordered), *unable, level, single, collapsed)


def _with_limits(lines: Lines, single: float) -> list[ErrorOf]:
    """Errors of all lines, on the scale on which they are reported."""
    found, gold = lines.found, lines.gold
    quantities = np.array(lines.quantities)
    numbers = np.stack([found.value, *limits_of(found, single)])
    ratios, events, means = (quantities == one for one in (SD, PROBABILITY, MEAN))
    shares = ~(ratios | events | means)
    numbers[:, ratios] = np.exp(np.minimum(numbers[:, ratios], 700.0))
    numbers[1:, events] = np.clip(numbers[1:, events], -1.0, 1.0)
    numbers[:, shares] = np.clip(numbers[:, shares], 0.0, 1.0)
    value = numbers[0]
    target = np.select([ratios, shares], [gold * value, value], gold + value * lines.scale)
    columns = (*numbers, found.std_error, gold, target)
    return [
        ErrorOf(quantity, *row)
        for quantity, row in zip(lines.quantities, np.stack(columns, axis=1).tolist(), strict=True)
    ]
