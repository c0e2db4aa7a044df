"""Whether draws and a log density belong together, by small moves, without the constant."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.chains import mean_variance
from aide._core.numerics import as_log, special
from aide._core.types import LogDensity, Value
from aide.algorithms.draw_arrays import column_names, columns_of
from aide.reporting.figures import plot_p_values
from aide.reporting.grid import Grid
from aide.reporting.numbers import FAILED, PASSED, UNDECIDED, p_value, short
from aide.reporting.result import Result

MOST_EVALUATIONS = 400_000
"""Largest number of log densities that are computed, if `FEWEST_DRAWS` allows it."""
FEWEST_DRAWS = 200
"""Least number of draws from which moves are made, at any cost."""
MOST_PLAIN = 40_000
"""Largest number of log densities that are computed in plain Python, which is slower."""
AT_ONCE = 4096
"""Number of log densities that one program computes together, which bounds memory."""
STEPS = (2.0, 1.0, 0.5, 0.25, 0.1, 0.05, 0.02)
"""Candidate lengths of a move, in standard deviations of the coordinate."""
LEAST_ACCEPTED = 0.25
"""Each coordinate takes the longest move of which this share would be accepted: a choice."""
PILOT_DRAWS = 100
"""Number of draws by which the lengths are chosen."""
CLIP = 4.0
"""Nats at which a log ratio is cut, which bounds the terms of a test of widths: a choice."""
PSEUDO = 1.0
"""Number of imagined terms that enlarge variances, for events that no draw shows."""
SIZES = {"location": 1.0, "width": 2.0}
"""Size of an imagined term of each identity, near the largest size of real ones."""
FREEDOM_SHARE = {"location": 1.0, "width": 0.2}
"""Factor of the degrees of freedom of each identity. Terms of widths are skewed: far in the
tails, their means in autocorrelated chains vary more than Student's t says. Chosen by
`benchmarks/power/score_check.py`: with all degrees of freedom, chains worth 25 to 100 draws were
rejected in 0.7 to 2 of 1,000 cases, not 1 in 10,000."""
LEAST_FREEDOM = 3.0
"""Least degrees of freedom after that factor, unless a test has fewer: a choice."""
POWER = 0.8
"""Probability with which an error of the stated smallest size is found."""
MOST_LINES = 8
"""Largest number of tests that are printed."""
PER_DRAW = 4
"""Evaluations of the log density per stored draw that an estimate spends on its own check, besides
those for the lengths of moves: about as many as it needs for the estimate."""
FEWEST_COMPARED = 100
"""Least number of draws from which an estimate makes moves; with fewer it makes no check."""
FEW_PILOTS = 20
"""Number of draws by which an estimate chooses the lengths of its moves."""
MOST_NUMBERS = 20_000_000
"""Largest number of coordinates of moved draws that an estimate keeps at a time (160 MB)."""
FALSE_ALARM = 1e-4
"""Default of the probability that a density is rejected that belongs to the draws."""
DOUBTFUL = 0.01
"""P-value below which the verdict is undecided."""
ALL = "all coordinates"
"""The coordinate that stands for all of them in the test of joint widths."""
REMEDIES = (
    "Usual causes: a sign, a missing log Jacobian of a transformation, other data or priors than "
    "the sampler's, parameters in another order, chains that have not converged."
)
"""Advice that follows a check that did not pass."""


@dataclass(frozen=True)
class ScoreTest:
    """One identity at one coordinate: the mean of its terms, the standard error, and a p-value.

    `freedom`: degrees of freedom of Student's t, by which the p-value was computed.
    """

    coordinate: str
    identity: str
    expected: float
    mean: float
    std_error: float
    p_value: float
    freedom: float = np.inf


class SmallestSeen(NamedTuple):
    """Errors of a log density that a check finds in 4 of 5 cases.

    Attributes:
        temperature: A factor of the log density, above 1; infinite if 100 would not be found.
        shift: Shift of the mean of any coordinate, in sds; infinite if 100 would not be found.
    """

    temperature: float
    shift: float


@dataclass(frozen=True, repr=False)
class ScoreCheck(Result):
    r"""Whether moves of single coordinates are balanced at the draws, as they are if $x \sim p$.

    With $l_\pm = \log p(x \pm \epsilon_i e_i) - \log p(x)$ and the logistic function $\sigma$, the
    accept probability of Barker's chain, detailed balance says that
    $E[\sigma(l_+) - \sigma(l_-)] = 0$ (*location*) and $E[\sigma(l_+) h(l_+) + \sigma(l_-) h(l_-)]
    = 0$ for every odd $h$ (*width*; here $h$ is $l$ cut at $\pm 4$). As $\epsilon \to 0$ they are
    the identities of the score, $E[\partial_i\log p] = 0$ and
    $E[\partial_i^2\log p + (\partial_i\log p)^2] = 0$. But their terms are bounded however heavy
    the tails of $x$ or of its score are, and they hold on any support. Widths are also tested in
    all coordinates together. Standard errors account for autocorrelation, and for rare events that
    no draw shows; p-values are Student's, with a fifth of the degrees of freedom for widths, for
    all tests together (Bonferroni).

    Attributes:
        tests: Two per real coordinate, and one of all of them.
        false_alarm: Probability that a density is rejected that belongs to the draws.
        name: The name of the draws.
        smallest: The smallest errors that the check would find; `None` if unknown.
    """

    tests: tuple[ScoreTest, ...]
    false_alarm: float
    name: str
    smallest: SmallestSeen | None = None

    @property
    def p_value(self) -> float:
        """The smallest p-value times the number of tests."""
        return min(1.0, len(self.tests) * min(test.p_value for test in self.tests))

    @property
    def passed(self) -> bool:
        """Whether no test rejects the density."""
        return self.p_value >= self.false_alarm

    @property
    def verdict(self) -> str:
        """`passed`, `failed`, or `undecided`: a p-value below 1% that is no rejection."""
        if not self.passed:
            return FAILED
        return PASSED if self.p_value >= DOUBTFUL else UNDECIDED

    @property
    def worst(self) -> tuple[ScoreTest, ...]:
        """The tests with the smallest p-values."""
        return tuple(sorted(self.tests, key=lambda test: test.p_value)[:MOST_LINES])

    @property
    def headline(self) -> str:
        """The verdict, the number of tests and the p-value on one line."""
        found: dict[str, str] = {PASSED: "fits the draws", FAILED: "does not fit the draws"}
        words = found.get(self.verdict, "may not fit the draws")
        return (
            f"log_joint of {self.name} {words} ({len(self.tests)} tests, {p_value(self.p_value)})"
        )

    def grid(self) -> Grid:
        """The tests with the smallest p-values."""
        lines = tuple(
            (
                test.coordinate,
                test.identity,
                f"{test.mean:.3g} ± {test.std_error:.2g}",
                f"{test.expected:g}",
                p_value(test.p_value),
            )
            for test in self.worst
        )
        titles = ("coordinate", "test of", "found", "expected", "p-value")
        return Grid(titles, lines, ("",) * len(lines), frozenset(titles[:2]))

    def rows(self) -> list[tuple[str, str]]:
        """The power and limits of a pass, or the usual causes of a failure."""
        if self.verdict == PASSED:
            text = "A constant factor of the density, and a mode that no draw visited."
            return [*self._power_rows(), ("not shown", text)]
        return [("reading", REMEDIES)]

    def _power_rows(self) -> list[tuple[str, str]]:
        """The smallest errors that would have been found."""
        if self.smallest is None:
            return []
        factor, shift = self.smallest
        wide = f"a factor of {short(factor)}" if np.isfinite(factor) else "a factor above 100"
        far = f"{short(shift, 2)}" if np.isfinite(shift) else "more than 100"
        text = (
            f"In 4 of 5 cases this check would have seen {wide} on the log density (a "
            f"temperature), or a tilt that moves the mean of any coordinate by {far} standard "
            "deviations. Smaller errors may be there."
        )
        return [("power", text)]

    def numbers(self) -> dict[str, Any]:
        """The p-value, the rate of false alarms, and the smallest errors that would be found."""
        seen = SmallestSeen(np.nan, np.nan) if self.smallest is None else self.smallest
        return {"p_value": self.p_value, "false_alarm": self.false_alarm, **seen._asdict()}

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per test."""
        return [dict(vars(test)) for test in self.tests]

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot the p-values of the worst tests."""
        names = [f"{test.coordinate}: {test.identity}" for test in self.worst]
        level = self.false_alarm / len(self.tests)
        plot_p_values(panels[0], names, [test.p_value for test in self.worst], level)


RatioFunction = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From rows and lengths of moves to the log ratios of both directions."""


