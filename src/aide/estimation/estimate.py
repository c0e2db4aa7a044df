"""`aide.estimate`: AIDE between a gold standard and one target."""

from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.keywords import keywords
from aide._core.random import as_key
from aide._core.types import Key
from aide.engine.draw import draw
from aide.engine.draws import Draws
from aide.engine.programs.identity import Identity
from aide.engine.programs.tracing import one_call
from aide.engine.runners.choose import identity_of
from aide.engine.stage import Client, RunOptions
from aide.estimation.errors.variables import posterior_of
from aide.estimation.reach import CloserLook
from aide.estimation.summary import Estimate
from aide.estimation.until.goals import Goal, as_goal, limits_of
from aide.estimation.until.until import estimate_until

NUM_META = 1
"""Default number of meta-inference runs per output: the cheapest, M = 1."""


class Audited(Protocol):
    """What an estimate needs to know of an audit (`aide.auditing.Audit`)."""

    @property
    def provenance(self) -> str:
        """The outcome of the audit in a line."""
        ...

    @property
    def doubts(self) -> tuple[str, ...]:
        """Findings of the audit against the algorithm."""
        ...

    @property
    def identity(self) -> Identity:
        """The identity of the audited algorithm."""
        ...


@keywords("aide.estimate")
@one_call()
def estimate(
    key: Key | int,
    gold: InferenceAlgorithm,
    target: InferenceAlgorithm,
    *,
    num_gold: int | None = None,
    num_target: int | None = None,
    num_meta_gold: int | None = None,
    num_meta_target: int | None = None,
    until: float | Goal | None = None,
    max_runs: int | None = None,
    max_seconds: float | None = None,
    audit: Audited | None = None,
    measure_looseness: bool = True,
    keep_values: bool | None = None,
    share: Draws | None = None,
    extend: Draws | None = None,
    first_run: int = 0,
    checkpoint: str | Path | None = None,
    chunk_size: int | None = None,
    progress: bool | None = None,
    executor: Executor | Client | None = None,
    unchanged: bool = False,
) -> Estimate:
    r"""AIDE: an upper bound on $KL(gold \| target) + KL(target \| gold)$, with its error bar.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard, an `InferenceAlgorithm`.
        target: The algorithm being measured; its outputs have the same structure.
        num_gold: Runs of the gold standard; by default 500, or all draws of `aide.ReferenceDraws`
            if these are fewer; with `until`, the runs of the first look.
        num_target: Runs of the target; the same defaults.
        num_meta_gold: Meta-inference runs of the gold standard per output, by default 1. More
            tighten the bound. With `until`, a pilot run chooses the default.
        num_meta_target: Meta-inference runs of the target per output; the same default.
        until: A standard error in nats, or `aide.estimation.Decided(tolerance)`: runs are added
            until the goal is reached, in shares by measured variance and cost. All limits hold
            whenever the call stops.
        max_runs: Runs of both algorithms together that `until` may make, its pilot included;
            by default 100,000.
        max_seconds: Seconds that `until` may take, compiling included; by default no limit.
        audit: What `aide.audit` found about this gold standard, to be stated in the result.
        measure_looseness: Draw one more meta-inference run per output, which measures how loose
            the bound is.
        keep_values: Keep the outputs, which errors of expectations, probes and evidence estimates
            need; by default if they are small.
        share: Draws of the same gold standard with another target, whose gold runs are used again.
        extend: Draws of the same pair and key, to which only what is missing is added.
        first_run: Index of the first run, to spread runs over machines.
        checkpoint: A file (netCDF, or a folder `.zarr`) that keeps finished blocks; a repeated call
            continues from them.
        chunk_size: Runs computed at a time; never changes the numbers beyond rounding.
        progress: Show a progress bar; by default in long runs at a terminal.
        executor: Runs blocks of runs elsewhere: a `concurrent.futures.Executor`, a
            `distributed.Client`, or `aide.engine.Devices`.
        unchanged: State that an algorithm in plain Python is the one that made the stored runs;
            see `aide.draw`.

    Returns:
        The estimate. `value`, `std_error` and `interval()` are in nats; `errors()` has the errors
        of means, standard deviations and intervals; `plot()` draws it.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit)
        >>> low, high = estimate.interval()
        >>> low < 0.25 < high  # a shift by half a standard deviation: 0.25 nats
        True
    """
    if audit is not None:
        _check_audit(audit, gold)
    closer = CloserLook(as_key(key), (gold, target))
    posterior = posterior_of(gold, target)
    how: RunOptions = {
        "measure_looseness": measure_looseness,
        "keep_values": keep_values,
        "chunk_size": chunk_size,
        "progress": progress,
        "executor": executor,
        "unchanged": unchanged,
    }
    if until is not None:
        check_unplanned(
            share=share is not None, extend=extend is not None, first_run=first_run != 0
        )
        found = estimate_until(
            key,
            gold,
            target,
            as_goal(until),
            limits_of(max_runs, max_seconds),
            runs=(num_gold, num_target),
            metas=(num_meta_gold, num_meta_target),
            how=how,
            checkpoint=checkpoint,
        )
        found = replace(found, closer_look=closer, posterior=posterior)
        return found if audit is None else replace(found, draws=_with_audit(found.draws, audit))
    check_unlimited(max_runs, max_seconds)
    draws = draw(
        key,
        gold,
        target,
        num_gold=num_gold,
        num_target=num_target,
        num_meta_gold=NUM_META if num_meta_gold is None else num_meta_gold,
        num_meta_target=NUM_META if num_meta_target is None else num_meta_target,
        share=share,
        extend=extend,
        first_run=first_run,
        checkpoint=checkpoint,
        **how,
    )
    draws = draws if audit is None else _with_audit(draws, audit)
    return Estimate(draws, closer_look=closer, posterior=posterior)


