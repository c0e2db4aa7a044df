"""Algorithms with learned meta-inference: their base class; chains and unadjusted annealing."""

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from aide._core.algorithm import Draw, Label, describe
from aide._core.numerics import FlatLayout
from aide._core.random import derive
from aide._core.types import Key, LogProb, Value
from aide._core.validate import check_size, refuse_unresolved
from aide._core.versions import FEW_STEPS, ObservedSteps
from aide.algorithms.annealed_langevin import AnnealedLangevin
from aide.algorithms.mcmc import MarkovChain, Transition
from aide.kernels.kernel import Repeat
from aide.learned.backward import Backward
from aide.learned.fitting.reverse_fit import ReverseFit
from aide.learned.records.recorders import ChainRecorder
from aide.learned.records.transitions import StepRecord, Transitions
from aide.smc.policy import AbstractResampler, EssBelow, as_resampler
from aide.smc.resampling import Systematic

WHEN_UNEVEN = EssBelow(0.8, Systematic())
"""Default of `resampler`: systematic, below an effective share of 80% of the reverse particles."""
FEW_REVERSE = (1, 2, 3)
"""Numbers of reverse particles of versions for `aide.check`, in which errors show best."""


class AbstractRefined(eqx.Module):
    r"""An algorithm whose `regenerate` runs SMC backwards in time with $P$ reverse particles.

    Its fields are, among others, `fit`, `num_reverse` and `resampler`. Run and score are separate
    programs (`aide._core.algorithm.ScoredApart`): the walk back is nearly all of the work.
    """

    @abstractmethod
    def run_with_trace(self, key: Key) -> tuple[Value, Any]:
        """Run the algorithm; return its output, and the trace that the walk back retains."""

    @abstractmethod
    def score_trace(self, key: Key, value: Value, trace: Any, is_own: Bool[Array, ""]) -> LogProb:
        r"""$\log\xi$ of a walk back that retains the trace where `is_own`, else of a free one."""

    def simulate(self, key: Key) -> Draw:
        """Run the algorithm, then walk back, retaining its trace."""
        value, trace = self.run_with_trace(key)
        return Draw(value, self.score_trace(key, value, trace, jnp.asarray(True)))

    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""Walk back from $x$."""
        _, shapes = eqx.filter_eval_shape(self.run_with_trace, key)
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return self.score_trace(key, value, blank, jnp.asarray(False))

    def __check_init__(self: Any) -> None:
        check_size("num_reverse", self.num_reverse)

    def __repr__(self: Any) -> str:
        """The algorithm's name and the size of its meta-inference, on one line."""
        size = f"meta-inference by {self.num_reverse:,} reverse particles"
        return f"{type(self).__name__}: {describe(self)}, {size}"

    @property
    def log_z(self) -> float:
        r"""$\log Z = 0$: $\xi$ is an unbiased estimate of $q(x)$ itself."""
        return 0.0

    def with_reverse(self, num_reverse: int) -> Self:
        """The same algorithm with another number of reverse particles."""
        refined: Any = self
        return dataclasses.replace(refined, num_reverse=num_reverse)

    def few_reverse(self: Any, words: str = "") -> dict[str, Any]:
        """Versions for `aide.check` with few reverse particles, in which errors show best."""
        numbers = [num for num in FEW_REVERSE if num <= self.num_reverse]
        return {f"{num} reverse{words}": self.with_reverse(num) for num in numbers}

    def backward(self: Any) -> Backward:
        """The walk back."""
        return Backward(self.fit.models, self.fit.index, self.num_reverse, self.resampler)


def meta_key(key: Key, is_own: Bool[Array, ""]) -> Key:
    """The key of a walk back; a run uses keys 0 and 1 derived from its key."""
    return jnp.where(is_own, derive(key, 2), key)


def refined_label(algorithm: Any) -> str:
    """The default name of a refined algorithm."""
    return f"{describe(algorithm)}, refined"