class Moves(NamedTuple):
    r"""$l_+$ and $l_-$ of every coordinate at the draws: shape (chain, draw, coordinate, 2)."""

    log_ratios: np.ndarray
    lengths: np.ndarray

    def location(self, tilt: float = 0.0) -> np.ndarray:
        """Terms of every coordinate; `tilt` adds a slope per sd to the log density."""
        more = tilt * self.lengths[:, None] * np.array([1.0, -1.0])
        accepted = special.expit(self.log_ratios + more)
        return accepted[..., 0] - accepted[..., 1]

    def width(self, factor: float = 1.0) -> np.ndarray:
        """Terms of every coordinate; `factor` multiplies the log density."""
        ratios = factor * self.log_ratios
        return (special.expit(ratios) * np.clip(ratios, -CLIP, CLIP)).sum(axis=-1)


def check_score(
    draws: Value, log_joint: LogDensity, false_alarm: float, name: str, is_traceable: bool = True
) -> ScoreCheck:
    """Test both identities at every real coordinate.

    Args:
        draws: Arrays with leading axes (chain, draw).
        log_joint: A function of one draw.
        false_alarm: Probability that a density is rejected that belongs to the draws.
        name: The name of the draws.
        is_traceable: Whether JAX can trace `log_joint`.
    """
    if not any(leaf.dtype.kind == "f" for leaf in jax.tree.leaves(draws)):
        raise TypeError("score_check needs real-valued coordinates, and there are none.")
    places = _moving(draws)
    if not places.size:
        raise ValueError("score_check needs draws that differ, and all of them are one.")
    budget = MOST_EVALUATIONS if is_traceable else MOST_PLAIN
    most = max(budget // (2 * places.size), FEWEST_DRAWS)
    ratios = _ratio_function(draws, log_joint, places, is_traceable)
    return _checked(draws, places, ratios, (most, PILOT_DRAWS), false_alarm, name)


def compare_score(
    draws: Value, evaluate: Callable[[Value], np.ndarray], name: str
) -> ScoreCheck | None:
    """The same tests for an estimate, which has a compiled log density: fewer moves, little time.

    Args:
        draws: Arrays with leading axes (chain, draw).
        evaluate: The log densities of stacked draws.
        name: The name of the draws.

    Returns:
        The check; `None` if there are too few draws or no real coordinates that vary.
    """
    places, columns = _moving(draws), columns_of(draws)
    num, width = columns[..., 0].size, columns.shape[2]
    most = PER_DRAW * num // (2 * max(places.size, 1))
    numbers = 2 * places.size * width * min(most, num)
    if not places.size or min(most, num) < FEWEST_COMPARED or numbers > MOST_NUMBERS:
        return None
    leaves, structure = jax.tree.flatten(draws)
    cuts = np.cumsum([np.prod(leaf.shape[2:], dtype=int) for leaf in leaves])[:-1]
    unit = np.eye(width)[places]

    def ratios(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        steps = unit * lengths[:, None]
        moved = np.stack([rows[:, None] + steps, rows[:, None] - steps], axis=2)
        everywhere = np.concatenate([rows, moved.reshape(-1, width)])
        parts = [
            part.reshape(-1, *leaf.shape[2:]).astype(leaf.dtype)
            for part, leaf in zip(np.split(everywhere, cuts, axis=1), leaves, strict=True)
        ]
        found = evaluate(jax.tree.unflatten(structure, parts))
        own, others = found[: len(rows)], found[len(rows) :].reshape(moved.shape[:3])
        return np.where(np.isnan(others), -np.inf, others) - own[:, None, None]

    return _checked(draws, places, ratios, (most, FEW_PILOTS), FALSE_ALARM, name)


def _moving(draws: Value) -> np.ndarray:
    """Places of the real coordinates that vary, among the columns of the draws."""
    leaves, columns = jax.tree.leaves(draws), columns_of(draws)
    sizes = [np.prod(leaf.shape[2:], dtype=int) for leaf in leaves]
    real = np.repeat([leaf.dtype.kind == "f" for leaf in leaves], sizes)
    return np.flatnonzero(real & (np.ptp(columns.reshape(-1, real.size), axis=0) > 0))


def _checked(
    draws: Value,
    places: np.ndarray,
    ratios: RatioFunction,
    sizes: tuple[int, int],
    false_alarm: float,
    name: str,
) -> ScoreCheck:
    """The check by moves of at most `sizes[0]` draws, with lengths chosen by `sizes[1]` of them."""
    moves = _find_moves(columns_of(draws), places, ratios, *sizes)
    names = column_names(draws)
    tests = balance_tests(moves, [names[index] for index in places])
    return ScoreCheck(tests, false_alarm, name, smallest_seen(moves, tests, false_alarm))


def balance_tests(moves: Moves, names: Sequence[str]) -> tuple[ScoreTest, ...]:
    """Location and width of every coordinate, and the width of all of them together."""
    location, width = moves.location(), moves.width()
    tests = []
    for index, one in enumerate(names):
        tests.append(_test(one, "location", location[..., index]))
        tests.append(_test(one, "width", width[..., index]))
    if len(names) > 1:
        tests.append(_test(ALL, "width", width.sum(axis=-1), np.sqrt(len(names))))
    return tuple(tests)


def smallest_seen(moves: Moves, tests: Sequence[ScoreTest], false_alarm: float) -> SmallestSeen:
    """The smallest errors of the log density that the tests would find at these draws."""
    level = false_alarm / len(tests) / 2

    def needed(test: ScoreTest) -> float:
        """The change of the mean that a test finds with probability `POWER`."""
        return test.std_error * (special.ndtri(POWER) - special.stdtrit(test.freedom, level))

    overall = needed(tests[-1])
    locations = [needed(test) for test in tests if test.identity == "location"]

    def widened(size: float) -> float:
        return abs(float((moves.width(1 + size) - moves.width()).sum(axis=-1).mean())) / overall

    def tilted(size: float) -> float:
        change = (moves.location(size) - moves.location()).mean(axis=(0, 1))
        return float((np.abs(change) / locations).min())

    return SmallestSeen(1 + _smallest(widened), _smallest(tilted))


def _smallest(change: Callable[[float], float], most: float = 99.0) -> float:
    """The smallest size at which a change that grows with the size is 1; infinite if none."""
    high = 1e-3
    while change(high) < 1:
        high *= 1.5
        if high > most:
            return np.inf
    low = high / 1.5
    for _ in range(8):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if change(middle) < 1 else (low, middle)
    return high


def _find_moves(
    columns: np.ndarray, places: np.ndarray, ratios: RatioFunction, most: int, num_pilots: int
) -> Moves:
    """Log ratios at evenly chosen draws of all chains, `most` of them or a few more."""
    num_chains, num, _ = columns.shape
    chosen = np.arange(num)[:: max(int(np.ceil(num_chains * num / most)), 1)]
    part = columns[:, chosen]
    low, high = np.quantile(part[..., places], [0.16, 0.84], axis=(0, 1))
    sds = part[..., places].std(axis=(0, 1))
    scales = np.where(high > low, 0.5 * (high - low), sds)
    rows = part.reshape(-1, columns.shape[2])
    pilot = rows[np.linspace(0, len(rows) - 1, min(num_pilots, len(rows))).astype(int)]
    lengths, left = np.full(places.size, STEPS[-1]), np.ones(places.size, bool)
    for step in STEPS[:-1]:
        accepted = special.expit(ratios(pilot, step * scales)).mean(axis=(0, 2))
        lengths[left & (accepted >= LEAST_ACCEPTED)] = step
        left &= accepted < LEAST_ACCEPTED
        if not left.any():
            break
    found = ratios(rows, lengths * scales)
    return Moves(found.reshape(num_chains, chosen.size, places.size, 2), lengths)


def _ratio_function(
    draws: Value, log_joint: LogDensity, places: np.ndarray, traced: bool
) -> RatioFunction:
    r"""A function from rows and lengths of moves to $l_\pm$: shape (row, coordinate, 2).

    A log density of NaN at a moved point counts as impossible; at a draw it is an error.
    """
    leaves, structure = jax.tree.flatten(draws)
    cuts = np.cumsum([np.prod(leaf.shape[2:], dtype=int) for leaf in leaves])[:-1]

    def log_density(flat: Any) -> Any:
        library = jnp if traced else np
        parts = [
            library.asarray(part).reshape(leaf.shape[2:]).astype(leaf.dtype)
            for part, leaf in zip(library.split(flat, cuts), leaves, strict=True)
        ]
        return as_log(log_joint(jax.tree.unflatten(structure, parts)))

    unit = np.eye(sum(np.prod(leaf.shape[2:], dtype=int) for leaf in leaves))[places]

    def moved(row: Any, lengths: Any) -> tuple[Any, Any]:
        steps = unit * lengths[:, None]
        return row, jnp.stack([row + steps, row - steps], axis=1)

    def of_row(row: Any, lengths: Any) -> tuple[Any, Any]:
        own, others = moved(row, lengths)
        return log_density(own), jax.vmap(jax.vmap(log_density))(others)

    def ratios(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            if traced:
                at_once = max(AT_ONCE // (2 * places.size), 1)
                mapped = jax.jit(
                    lambda xs, ls: jax.lax.map(lambda x: of_row(x, ls), xs, batch_size=at_once)
                )
                own, others = (np.asarray(part) for part in mapped(rows, lengths))
            else:
                own = np.array([float(log_density(row)) for row in rows])
                steps = unit * lengths[:, None]
                others = np.array(
                    [
                        [[float(log_density(row + s * step)) for s in (1, -1)] for step in steps]
                        for row in rows
                    ]
                )
        if not np.isfinite(own).all():
            raise ValueError(
                f"log_joint is not finite at {int((~np.isfinite(own)).sum())} of {own.size} draws."
            )
        return np.where(np.isnan(others), -np.inf, others) - own[:, None, None]

    return ratios


def _test(coordinate: str, identity: str, terms: np.ndarray, scale: float = 1.0) -> ScoreTest:
    found, mean = mean_variance(list(terms)), float(terms.mean())
    unseen = PSEUDO * (scale * SIZES[identity] / max(found.effective, 1.0)) ** 2
    error = float(np.sqrt(found.variance + unseen))
    known = min(found.freedom, terms.size - 1)
    freedom = max(FREEDOM_SHARE[identity] * known, min(known, LEAST_FREEDOM))
    probability = float(2 * special.stdtr(freedom, -abs(mean) / error))
    return ScoreTest(coordinate, identity, 0.0, mean, error, probability, freedom)