def check_unplanned(**is_given: bool) -> None:
    """Raise for arguments that name runs or M, since `until` plans all runs itself."""
    refused = ", ".join(name for name, given in is_given.items() if given)
    if refused:
        raise ValueError(f"until plans all runs itself: leave out {refused}.")


def check_unlimited(max_runs: int | None, max_seconds: float | None) -> None:
    """Raise for limits without `until`, which they limit."""
    if max_runs is not None or max_seconds is not None:
        raise ValueError("max_runs and max_seconds limit until: give until, or leave them out.")


def _check_audit(audit: Audited, gold: InferenceAlgorithm) -> None:
    """Raise unless the audit is about this gold standard."""
    if not isinstance(getattr(audit, "identity", None), Identity):
        raise TypeError(f"audit= takes what aide.audit(key, gold) returns, got {describe(audit)}.")
    changed = audit.identity.differences(identity_of(gold))
    if changed:
        raise ValueError(
            f"audit= is about another gold standard than {describe(gold)}; these parts differ: "
            f"{changed}. Audit this one: aide.audit(key, gold)."
        )


def _with_audit(draws: Draws, audit: Audited) -> Draws:
    """The draws with the outcome of the audit stated for the gold standard."""
    gold = draws.gold
    told = "; ".join(text for text in (gold.provenance, audit.provenance) if text)
    doubts = (gold.doubts or ()) + audit.doubts
    return replace(draws, gold=replace(gold, provenance=told, doubts=doubts))


def summarise(draws: Draws) -> Estimate:
    """The estimate from draws that `aide.draw` made.

    Args:
        draws: What `aide.draw`, `aide.engine.load` or `aide.engine.concatenate` returned.

    Returns:
        The estimate, as `aide.estimate` returns it.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> draws = aide.draw(0, exact, fit, num_gold=50, num_target=50)
        >>> estimate = aide.summarise(draws)
    """
    return Estimate(draws)
