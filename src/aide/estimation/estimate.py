"""The front door."""

from dataclasses import replace
from typing import Any, Protocol

from aide._core.algorithm import InferenceAlgorithm
from aide._core.identity import Identity
from aide._core.types import Key
from aide.draws.draw import draw
from aide.draws.draws import Draws
from aide.estimation.summary import Estimate


class Audited(Protocol):
    """What an audit says about the algorithm that it looked at."""

    @property
    def provenance(self) -> str:
        """In a line, for the result."""
        ...

    @property
    def identity(self) -> Identity:
        """Of the algorithm."""
        ...


def estimate(
    key: Key,
    gold: InferenceAlgorithm,
    target: InferenceAlgorithm,
    *,
    num_gold: int | None = None,
    num_target: int | None = None,
    num_meta_gold: int = 1,
    num_meta_target: int = 1,
    audit: Audited | None = None,
    **options: Any,
) -> Estimate:
    r"""AIDE: an upper bound on $KL(gold \| target) + KL(target \| gold)$, with its error bar.

    Args:
        key: A JAX key.
        gold: The gold standard, an `InferenceAlgorithm`.
        target: The algorithm being measured; its outputs have the same structure.
        num_gold: Runs of the gold standard: 500 unless stated, or all draws of
            `aide.ReferenceDraws` if it has fewer.
        num_target: Runs of the target; the same.
        num_meta_gold: Meta-inference runs of the gold standard per output. More tighten the bound.
        num_meta_target: Meta-inference runs of the target per output. More tighten the bound.
        audit: What `aide.audit` found about this gold standard, to be stated in the result.
        **options: Everything else `aide.draw` takes: `keep_values`, `share`, `extend`,
            `checkpoint`, `chunk_size`, `progress`, `looseness`, `first_run`, `executor`.
    """
    draws = draw(
        key,
        gold,
        target,
        num_gold=num_gold,
        num_target=num_target,
        num_meta_gold=num_meta_gold,
        num_meta_target=num_meta_target,
        **options,
    )
    return Estimate(draws if audit is None else _with_audit(draws, audit))


def _with_audit(draws: Draws, audit: Audited) -> Draws:
    gold = draws.gold
    changed = "" if gold.identity is None else audit.identity.differences(gold.identity)
    if changed:
        raise ValueError(
            f"audit= is about another gold standard than {gold.name}: {changed} differ. Audit this "
            "one: aide.audit(key, gold)."
        )
    told = "; ".join(text for text in (gold.provenance, audit.provenance) if text)
    return replace(draws, gold=replace(gold, provenance=told))
