"""Existing AIS or SMC code with a forward and a reverse run, as an inference algorithm."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import ArrayLike

from aide._core.algorithm import Draw, Label
from aide._core.numerics import as_log
from aide._core.types import Key, LogDensity, LogProb, Value
from aide._core.versions import AbstractAlgorithm


class ForwardReverse(AbstractAlgorithm):
    r"""$\log\xi = \log p(x, y) - \log\hat p(y)$ from code that returns evidence estimates.

    Args:
        forward: `forward(key) -> (x, log_evidence)`: an AIS or SMC run, its output and its
            estimate of $\log p(y)$.
        reverse: `reverse(key, x) -> log_evidence`: the same chain run backwards from $x$ (AIS), or
            conditional SMC with $x$ retained.
        log_joint: $\log p(x, y)$.
        label: A name for tables.
    """

    forward: Callable[[Key], tuple[Value, ArrayLike]]
    reverse: Callable[[Key, Value], ArrayLike]
    log_joint: LogDensity
    label: str = eqx.field(converter=Label, default="")

    @property
    def log_z(self) -> float:
        r"""$\log Z = 0$, as for every SMC algorithm."""
        return 0.0

    def simulate(self, key: Key) -> Draw:
        """Run forward."""
        x, log_evidence = self.forward(key)
        return Draw(x, self._log_xi(x, log_evidence))

    def regenerate(self, key: Key, value: Value) -> LogProb:
        """Run in reverse from the given output."""
        return self._log_xi(value, self.reverse(key, value))

    def _log_xi(self, x: Value, log_evidence: ArrayLike) -> LogProb:
        log_joint = as_log(self.log_joint(x))
        log_xi = log_joint - as_log(log_evidence)
        return jnp.where(log_joint == -jnp.inf, -jnp.inf, log_xi)
