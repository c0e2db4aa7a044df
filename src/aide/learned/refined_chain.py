"""A Markov chain with learned meta-inference, as an inference algorithm."""

import dataclasses
from typing import Any

import equinox as eqx

from aide._core.algorithm import Label, describe
from aide._core.flat_states import FlatLayout
from aide._core.types import Key, LogProb, Value
from aide._core.versions import MOST_STEPS, ObservedSteps
from aide.algorithms.mcmc import MarkovChain, Transition
from aide.kernels.kernel import Repeat
from aide.learned.fitting.reverse_fit import ReverseFit
from aide.learned.records.recording import ChainRecorder
from aide.learned.records.transitions import StepRecord, Transitions
from aide.learned.refined import WHEN_UNEVEN, AbstractRefined, meta_key, refined_label
from aide.smc.policy import AbstractResampler, as_resampler


class RefinedChain(AbstractRefined):
    r"""A Markov chain with tight meta-inference. Built by `aide.refine`.

    The trace is the noise and the branch of every step. `regenerate` runs SMC backwards in time
    over the trace (`aide.learned.walk_back.backward`); $\xi$ is its estimate of $q(x)$ and
    $Z = 1$. `simulate` runs the chain and then the conditional SMC that retains the true trace.

    Args:
        chain: The chain, whose kernel is `Retraceable`, or a `Cycle` or `Repeat` of such kernels.
        fit: What was learned, for this chain or a longer one.
        num_reverse: $P$, reverse particles.
        resampler: When and how the walk back resamples.
        label: A name for tables.
    """

    chain: MarkovChain
    fit: ReverseFit
    num_reverse: int = eqx.field(static=True)
    resampler: AbstractResampler = eqx.field(converter=as_resampler, default=WHEN_UNEVEN)
    label: str = eqx.field(converter=Label, default="")

    def __check_init__(self) -> None:
        num_steps = transitions_of(self.chain).num_steps
        if num_steps > self.fit.num_steps:
            raise ValueError(
                f"this fit serves chains of up to {self.fit.num_steps} steps, got num_steps = "
                f"{num_steps}. Learn a longer one: aide.refine(key, chain) without fit."
            )

    def with_steps(self, num_steps: int, label: str = "") -> "RefinedChain":
        """The same chain and the same fit with fewer steps, up to those the fit was learned for."""
        chain = self.chain.with_steps(num_steps)
        is_plain = self.label in ("", refined_label(self.chain))
        other = refined_label(chain) if is_plain else f"{self.label}, {num_steps} steps"
        return dataclasses.replace(self, chain=chain, label=label or other)

    def with_budget(self, factor: float) -> "RefinedChain | None":
        """The chain with that multiple of its steps, for `aide.audit`; `None` beyond the fit.

        Reverse particles are no budget: they belong to meta-inference, and outputs do not change.
        """
        num_steps = int(self.chain.num_steps * factor)
        longer = transitions_of(self.chain.with_steps(num_steps)).num_steps
        if not num_steps or longer > self.fit.num_steps:
            return None
        return self.with_steps(num_steps, f"{describe(self)}, {num_steps} of its steps")

    def shrunk(self) -> dict[str, "RefinedChain"]:
        """Versions for `aide.check`: few steps and reverse particles show errors best."""
        if self.chain.num_steps > MOST_STEPS:
            return self.with_steps(MOST_STEPS).few_reverse(f", {MOST_STEPS} steps")
        return self.few_reverse()

    def run_with_trace(self, key: Key) -> tuple[Value, tuple[StepRecord, ...]]:
        """Run the chain; the trace is the records of its steps."""
        run = ChainRecorder(transitions_of(self.chain)).record(key)
        return run.layout.unravel(run.last), run.trace

    def score_trace(
        self, key: Key, value: Value, trace: tuple[StepRecord, ...], is_own: Any
    ) -> LogProb:
        r"""SMC backwards from $x$: $\log$ of an unbiased estimate of $q(x)$."""
        layout = FlatLayout(value)
        walk = (transitions_of(self.chain), layout, layout.flat, trace, is_own)
        return self.backward().estimate_log_density(meta_key(key, is_own), *walk)

    def observe_steps(self, key: Key) -> tuple[ObservedSteps, ...]:
        """What the steps of the chain show; meta-inference changes none of them."""
        return self.chain.observe_steps(key)


def transitions_of(chain: MarkovChain) -> Transitions:
    """The chain's transitions; a kernel repeated n times per step is n steps of that kernel."""
    kernel, num_steps = chain.kernel, chain.num_steps
    while isinstance(kernel, Repeat):
        kernel, num_steps = kernel.kernel, num_steps * kernel.num_times
    unrolled = dataclasses.replace(chain, kernel=kernel, num_steps=num_steps)
    return Transitions.of(chain.initial, unrolled.steps(Transition))
