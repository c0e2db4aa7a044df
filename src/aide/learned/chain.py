"""A Markov chain with learned meta-inference, as an inference algorithm."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from aide._core.algorithm import Draw, Label, describe
from aide._core.random import derive_keys
from aide._core.types import Key, LogDensity, LogProb, Value
from aide._core.validate import check_size
from aide.kernels.retrace import parts_of
from aide.learned.backward import Backward
from aide.learned.flat import Layout
from aide.learned.joint import Stored
from aide.learned.transitions import Same, Transitions, run_chain
from aide.smc.policy import AbstractResampler, EssBelow, as_resampler
from aide.smc.resampling import Systematic

MOST_STEPS = 3
"""Steps that a version for `aide.check` keeps."""


class LearnedChain(eqx.Module):
    r"""Start at $x_0 \sim q_0$, make `num_steps` transitions, output the last state.

    The trace is the noise and the branch of every step. `regenerate` runs SMC backwards in time
    over the trace (`aide.learned.backward`); $\xi$ is its estimate of $q(x)$ and $Z = 1$.
    `simulate` runs the chain and then the conditional SMC that retains the true trace.

    Args:
        initial: $q_0$.
        log_density: $\log\gamma$, up to a constant.
        kernel: The transition: `Retraceable`, or a `Cycle` or `Repeat` of such kernels.
        models: For every part of the kernel, the models $J$ stacked over a grid of times.
        index: For every step, which of the stacked models to use.
        num_particles: $P$, reverse particles.
        resampler: When and how the walk back resamples.
        label: A name for tables.
    """

    initial: Any
    log_density: LogDensity
    kernel: Any
    models: tuple[Any, ...]
    index: Stored
    num_particles: int = eqx.field(static=True)
    resampler: AbstractResampler = eqx.field(
        converter=as_resampler, default=EssBelow(0.8, Systematic())
    )
    label: str = eqx.field(converter=Label, default="")

    def __check_init__(self) -> None:
        check_size("num_particles", self.num_particles)
        check_models(self.kernel, self.models)

    @property
    def log_z(self) -> float:
        r"""$\log Z = 0$: $\xi$ is an unbiased estimate of $q(x)$ itself."""
        return 0.0

    def with_reverse(self, num_reverse: int) -> "LearnedChain":
        """The same chain with another number of reverse particles."""
        return dataclasses.replace(self, num_particles=num_reverse)

    def with_budget(self, factor: float) -> "LearnedChain | None":
        """The chain with that multiple of its steps, for `aide.audit`; `None` beyond the fit.

        Reverse particles are no budget: they belong to meta-inference, and outputs do not change.
        """
        num_steps = int(len(self.index) * factor)
        if not 0 < num_steps <= len(self.index):
            return None
        label = f"{describe(self)}, {num_steps} of its steps"
        return dataclasses.replace(self, index=self.index[:num_steps], label=label)

    def shrunk(self) -> dict[str, "LearnedChain"]:
        """Versions for `aide.check`: few steps and reverse particles show errors best."""
        short = dataclasses.replace(self, index=self.index[:MOST_STEPS])
        steps = f", {MOST_STEPS} steps" if len(self.index) > MOST_STEPS else ""
        numbers = [num for num in (1, 2, 3) if num <= self.num_particles]
        return {f"{num} reverse{steps}": short.with_reverse(num) for num in numbers}

    def simulate(self, key: Key) -> Draw:
        r"""Run the chain, then conditional SMC around its trace."""
        key_start, key_chain, key_meta = derive_keys(key, 3)
        transitions = self._transitions()
        layout, x, trace = run_chain(key_start, key_chain, transitions)
        log_xi = self._backward().log_estimate(key_meta, transitions, layout, x, trace)
        return Draw(layout.unravel(x), log_xi)

    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""SMC backwards from $x$: $\log$ of an unbiased estimate of $q(x)$."""
        layout = Layout(value)
        return self._backward().log_estimate(key, self._transitions(), layout, layout.flat, None)

    def _transitions(self) -> Transitions:
        move = Same(self.kernel, self.log_density)
        return Transitions(self.initial, move, None, jnp.shape(self.index)[0])

    def _backward(self) -> Backward:
        return Backward(self.models, self.index, self.num_particles, self.resampler)


def check_models(kernel: Any, models: tuple[Any, ...]) -> None:
    """A fit serves the kernel it was learned for."""
    if len(parts_of(kernel)) != len(models):
        raise ValueError(
            f"the fit has models for {len(models)} kernels, but one transition runs "
            f"{len(parts_of(kernel))}. Learn the reverse of this very kernel."
        )