class RefinedChain(AbstractRefined):
    r"""A Markov chain with tight meta-inference. Built by `aide.refine`.

    The trace is the noise and the branch of every step. `regenerate` runs SMC backwards in time
    over the trace (`aide.learned.backward`); $\xi$ is its estimate of $q(x)$ and
    $Z = 1$. `simulate` runs the chain and then the conditional SMC that retains the true trace.

    Args:
        chain: The chain, whose kernel is `Retraceable`, or a `Cycle` or `Repeat` of such kernels.
        fit: The fit, for this chain or a longer one.
        num_reverse: $P$, reverse particles.
        resampler: When and how the walk back resamples.
        label: A name for tables.
        length: Number of the first transitions that are made, as a number that programs take as an
            argument; see `sharing_programs`.

    Example:
        >>> start, posterior = Normal(0.0, 3.0), Normal(1.0, 0.5)
        >>> kernel = aide.kernels.RandomWalk(0.9)
        >>> chain = aide.mcmc(start, posterior.log_prob, kernel=kernel, num_steps=8)
        >>> refined = aide.refine(0, chain, num_pilots=300, num_reverse=30)
        >>> isinstance(refined, aide.learned.RefinedChain)
        True
        >>> refined.with_steps(4).chain.num_steps  # the same fit serves shorter chains
        4
    """

    chain: MarkovChain
    fit: ReverseFit
    num_reverse: int = eqx.field(static=True)
    resampler: AbstractResampler = eqx.field(converter=as_resampler, default=WHEN_UNEVEN)
    label: str = eqx.field(converter=Label, default="")
    length: np.uint32 | Array | None = None

    def __check_init__(self) -> None:
        num_steps = transitions_of(self.chain).num_steps
        if num_steps > self.fit.num_steps:
            raise ValueError(
                f"this fit serves chains of up to {self.fit.num_steps} steps, got num_steps = "
                f"{num_steps}. Learn a longer one: aide.refine(key, chain) without fit."
            )

    def with_steps(self, num_steps: int, label: str = "") -> "RefinedChain":
        """The same chain and fit with fewer steps, at most those of the fit."""
        chain = self.chain.with_steps(num_steps)
        is_plain = self.label in ("", refined_label(self.chain))
        other = refined_label(chain) if is_plain else f"{self.label}, {num_steps} steps"
        return dataclasses.replace(self, chain=chain, label=label or other)

    def sharing_programs(self, steps: Sequence[int]) -> "list[RefinedChain]":
        """Chains with these numbers of steps, all of which but 0 use the same compiled programs.

        The programs are those of the largest number, and steps beyond a chain's own are skipped.
        The numbers are those of `with_steps`, up to rounding.
        """
        longest = self.with_steps(max(steps))
        times = transitions_of(longest.chain).num_steps // max(longest.chain.num_steps, 1)
        found = []
        for number in steps:
            one = self.with_steps(number)
            length = np.uint32(number * times)
            shared = dataclasses.replace(longest, label=one.label, length=length)
            found.append(shared if number else one)
        return found

    def with_budget(self, factor: float) -> "RefinedChain | None":
        """The chain with `factor` times its steps, for `aide.audit`; `None` beyond the fit.

        Reverse particles are no budget: they serve meta-inference, and do not change outputs.
        """
        num_steps = int(self.chain.num_steps * factor)
        longer = transitions_of(self.chain.with_steps(num_steps)).num_steps
        if not num_steps or longer > self.fit.num_steps:
            return None
        return self.with_steps(num_steps, f"{describe(self)}, {num_steps} of its steps")

    def shrunk(self) -> dict[str, "RefinedChain"]:
        """Versions for `aide.check` with few steps and reverse particles."""
        if self.chain.num_steps > FEW_STEPS:
            return self.with_steps(FEW_STEPS).few_reverse(f", {FEW_STEPS} steps")
        return self.few_reverse()

    def run_with_trace(self, key: Key) -> tuple[Value, tuple[StepRecord, ...]]:
        """Run the chain; the trace consists of the records of its steps."""
        run = ChainRecorder(self._transitions()).record(key)
        return run.layout.unravel(run.last), run.trace

    def score_trace(
        self, key: Key, value: Value, trace: tuple[StepRecord, ...], is_own: Bool[Array, ""]
    ) -> LogProb:
        r"""SMC backwards from $x$: $\log$ of an unbiased estimate of $q(x)$."""
        layout = FlatLayout(value)
        walk = (self._transitions(), layout, layout.flat, trace, is_own)
        log_xi = self.backward().estimate_log_density(meta_key(key, is_own), *walk)
        return refuse_unresolved(log_xi, jnp.where(is_own, self.chain.log_joint(value), 0.0))

    def observe_steps(self, key: Key) -> tuple[ObservedSteps, ...]:
        """Diagnostics of the steps of the chain, which meta-inference does not change."""
        return self.chain.observe_steps(key)

    def _transitions(self) -> Transitions:
        """The transitions that are made."""
        return dataclasses.replace(transitions_of(self.chain), length=self.length)


