"""Unadjusted annealing with learned meta-inference, as an inference algorithm."""

import dataclasses
from typing import Any

import equinox as eqx
import numpy as np

from aide._core.algorithm import Label
from aide._core.flat_states import FlatLayout
from aide._core.types import Key, LogProb, Value
from aide.algorithms.annealed_langevin import AnnealedLangevin
from aide.learned.fitting.reverse_fit import ReverseFit
from aide.learned.records.recording import ChainRecorder
from aide.learned.records.transitions import StepRecord, Transitions
from aide.learned.refined import WHEN_UNEVEN, AbstractRefined, meta_key
from aide.smc.policy import AbstractResampler, as_resampler


class RefinedLangevin(AbstractRefined):
    r"""Unadjusted annealing with tight meta-inference. Built by `aide.refine`.

    `regenerate` runs SMC backwards in time over the records of the steps; $\xi$ is its estimate of
    $q(x)$ and $Z = 1$. `simulate` runs the algorithm and then the conditional SMC that retains the
    true path. Momenta, that at the end too, belong to the path and are guessed for every particle.

    Args:
        algorithm: What `aide.annealed_langevin` built.
        fit: What was learned for it.
        num_reverse: $P$, reverse particles.
        resampler: When and how the walk back resamples.
        label: A name for tables.
    """

    algorithm: AnnealedLangevin
    fit: ReverseFit
    num_reverse: int = eqx.field(static=True)
    resampler: AbstractResampler = eqx.field(converter=as_resampler, default=WHEN_UNEVEN)
    label: str = eqx.field(converter=Label, default="")

    def __check_init__(self) -> None:
        num_steps = langevin_transitions(self.algorithm).num_steps
        if num_steps != self.fit.num_steps:
            raise ValueError(
                f"this fit is for {self.fit.num_steps} steps (that which draws a new momentum at "
                f"the end counts), got {num_steps}. Leave fit out to learn one."
            )

    def shrunk(self) -> dict[str, "RefinedLangevin"]:
        """Versions for `aide.check`: few steps and reverse particles show errors best."""
        kept = self.algorithm.few_steps()
        if kept is None:
            return self.few_reverse()
        return self._at_steps(kept).few_reverse(f", {len(kept)} steps")

    def run_with_trace(self, key: Key) -> tuple[Value, tuple[StepRecord, ...]]:
        """Run the algorithm; the trace is the records of its steps."""
        run = ChainRecorder(langevin_transitions(self.algorithm)).record(key)
        return self.algorithm.lower(run.layout.unravel(run.last)), run.trace

    def score_trace(
        self, key: Key, value: Value, trace: tuple[StepRecord, ...], is_own: Any
    ) -> LogProb:
        r"""SMC backwards from $x$: $\log$ of an unbiased estimate of $q(x)$."""
        end, extra = self.algorithm.lift(value)
        layout = FlatLayout(end)
        walk = (langevin_transitions(self.algorithm), layout, layout.flat, trace, is_own)
        return self.backward().estimate_log_density(meta_key(key, is_own), *walk) + extra

    def _at_steps(self, kept: np.ndarray) -> "RefinedLangevin":
        """Some of the steps with their models; that which ends a run with momenta stays."""
        last = [len(self.fit.index) - 1] if self.algorithm.has_momenta else []
        index = np.asarray(self.fit.index)[np.append(kept, last).astype(int)]
        fit = dataclasses.replace(self.fit, index=index)
        return dataclasses.replace(self, algorithm=self.algorithm.at_steps(kept), fit=fit)


def langevin_transitions(algorithm: AnnealedLangevin) -> Transitions:
    """The steps that are to be retraced."""
    return Transitions.of(algorithm.start, algorithm.steps())
