"""Do draws and a log density belong together? By small moves, without the density's constant."""

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

MOST_EVALUATIONS, FEWEST_DRAWS = 400_000, 200
"""Log densities that are computed, at most, unless fewer than so many draws would be left."""
MOST_PLAIN = 40_000
"""The same for plain Python."""
AT_ONCE = 4096
"""Log densities that are computed together."""
STEPS = (2.0, 1.0, 0.5, 0.25, 0.1, 0.05, 0.02)
"""Lengths of a move to choose from, in standard deviations of the coordinate."""
LEAST_ACCEPTED = 0.25
"""Moves are as long as possible while this share of them would be accepted."""
PILOT_DRAWS = 100
"""Draws by which the lengths are chosen."""
CLIP = 4.0
"""Nats beyond which a log ratio counts no more: a test of widths is bounded by it."""
PSEUDO, SIZES = 1.0, {"location": 1.0, "width": 2.0}
"""Pseudo-terms, and their size, by which variances are enlarged: events that no draw shows."""
POWER = 0.8
"""Chance to see an error of the size that is stated."""
MOST_LINES = 8
DOUBTFUL = 0.01
"""P-values below this are worth a look."""
ALL = "all coordinates"
REMEDIES = (
    "Usual causes: a sign, a missing log Jacobian of a transformation, other data or priors than "
    "the sampler's, parameters in another order, chains that have not converged."
)


@dataclass(frozen=True)
class ScoreTest:
    """One identity at one coordinate: the mean found, its standard error, and a p-value."""

    coordinate: str
    identity: str
    expected: float
    mean: float
    std_error: float
    p_value: float


class SmallestSeen(NamedTuple):
    """Errors of a log density that are found in 4 of 5 cases.

    Attributes:
        temperature: A factor of the log density, above 1; infinite if none up to 100 would be.
        shift: Standard deviations by which the mean of the worst coordinate is off; likewise.
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
    no draw shows; p-values are Student's, for all tests together (Bonferroni).

    Attributes:
        tests: Two per real coordinate, and one of all of them.
        false_alarm: Chance that draws and a density that belong together are rejected.
        name: Whose draws.
        smallest: What would have been seen; `None` if that is not known.
    """

    tests: tuple[ScoreTest, ...]
    false_alarm: float
    name: str
    smallest: SmallestSeen | None = None

    @property
    def p_value(self) -> float:
        """The smallest, times the number of tests."""
        return min(1.0, len(self.tests) * min(test.p_value for test in self.tests))

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against them."""
        return self.p_value >= self.false_alarm

    @property
    def verdict(self) -> str:
        """`passed`, `failed`, or `undecided` in between: a p-value below 1%."""
        if not self.passed:
            return FAILED
        return PASSED if self.p_value >= DOUBTFUL else UNDECIDED

    @property
    def worst(self) -> tuple[ScoreTest, ...]:
        """Those that speak against it most, first."""
        return tuple(sorted(self.tests, key=lambda test: test.p_value)[:MOST_LINES])

    @property
    def headline(self) -> str:
        """One line."""
        found: dict[str, str] = {PASSED: "fits the draws", FAILED: "does not fit the draws"}
        words = found.get(self.verdict, "may not fit the draws")
        return (
            f"log_joint of {self.name} {words} ({len(self.tests)} tests, {p_value(self.p_value)})"
        )

    def grid(self) -> Grid:
        """The tests that came out worst."""
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
        """What it means."""
        if self.verdict == PASSED:
            text = "A constant factor of the density, and a mode that no draw visited."
            return [*self._power_rows(), ("not shown", text)]
        return [("reading", REMEDIES)]

    def _power_rows(self) -> list[tuple[str, str]]:
        """What a pass is worth."""
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
        """The p-value, how often it may be wrong, and what would have been seen."""
        seen = SmallestSeen(np.nan, np.nan) if self.smallest is None else self.smallest
        return {"p_value": self.p_value, "false_alarm": self.false_alarm, **seen._asdict()}

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per test."""
        return [dict(vars(test)) for test in self.tests]

    def plot_on(self, panels: np.ndarray) -> None:
        """The p-values of the worst tests."""
        names = [f"{test.coordinate}: {test.identity}" for test in self.worst]
        level = self.false_alarm / len(self.tests)
        plot_p_values(panels[0], names, [test.p_value for test in self.worst], level)


