"""The front door."""

from dataclasses import replace
from typing import Protocol, Unpack

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.keywords import keywords
from aide._core.random import as_key
from aide._core.types import Key
from aide.engine.draw import draw
from aide.engine.draws import Draws
from aide.engine.options import EstimateOptions, OneTargetOptions
from aide.engine.programs.identity import Identity
from aide.engine.programs.tracing import one_call
from aide.engine.runners.choose import identity_of
from aide.estimation.closer_look import CloserLook
from aide.estimation.errors.variables import posterior_of
from aide.estimation.summary import Estimate
from aide.estimation.until.goals import Goal, as_goal, limits_of
from aide.estimation.until.until import estimate_until

NUM_META = 1


class Audited(Protocol):
    """What an audit says about the algorithm that it looked at."""

    @property
    def provenance(self) -> str:
        """In a line, for the result."""
        ...

    @property
    def doubts(self) -> tuple[str, ...]:
        """What it found against the algorithm."""
        ...

    @property
    def identity(self) -> Identity:
        """Of the algorithm."""
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
    **options: Unpack[EstimateOptions],
) -> Estimate:
    r"""AIDE: an upper bound on $KL(gold \| target) + KL(target \| gold)$, with its error bar.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard, an `InferenceAlgorithm`.
        target: The algorithm being measured; its outputs have the same structure.
        num_gold: Runs of the gold standard: 500 unless stated, or all draws of
            `aide.ReferenceDraws` if it has fewer; with `until`, those of the first look.
        num_target: Runs of the target, likewise.
        num_meta_gold: Meta-inference runs of the gold standard per output, 1 unless stated. More
            tighten the bound. With `until`, a pilot chooses.
        num_meta_target: Meta-inference runs of the target per output, likewise.
        until: A standard error in nats, or `aide.estimation.Decided(tolerance)`: runs are added
            until it is reached, and divided by measured variance and cost. All limits hold
            whenever it stops.
        max_runs: Runs of both algorithms together that `until` may make, its pilot included:
            100,000 unless stated.
        max_seconds: Seconds that `until` may take, compiling included; no limit unless stated.
        audit: What `aide.audit` found about this gold standard, to be stated in the result.
        **options: Everything else `aide.draw` takes: `keep_values`, `share`, `extend`,
            `checkpoint`, `chunk_size`, `progress`, `looseness`, `first_run`, `executor`.
    """
    if audit is not None:
        _check_audit(audit, gold)
    closer = CloserLook(as_key(key), (gold, target))
    posterior = posterior_of(gold, target)
    if until is not None:
        goal, limit = as_goal(until), limits_of(max_runs, max_seconds)
        kept = _without_plans(options)
        runs, metas = (num_gold, num_target), (num_meta_gold, num_meta_target)
        found = estimate_until(key, gold, target, goal, limit, runs=runs, metas=metas, **kept)
        found = replace(found, closer_look=closer, posterior=posterior)
        return found if audit is None else replace(found, draws=_with_audit(found.draws, audit))
    if max_runs is not None or max_seconds is not None:
        raise ValueError("max_runs and max_seconds limit until: give until, or leave them out.")
    draws = draw(
        key,
        gold,
        target,
        num_gold=num_gold,
        num_target=num_target,
        num_meta_gold=NUM_META if num_meta_gold is None else num_meta_gold,
        num_meta_target=NUM_META if num_meta_target is None else num_meta_target,
        **options,
    )
    draws = draws if audit is None else _with_audit(draws, audit)
    return Estimate(draws, closer_look=closer, posterior=posterior)


def _without_plans(options: EstimateOptions) -> OneTargetOptions:
    """The options for `until`, which plans all runs itself."""
    refused = sorted({"share", "extend", "first_run"} & set(options))
    if refused:
        raise ValueError(f"until plans all runs itself: leave out {', '.join(refused)}.")
    kept: OneTargetOptions = options
    return kept


def _check_audit(audit: Audited, gold: InferenceAlgorithm) -> None:
    """Before anything runs: an audit of something else says nothing about this gold standard."""
    if not isinstance(getattr(audit, "identity", None), Identity):
        raise TypeError(f"audit= takes what aide.audit(key, gold) returns, got {describe(audit)}.")
    changed = audit.identity.differences(identity_of(gold))
    if changed:
        raise ValueError(
            f"audit= is about another gold standard than {describe(gold)}; these parts differ: "
            f"{changed}. Audit this one: aide.audit(key, gold)."
        )


def _with_audit(draws: Draws, audit: Audited) -> Draws:
    gold = draws.gold
    told = "; ".join(text for text in (gold.provenance, audit.provenance) if text)
    doubts = (gold.doubts or ()) + audit.doubts
    return replace(draws, gold=replace(gold, provenance=told, doubts=doubts))