def transitions_of(chain: MarkovChain) -> Transitions:
    """The chain's transitions; a kernel repeated n times per step is n steps of that kernel."""
    kernel, num_steps = chain.kernel, chain.num_steps
    while isinstance(kernel, Repeat):
        kernel, num_steps = kernel.kernel, num_steps * kernel.num_times
    unrolled = dataclasses.replace(chain, kernel=kernel, num_steps=num_steps)
    return Transitions.of(chain.start, unrolled.steps(Transition))


class RefinedLangevin(AbstractRefined):
    r"""Unadjusted annealing with tight meta-inference. Built by `aide.refine`.

    `regenerate` runs SMC backwards in time over the records of the steps; $\xi$ is its estimate of
    $q(x)$ and $Z = 1$. `simulate` runs the algorithm and then the conditional SMC that retains the
    true path. Momenta, also the last, belong to the path and are guessed for every particle.

    Args:
        algorithm: An algorithm built by `aide.annealed_langevin`.
        fit: The fit for this algorithm.
        num_reverse: $P$, reverse particles.
        resampler: When and how the walk back resamples.
        label: A name for tables.

    Example:
        >>> start, posterior = Normal(0.0, 3.0), Normal(1.0, 0.5)
        >>> kernel = aide.kernels.Ula(0.2)
        >>> sampler = aide.annealed_langevin(start, posterior.log_prob, kernel=kernel, num_steps=6)
        >>> refined = aide.refine(0, sampler, num_pilots=300, num_reverse=30)
        >>> isinstance(refined, aide.learned.RefinedLangevin), refined.fit.num_steps
        (True, 6)
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
        """Versions for `aide.check` with few steps and reverse particles."""
        kept = self.algorithm.few_steps()
        if kept is None:
            return self.few_reverse()
        return self._at_steps(kept).few_reverse(f", {len(kept)} steps")

    def run_with_trace(self, key: Key) -> tuple[Value, tuple[StepRecord, ...]]:
        """Run the algorithm; the trace consists of the records of its steps."""
        run = ChainRecorder(langevin_transitions(self.algorithm)).record(key)
        return self.algorithm.lower(run.layout.unravel(run.last)), run.trace

    def score_trace(
        self, key: Key, value: Value, trace: tuple[StepRecord, ...], is_own: Bool[Array, ""]
    ) -> LogProb:
        r"""SMC backwards from $x$: $\log$ of an unbiased estimate of $q(x)$."""
        end, extra = self.algorithm.lift(value)
        layout = FlatLayout(end)
        walk = (langevin_transitions(self.algorithm), layout, layout.flat, trace, is_own)
        return self.backward().estimate_log_density(meta_key(key, is_own), *walk) + extra

    def _at_steps(self, kept: np.ndarray) -> "RefinedLangevin":
        """Some of the steps with their models; the step that draws a last momentum stays."""
        last = [len(self.fit.index) - 1] if self.algorithm.has_momenta else []
        index = np.asarray(self.fit.index)[np.append(kept, last).astype(int)]
        fit = dataclasses.replace(self.fit, index=index)
        return dataclasses.replace(self, algorithm=self.algorithm.at_steps(kept), fit=fit)


def langevin_transitions(algorithm: AnnealedLangevin) -> Transitions:
    """The steps that are to be retraced."""
    return Transitions.of(algorithm.state_start, algorithm.steps())
