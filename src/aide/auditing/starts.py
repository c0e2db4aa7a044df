"""The same algorithm from another start."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.algorithm import describe
from aide._core.distribution import LogDensityOf, check_distribution, log_density_of, sample_from
from aide._core.numerics import as_parameter
from aide._core.types import Key, LogProb, Value
from aide._core.validate import check_positive
from aide.algorithms.annealed import AnnealingStep, Tempered
from aide.algorithms.mcmc import MarkovChain
from aide.smc.moves import Constant, Rejuvenate, Steps
from aide.smc.smc import Smc

NUM_CENTRE = 1000


def with_start(algorithm: Any, start: Any, label: str = "") -> Smc | MarkovChain:
    """A `sir`, `tempered_smc`, `ais` or `mcmc` that starts from another distribution.

    The output's density stays the same; an annealing path leads there from the new start.

    Args:
        algorithm: The algorithm, built by one of these functions.
        start: The new start, with `sample(key)` and a normalised `log_prob(x)`.
        label: A name for tables.
    """
    check_distribution("start", start)
    if isinstance(algorithm, MarkovChain):
        return algorithm.with_start(start, label)
    if not isinstance(algorithm, Smc):
        raise TypeError(
            f"with_start knows the start of sir, tempered_smc, ais and mcmc, not of "
            f"{describe(algorithm)}: build the algorithm with another start yourself."
        )
    log_first = algorithm.log_first
    if isinstance(log_first, Tempered):
        log_first = replace(log_first, log_start=LogDensityOf(start))
    moves = tuple(_move_from(algorithm, move, start) for move in algorithm.moves)
    name = label or f"{describe(algorithm)}, other start"
    return replace(algorithm, initial=start, log_first=log_first, moves=moves, label=name)


def _move_from(algorithm: Smc, move: Any, start: Any) -> Any:
    if isinstance(move, Steps) and isinstance(move.move_at, AnnealingStep):
        step = replace(move.move_at, log_start=LogDensityOf(start))
        return Steps(step, move.inputs, move.num_steps)
    inner = move
    if isinstance(move, Steps) and isinstance(move.move_at, Constant):
        inner = move.move_at.move
    if isinstance(inner, Rejuvenate):
        return move
    raise TypeError(
        f"with_start cannot tell whether the moves of {describe(algorithm)} depend on its start: "
        "build the algorithm with another start yourself."
    )


class Widened(eqx.Module):
    r"""A real-valued distribution stretched about a centre: $x = c + a\,(x_0 - c)$.

    Args:
        distribution: The law of $x_0$.
        centre: $c$, in the structure of the state.
        factor: $a$.
    """

    distribution: Any
    centre: Value
    factor: Any = eqx.field(converter=as_parameter)

    def sample(self, key: Key) -> Value:
        """Draw and stretch."""
        x = sample_from(self.distribution, key)
        return jax.tree.map(lambda a, c: c + self.factor * (a - c), x, self.centre)

    def log_density(self, x: Value) -> LogProb:
        """The density of the stretched draw."""
        back = jax.tree.map(lambda a, c: c + (a - c) / self.factor, x, self.centre)
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(self.centre))
        return log_density_of(self.distribution, back) - size * jnp.log(self.factor)


def widen(key: Key, distribution: Any, factor: float) -> Widened:
    """Stretch a distribution about its mean, which draws estimate."""
    check_distribution("distribution", distribution)
    check_positive("factor", factor)
    with jax.enable_x64(True):
        keys = jax.random.split(key, NUM_CENTRE)
        draws = jax.vmap(lambda k: sample_from(distribution, k))(keys)
        if not all(jnp.issubdtype(a.dtype, jnp.floating) for a in jax.tree.leaves(draws)):
            raise TypeError("only real-valued starts can be widened; this one has discrete parts.")
        centre = jax.tree.map(lambda a: np.asarray(a, np.float64).mean(axis=0), draws)
    return Widened(distribution, jax.tree.map(as_parameter, centre), factor)
