"""Do draws and a log density belong together? By its gradient, without its constant."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.chains import mean_variance
from aide._core.lazy import special
from aide._core.numerics import as_log
from aide._core.types import LogDensity, Value
from aide.algorithms.draw_arrays import column_names, columns_of, flat_draws
from aide.reporting.figures import plot_p_values
from aide.reporting.grid import Grid
from aide.reporting.numbers import p_value
from aide.reporting.result import Result
from aide.reporting.verdict import FAILED, PASSED, UNDECIDED

AT_ONCE = 256
"""Draws whose gradients are computed together."""
MOST_LINES = 8
DOUBTFUL = 0.01
"""P-values below this are worth a look."""
REMEDIES = (
    "Usual causes: a sign, a missing log Jacobian of a transformation, other data or priors than "
    "the sampler's, parameters in another order. Or the density does not vanish at the edge of its "
    "support, where the identities do not hold: transform such parameters to the whole line."
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


@dataclass(frozen=True, repr=False)
class ScoreCheck(Result):
    r"""Whether $E[\partial_i\log p] = 0$ and $E[(x_i - c)\,\partial_i\log p] = -1$ at the draws.

    Both hold, for every $c$, if the draws have the density $p$, it is differentiable, and it
    vanishes (times $x_i$) wherever its support ends; not for an exponential or a uniform
    distribution on its own scale. The second is tested with $c = 0$ and $c = \bar x_i$. Standard
    errors account for autocorrelation; p-values are Student's, for all tests together (Bonferroni).

    Attributes:
        tests: Three per real coordinate.
        false_alarm: Chance that draws and a density that belong together are rejected.
        name: Whose draws.
    """

    tests: tuple[ScoreTest, ...]
    false_alarm: float
    name: str

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
        found = {PASSED: "fits the draws", FAILED: "does not fit the draws"}
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
        titles = ("coordinate", "mean of", "found", "expected", "p-value")
        return Grid(titles, lines, ("",) * len(lines), frozenset(titles[:2]))

    def rows(self) -> list[tuple[str, str]]:
        """What it means."""
        if self.verdict == PASSED:
            text = "A constant factor of the density, and a mode that no draw visited."
            return [("not shown", text)]
        return [("reading", REMEDIES)]

    def numbers(self) -> dict[str, Any]:
        """The p-value, and how often it may be wrong."""
        return {"p_value": self.p_value, "false_alarm": self.false_alarm}

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per test."""
        return [dict(vars(test)) for test in self.tests]

    def draw(self, panels: np.ndarray) -> None:
        """The p-values of the worst tests."""
        names = [f"{test.coordinate}: {test.identity}" for test in self.worst]
        level = self.false_alarm / len(self.tests)
        plot_p_values(panels[0], names, [test.p_value for test in self.worst], level)


def check_score(draws: Value, log_joint: LogDensity, false_alarm: float, name: str) -> ScoreCheck:
    """Test both identities at every real coordinate.

    Args:
        draws: Arrays with leading axes (chain, draw).
        log_joint: A function of one draw that JAX can differentiate.
        false_alarm: Chance that what belongs together is rejected.
        name: Whose draws.
    """
    real = [leaf.dtype.kind == "f" for leaf in jax.tree.leaves(draws)]
    if not any(real):
        raise TypeError("score_check needs real-valued coordinates, and there are none.")
    gradient = _gradients(draws, log_joint)
    shape = jax.tree.leaves(draws)[0].shape[:2]
    score = columns_of(jax.tree.map(lambda g: g.reshape(*shape, *g.shape[1:]), gradient))
    kept = np.repeat(real, [np.prod(leaf.shape[2:], dtype=int) for leaf in jax.tree.leaves(draws)])
    columns, names = columns_of(draws), column_names(draws)
    tests = []
    for index in np.flatnonzero(kept):
        x, s = columns[:, :, index], score[:, :, index]
        if not np.isfinite(s).all():
            raise ValueError(
                f"the gradient of log_joint is not finite at {int((~np.isfinite(s)).sum())} of "
                f"{s.size} draws, in {names[index]}."
            )
        tests.append(_test(names[index], "∂ log p", s, 0.0))
        tests.append(_test(names[index], "x ∂ log p", x * s, -1.0))
        tests.append(_test(names[index], "(x - mean) ∂ log p", (x - x.mean()) * s, -1.0))
    return ScoreCheck(tuple(tests), false_alarm, name)


def _gradients(draws: Value, log_joint: LogDensity) -> Value:
    """At all draws, chain after chain; zero for what is not real."""

    def gradient(x: Value) -> Value:
        found = jax.grad(lambda v: as_log(log_joint(v)), allow_int=True)(x)
        zero = lambda g, v: g if jnp.issubdtype(jnp.result_type(v), jnp.floating) else 0.0 * v
        return jax.tree.map(zero, found, x)

    with jax.enable_x64(True):
        found = jax.jit(lambda xs: jax.lax.map(gradient, xs, batch_size=AT_ONCE))(flat_draws(draws))
        return jax.tree.map(np.asarray, found)


def _test(coordinate: str, identity: str, terms: np.ndarray, expected: float) -> ScoreTest:
    found, mean = mean_variance(list(terms)), float(terms.mean())
    error = float(np.sqrt(found.variance))
    off = abs(mean - expected)
    if error == 0.0:
        probability = 1.0 if off < 1e-9 else 0.0
    else:
        probability = float(2 * special.stdtr(found.freedom, -off / error))
    return ScoreTest(coordinate, identity, expected, mean, error, probability)
