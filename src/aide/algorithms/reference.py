"""Reference draws: posterior draws from anywhere, with the log joint, as an algorithm."""

import copy
from typing import Any, ClassVar, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.algorithm import Aside, Draw, Label
from aide._core.chains import Chains, mean_variance, split_rhat
from aide._core.keywords import fields
from aide._core.numerics import as_log
from aide._core.types import Key, LogDensity, LogProb, Value
from aide._core.validate import check_count, check_scalar, is_tracing_error
from aide._core.versions import AbstractAlgorithm, NoSuchVersion
from aide.algorithms.draw_arrays import (
    as_chains,
    check_axes,
    columns_of,
    flat_draws,
    in_order,
    still_words,
)
from aide.algorithms.score_check import FALSE_ALARM, ScoreCheck, check_score
from aide.algorithms.tractable import Tractable
from aide.reporting.numbers import PASSED, p_value

MOST_COLUMNS = 1000
"""Largest number of coordinates, evenly chosen, whose effective sample sizes are computed."""


@fields("aide.ReferenceDraws")
class ReferenceDraws(AbstractAlgorithm):
    r"""A fixed list of posterior draws $x_1, \dots, x_n$, taken as exact, with their density.

    $\log\xi = \log p(x, y)$, the same in both operations; $\log Z = \log p(y)$ is unknown and
    cancels in AIDE. Run $i$ of an estimate takes a fixed draw, no draw is taken twice, and any
    number of runs is spread evenly over all chains. Autocorrelation along the chains enters the
    standard error and the interval; chains that take turns in one list, and copies (rows resampled
    with replacement), are recognised and put in order (`chains.words` says so). That the draws
    are exact is an assumption: an estimate from these draws cannot show regions that the sampler
    missed.

    Args:
        draws: One array or a pytree of arrays whose leading axes are (chain, draw) or (draw,).
        log_joint: $\log p(x, y)$ of one draw, up to a constant: a scalar function on the space of
            the draws (with the Jacobian, if that space was transformed). Written with
            `jax.numpy`, or plain Python, which is then called draw by draw.
        has_chains: Whether the leading axes are (chain, draw); (4, 1000) could mean either.
        label: A name for tables.

    Raises:
        ValueError: If an array has no such axes, axes that differ from the others', or an entry
            that is not finite; if the draws show that the axes are (draw, chain); or
            if `log_joint` does not return one number.

    Example:
        >>> draws = np.random.default_rng(0).normal(size=(4, 250))  # four chains of 250 draws
        >>> gold = aide.ReferenceDraws(draws, lambda x: -0.5 * x**2, has_chains=True)
        >>> fit = aide.Tractable.of(Normal(0.0, 1.2))
        >>> estimate = aide.estimate(0, gold, fit)
        >>> low, high = estimate.interval()
        >>> low < 0.06722 < high  # the divergence of the two normals
        True
    """

    determines_log_xi: ClassVar[bool] = True

    draws: Value
    log_joint: LogDensity
    chains: Chains = eqx.field(static=True)
    is_traceable: bool = eqx.field(static=True)
    label: str = eqx.field(converter=Label)
    checked: Aside

    def __init__(
        self, draws: Value, log_joint: LogDensity, *, has_chains: bool, label: str | None = None
    ):
        arranged, _ = as_chains(draws, has_chains)
        if has_chains:
            check_axes(arranged)
        self.draws, order = in_order(arranged)
        words = "; ".join(part for part in (order, still_words(self.draws)) if part)
        self.log_joint = log_joint
        self.is_traceable = _is_traceable(log_joint, jax.tree.map(lambda a: a[0, 0], self.draws))
        self.chains = _chains_of(self.draws, words)
        self.label = Label(label or f"{self.chains.size} reference draws")
        self.checked = Aside(None)

    @property
    def provenance(self) -> str:
        """Whether the draws were compared with `log_joint`, and what that showed."""
        found: ScoreCheck | None = self.checked.content
        if found is None:
            return NOT_COMPARED
        if found.passed and found.verdict != PASSED:
            return (
                f"log_joint may not fit the draws ({p_value(found.p_value)}): score_check() of the "
                "reference draws shows what speaks against them"
            )
        return f"log_joint {'fits' if found.passed else 'does not fit'} the draws ({_by(found)})"

    @property
    def doubts(self) -> tuple[str, ...] | None:
        """The sentence on a log joint that does not fit the draws; `None` if not compared."""
        found: ScoreCheck | None = self.checked.content
        if found is None:
            return None
        return () if found.passed else (f"its log_joint does not fit its draws ({_by(found)})",)

    @property
    def log_z(self) -> None:
        r"""Unknown: $Z = p(y)$."""
        return

    @property
    def effective_size(self) -> float:
        """Smallest effective sample size of all coordinates."""
        return self.chains.effective

    @property
    def rhat(self) -> float:
        r"""Largest rank-normalised split $\hat R$ of all coordinates."""
        return self.chains.rhat

    def simulate(self, key: Key) -> Draw:
        """One of the draws at random; the runs of an estimate take each of them once instead."""
        place = jax.random.randint(key, (), 0, self.chains.size)
        x = jax.tree.map(lambda a: jnp.asarray(a)[place], flat_draws(self.draws))
        return Draw(x, self.regenerate(key, x))

    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""$\log p(x, y)$; the key is not used."""
        return as_log(self.log_joint(value))

    def scorer(self) -> Tractable:
        """The density with the first draw as its only output, which is compiled to score."""
        first = jax.tree.map(lambda a: a[0, 0], self.draws)
        return Tractable(_Always(first), self.log_joint, None, self.label)

    def take(self, runs: np.ndarray) -> Value:
        """The draws of these runs, stacked."""
        places = self.chains.places(runs)
        return jax.tree.map(lambda a: a[places], flat_draws(self.draws))

    def thinned(self, factor: int | None = None) -> "ReferenceDraws":
        """Every `factor`-th draw of each chain.

        Args:
            factor: 1 keeps all. By default twice as many draws are kept as the effective size,
                which loses little: for an AR(1) chain 7% of the effective size.
        """
        if factor is None:
            factor = max(1, int(self.chains.size / (2 * max(self.effective_size, 1.0))))
        check_count("factor", factor)
        if factor > self.chains.num_draws:
            raise ValueError(
                f"factor must be at most the {self.chains.num_draws} draws per chain, got {factor}."
            )
        return self._part(slice(factor - 1, None, factor), f"every {factor}th of {self.label}")

    def with_caveat(self, words: str) -> "ReferenceDraws":
        """The same draws with a sentence that every result repeats, such as on divergences."""
        made = copy.copy(self)
        told = "; ".join(part for part in (self.chains.words, words) if part)
        object.__setattr__(made, "chains", self.chains._replace(words=told))
        return made

    def halves(self) -> tuple["ReferenceDraws", "ReferenceDraws"]:
        """First and second half of every chain, to be compared by `aide.compare_draws`."""
        half = self.chains.num_draws // 2
        first = self._part(slice(0, half), f"first half of {self.label}")
        return first, self._part(slice(half, None), f"second half of {self.label}")

    def score_check(self, false_alarm: float = FALSE_ALARM) -> ScoreCheck:
        r"""Test whether draws and `log_joint` belong together, by the balance of small moves.

        A sign error, a missing Jacobian, other data or parameters in another order break the
        balance; see `ScoreCheck`, which also says how large an error the check would find. An
        estimate makes the check with fewer moves, unless it was made here before; see `provenance`.

        Args:
            false_alarm: Probability that a right `log_joint` is rejected, over all tests together.
        """
        found = check_score(
            self.draws, self.log_joint, false_alarm, str(self.label), self.is_traceable
        )
        self.checked.content = found
        return found

    def shrunk(self) -> NoReturn:
        """Raise: a list of draws cannot be run."""
        raise NoSuchVersion(
            f"{self.label} cannot be checked by running it: it is a fixed list of draws, taken as "
            "exact. score_check() tests log_joint against the draws."
        )

    def with_budget(self, factor: float) -> NoReturn:
        """Raise: a list of draws cannot be run."""
        raise NoSuchVersion(
            f"{self.label} cannot be audited by running it again: it is a fixed list of draws, "
            "taken as exact. A test can show whether its parts agree: "
            "aide.compare_draws(*gold.halves()), and R-hat between chains "
            f"({self.rhat:.3f}); score_check() tests log_joint against the draws."
        )

    def observe_steps(self, key: Key) -> NoReturn:
        """Raise: the steps of a list of draws are unknown."""
        raise NoSuchVersion(
            f"{self.label} has no steps to look at: it is a fixed list of draws "
            f"({self.chains.num_chains} x {self.chains.num_draws}, effective size "
            f"{self.effective_size:.0f}, R-hat {self.rhat:.3f}). Diagnose the sampler that made it."
        )

    def _part(self, positions: slice, label: str) -> "ReferenceDraws":
        draws = jax.tree.map(lambda a: a[:, positions], self.draws)
        return ReferenceDraws(draws, self.log_joint, has_chains=True, label=label)


NOT_COMPARED = "log_joint was not compared with the draws; their method score_check() does"
"""Stands in a result where no check was made."""


def _by(found: ScoreCheck) -> str:
    """The number of tests of a check and their p-value."""
    return f"score check, {len(found.tests)} tests, {p_value(found.p_value)}"


class _Always(eqx.Module):
    """A sampler that always returns one value."""

    value: Value

    def __call__(self, key: Key) -> Value:
        return self.value


def _chains_of(draws: Value, words: str) -> Chains:
    columns = columns_of(draws)
    if columns.shape[2] > MOST_COLUMNS:
        chosen = np.linspace(0, columns.shape[2] - 1, MOST_COLUMNS).round().astype(int)
        columns = columns[:, :, chosen]
    sizes, rhats = [], []
    for column in np.moveaxis(columns, 2, 0):
        if np.ptp(column) > 0:
            sizes.append(mean_variance(column).effective)
            rhats.append(split_rhat(column))
    known = [rhat for rhat in rhats if not np.isnan(rhat)]
    effective, rhat = min(sizes, default=np.nan), max(known, default=np.nan)
    return Chains(columns.shape[0], columns.shape[1], effective, rhat, words)


def _is_traceable(log_joint: LogDensity, x: Value) -> bool:
    """Whether JAX can trace `log_joint`; raise if it does not return one number."""
    if not callable(log_joint):
        raise TypeError(f"log_joint must be a function of one draw, got {log_joint!r}.")

    def scalar(x: Value) -> Any:
        return check_scalar("log_joint", log_joint(x))

    with jax.enable_x64(True):
        try:
            jax.eval_shape(scalar, x)
        except Exception as error:
            if not is_tracing_error(error):
                raise
            scalar(x)
            return False
    return True