class Moves(NamedTuple):
    r"""$l_+$ and $l_-$ of every coordinate at the draws: shape (chain, draw, coordinate, 2)."""

    log_ratios: np.ndarray
    lengths: np.ndarray

    def location(self, tilt: float = 0.0) -> np.ndarray:
        """Terms of every coordinate, if the log density had a slope of `tilt` per sd besides."""
        more = tilt * self.lengths[:, None] * np.array([1.0, -1.0])
        accepted = special.expit(self.log_ratios + more)
        return accepted[..., 0] - accepted[..., 1]

    def width(self, factor: float = 1.0) -> np.ndarray:
        """Terms of every coordinate, if the log density had this factor."""
        ratios = factor * self.log_ratios
        return (special.expit(ratios) * np.clip(ratios, -CLIP, CLIP)).sum(axis=-1)


def check_score(
    draws: Value, log_joint: LogDensity, false_alarm: float, name: str, is_traceable: bool = True
) -> ScoreCheck:
    """Test both identities at every real coordinate.

    Args:
        draws: Arrays with leading axes (chain, draw).
        log_joint: A function of one draw.
        false_alarm: Chance that what belongs together is rejected.
        name: Whose draws.
        is_traceable: Whether JAX can trace `log_joint`.
    """
    leaves = jax.tree.leaves(draws)
    real = [leaf.dtype.kind == "f" for leaf in leaves]
    if not any(real):
        raise TypeError("score_check needs real-valued coordinates, and there are none.")
    kept = np.repeat(real, [np.prod(leaf.shape[2:], dtype=int) for leaf in leaves])
    columns = columns_of(draws)
    places = np.flatnonzero(kept & (np.ptp(columns.reshape(-1, kept.size), axis=0) > 0))
    names = [column_names(draws)[index] for index in places]
    if not names:
        raise ValueError("score_check needs draws that differ, and all of them are one.")
    moves = _find_moves(draws, columns, places, log_joint, is_traceable)
    tests = balance_tests(moves, names)
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
    """By how far the means of the tests change with a wrong log density, at the same draws."""
    needed = -special.ndtri(false_alarm / len(tests) / 2) + special.ndtri(POWER)
    overall = tests[-1].std_error
    locations = [test.std_error for test in tests if test.identity == "location"]

    def widened(size: float) -> float:
        return abs(float((moves.width(1 + size) - moves.width()).sum(axis=-1).mean())) / overall

    def tilted(size: float) -> float:
        change = (moves.location(size) - moves.location()).mean(axis=(0, 1))
        return float((np.abs(change) / locations).min())

    return SmallestSeen(1 + _smallest(widened, needed), _smallest(tilted, needed))


def _smallest(mean: Callable[[float], float], least: float, most: float = 99.0) -> float:
    """The smallest size at which a mean that grows with it reaches `least`; infinite if none."""
    high = 1e-3
    while mean(high) < least:
        high *= 1.5
        if high > most:
            return np.inf
    low = high / 1.5
    for _ in range(8):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if mean(middle) < least else (low, middle)
    return high


def _find_moves(
    draws: Value, columns: np.ndarray, places: np.ndarray, log_joint: LogDensity, traced: bool
) -> Moves:
    """Log ratios at as many draws as the budget allows, in chains, evenly chosen."""
    num_chains, num, _ = columns.shape
    budget = MOST_EVALUATIONS if traced else MOST_PLAIN
    most = max(budget // (2 * places.size), FEWEST_DRAWS)
    chosen = np.arange(num)[:: max(int(np.ceil(num_chains * num / most)), 1)]
    part = columns[:, chosen]
    low, high = np.quantile(part[..., places], [0.16, 0.84], axis=(0, 1))
    sds = part[..., places].std(axis=(0, 1))
    scales = np.where(high > low, 0.5 * (high - low), sds)
    ratios = _ratio_function(draws, log_joint, places, traced)
    rows = part.reshape(-1, columns.shape[2])
    pilot = rows[np.linspace(0, len(rows) - 1, min(PILOT_DRAWS, len(rows))).astype(int)]
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
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    r"""From rows and lengths of moves to $l_\pm$: shape (row, coordinate, 2).

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
    probability = float(2 * special.stdtr(min(found.freedom, terms.size - 1), -abs(mean) / error))
    return ScoreTest(coordinate, identity, 0.0, mean, error, probability)
