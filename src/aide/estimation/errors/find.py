"""The table of errors: every quantity of every variable, with limits that hold together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from aide.estimation.errors.overlap import Overlap
from aide.estimation.errors.quantities import (
    CONTENT,
    QUANTILES,
    Moments,
    interval_content,
    mean_error,
    moments_of,
    probability_error,
    sd_log_ratio,
    share_below,
)
from aide.estimation.errors.simultaneous import limits_of, single_level
from aide.estimation.errors.statistics import Estimated, Statistic, estimate_statistic
from aide.estimation.errors.variables import OutputVariable

MEAN = "mean"
"""Name of the error of the mean, as in records."""
SD = "sd"
"""Name of the ratio of sds, as in records."""
INTERVAL = "90% interval"
"""Name of the content of the target's central interval, as in records."""
PROBABILITY = "probability"
"""Name of the error of a probability, as in records."""
BELOW = tuple(f"below {100 * level:g}%" for level in QUANTILES)
"""Names of the shares below quantiles of the gold standard, as in records."""
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
        """Key of the order of variables: lower limits of errors first, then estimates."""
        units = [WORTH_MENTIONING[one.quantity] for one in self.errors]
        parts = list(zip(self.errors, units, strict=True))
        return (
            max((one.least / unit for one, unit in parts), default=0.0),
            max((one.size / unit for one, unit in parts), default=0.0),
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


class TableLine(NamedTuple):
    """One quantity of one variable before its limits are known.

    Attributes:
        variable: The name of the variable.
        quantity: See `ErrorOf`.
        found: The estimate; for `sd` the logarithm of the ratio.
        gold: The quantity under the gold standard.
        scale: The unit of the error, in units of the variable.
    """

    variable: str
    quantity: str
    found: Estimated
    gold: float
    scale: float


def find_table(overlap: Overlap, variables: Sequence[OutputVariable], level: float) -> Table:
    """Estimate every quantity of every variable; limits hold together at `level`."""
    lines: list[TableLine] = []
    constant, infinite, collapsed = [], [], []
    for variable in variables:
        if not np.isfinite(variable.values).all():
            infinite.append(variable.name)
        elif np.ptp(variable.values) == 0:
            constant.append(variable.name)
        else:
            own = _lines_of(overlap, variable)
            lines += own
            if not own:
                collapsed.append(variable.name)
    single = single_level(overlap, [line.found for line in lines], level)
    errors: dict[str, list[ErrorOf]] = {}
    for line in lines:
        errors.setdefault(line.variable, []).append(_with_limits(line, single))
    found = [VariableErrors(name, tuple(each)) for name, each in errors.items()]
    ordered = sorted(found, key=lambda one: one.rank, reverse=True)
    unable = tuple(constant), tuple(infinite)
    return Table(tuple(ordered), *unable, level, single, tuple(collapsed))


def find_lines(overlap: Overlap, variables: Sequence[OutputVariable]) -> list[TableLine]:
    """The estimates of all quantities of all variables."""
    return [line for variable in variables for line in _lines_of(overlap, variable)]


def standardised_powers(x: np.ndarray, moments: Moments) -> np.ndarray:
    """Columns $z$ and $z^2$ for the controls that are regressed out."""
    z = (x - moments.gold_mean) / (moments.gold_sd or moments.target_sd or 1.0)
    return np.stack([z, z**2], axis=1)


def _lines_of(overlap: Overlap, variable: OutputVariable) -> list[TableLine]:
    x, name = variable.values, variable.name
    if variable.is_event:
        gold = float(overlap.as_gold @ x / overlap.as_gold.sum())
        return [_line(overlap, name, PROBABILITY, probability_error(overlap, x), x[:, None], gold)]
    moments = moments_of(overlap, x)
    if min(moments.gold_sd, moments.target_sd) == 0.0:
        return []
    powers = standardised_powers(x, moments)
    mean, sd = mean_error(overlap, x, moments), sd_log_ratio(overlap, x, moments)
    found = [
        _line(overlap, name, MEAN, mean, powers, moments.gold_mean, moments.gold_sd),
        _line(overlap, name, SD, sd, powers, moments.gold_sd),
    ]
    if variable.is_discrete:
        return found
    for quantity, level in zip(BELOW, QUANTILES, strict=True):
        share = share_below(overlap, x, level)
        found.append(_line(overlap, name, quantity, share, powers, level))
    content = interval_content(overlap, x)
    return [*found, _line(overlap, name, INTERVAL, content, powers, CONTENT)]


def _line(
    overlap: Overlap,
    name: str,
    quantity: str,
    statistic: Statistic,
    functions: np.ndarray,
    gold: float,
    scale: float = 1.0,
) -> TableLine:
    found = estimate_statistic(overlap, statistic, functions)
    return TableLine(name, quantity, found, gold, scale)


def _with_limits(line: TableLine, single: float) -> ErrorOf:
    low, high = limits_of(line.found, single)
    value, gold = line.found.value, line.gold
    if line.quantity == SD:
        value, low, high = (float(np.exp(min(one, 700.0))) for one in (value, low, high))
        target = gold * value
    elif line.quantity == PROBABILITY:
        low, high = max(low, -1.0), min(high, 1.0)
        target = gold + value
    elif line.quantity == MEAN:
        target = gold + value * line.scale
    else:
        value, low, high = (float(np.clip(one, 0.0, 1.0)) for one in (value, low, high))
        target = value
    return ErrorOf(line.quantity, value, low, high, line.found.std_error, gold, target)
