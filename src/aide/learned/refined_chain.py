"""A Markov chain with learned meta-inference, as an inference algorithm."""

import dataclasses

import equinox as eqx

from aide._core.algorithm import Draw, Label, describe
from aide._core.observation import ObservedSteps
from aide._core.random import derive
from aide._core.types import Key, LogProb, Value
from aide._core.versions import MOST_STEPS
from aide.algorithms.mcmc import MarkovChain, Transition
from aide.kernels.kernel import Repeat
from aide.learned.fitting.reverse_fit import ReverseFit
from aide.learned.records.flat_states import FlatLayout
from aide.learned.records.recording import ChainRecorder
from aide.learned.records.transitions import Transitions
from aide.learned.refined import WHEN_UNEVEN, AbstractRefined, refined_label
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

    def simulate(self, key: Key) -> Draw:
        r"""Run the chain, then conditional SMC around its trace."""
        transitions = transitions_of(self.chain)
        run = ChainRecorder(transitions).record(key)
        # Keys 0 and 1 are those of the run.
        log_xi = self.backward().estimate_log_density(
            derive(key, 2), transitions, run.layout, run.last, run.trace
        )
        return Draw(run.layout.unravel(run.last), log_xi)

    def observe_steps(self, key: Key) -> tuple[ObservedSteps, ...]:
        """What the steps of the chain show; meta-inference changes none of them."""
        return self.chain.observe_steps(key)

    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""SMC backwards from $x$: $\log$ of an unbiased estimate of $q(x)$."""
        layout = FlatLayout(value)
        return self.backward().estimate_log_density(
            key, transitions_of(self.chain), layout, layout.flat, None
        )


def transitions_of(chain: MarkovChain) -> Transitions:
    """The chain's transitions; a kernel repeated n times per step is n steps of that kernel."""
    kernel, num_steps = chain.kernel, chain.num_steps
    while isinstance(kernel, Repeat):
        kernel, num_steps = kernel.kernel, num_steps * kernel.num_times
    unrolled = dataclasses.replace(chain, kernel=kernel, num_steps=num_steps)
    return Transitions.of(chain.initial, unrolled.steps(Transition))
