"""How far a gold standard can be trusted: the sentence above every table with a gold standard."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.types import GOLD
from aide.engine.draws import Side
from aide.engine.plan import facts_of
from aide.estimation.notes import LEAST_EFFECTIVE, MOST_RHAT
from aide.reporting.numbers import FAILED, PASSED, UNDECIDED, Verdict


class Trust(NamedTuple):
    """What is known about a gold standard.

    Attributes:
        outcome: `passed`: its tests found no error; `failed`: a test found one; `undecided`: it was
            not tested, or its density or draws are taken as exact.
        words: A sentence for the head of a table.
        doubts: Findings against the gold standard, in words.
    """

    outcome: Verdict
    words: str
    doubts: tuple[str, ...]


def trust_of(gold: Side, effective: float | None = None) -> Trust:
    """What is known about a gold standard that was run.

    Args:
        gold: Its runs.
        effective: Effective number of the stored draws that were used, if it is stored draws.
    """
    doubts = (gold.doubts or ()) + _chain_doubts(gold)
    if doubts:
        made = "" if gold.chains is None else f" It is {stored_words(gold, effective)}."
        words = f"Gold standard failed: {'; '.join(doubts)}.{made} {_MEANING}"
        return Trust(FAILED, words, doubts)
    if gold.chains is not None:
        return Trust(UNDECIDED, f"Gold standard: {stored_words(gold, effective)}.", ())
    if gold.doubts is not None:
        told = f": {gold.provenance}" if gold.provenance else ""
        return Trust(PASSED, f"Gold standard passed its tests{told}.", ())
    if gold.tractable:
        return Trust(UNDECIDED, "Gold standard: its density is taken as exact.", ())
    told = gold.provenance or "aide.audit(key, gold) compares it with versions of itself"
    return Trust(UNDECIDED, f"Gold standard: not tested ({told}).", ())


def trust_of_algorithm(gold: InferenceAlgorithm) -> Trust:
    """What is known about a gold standard whose runs were not kept."""
    none = np.empty((0, 1))
    return trust_of(Side(none, none, role=GOLD, **facts_of(gold)))


def common_words(trusts: Sequence[Trust]) -> tuple[str, ...]:
    """A sentence about the gold standards of several data sets."""
    if not trusts:
        return ()
    parts = []
    for outcome, words in ((PASSED, "passed"), (FAILED, "failed"), (UNDECIDED, "were not tested")):
        num = sum(one.outcome == outcome for one in trusts)
        parts += [f"{num} {words}"] if num else []
    first = next((one for one in trusts if one.doubts), None)
    more = "" if first is None else f" The first that failed: {'; '.join(first.doubts)}."
    return (f"Gold standards of {len(trusts)} data sets: {', '.join(parts)}.{more}",)


_MEANING = (
    "All numbers here are distances from this gold standard; they do not show how far the "
    "posterior is."
)


def stored_words(side: Side, effective: float | None = None) -> str:
    """Stored draws in words: their number, effective number, R-hat, and what is assumed."""
    chains = side.chains
    if chains is None:
        raise TypeError(f"{side.name} is no list of stored draws.")
    some = {0: "", chains.size: "all "}.get(side.num_runs, f"{side.num_runs:,} of ")
    many = f"{chains.num_chains} chains" if chains.num_chains > 1 else "1 chain"
    worth = chains.effective if effective is None else effective
    rhat = "R-hat unknown" if np.isnan(chains.rhat) else f"R-hat {chains.rhat:.3f}"
    return (
        f"{some}{chains.size:,} reference draws in {many}, worth {worth:.0f} independent ones; "
        f"taken as exact, not audited; {rhat}{f'; {chains.words}' if chains.words else ''}"
        f"{f'; {side.provenance}' if side.provenance else ''}"
    )


def _chain_doubts(gold: Side) -> tuple[str, ...]:
    chains, found = gold.chains, []
    if chains is not None and chains.rhat > MOST_RHAT:
        what = "its chain of stored draws drifts, or is too short to tell"
        if chains.num_chains > 1:
            what = (
                f"its {chains.num_chains} chains of stored draws do not agree with each other, "
                "drift, or are too short to tell"
            )
        found.append(f"{what} (R-hat {chains.rhat:.2f} > {MOST_RHAT})")
    if chains is not None and chains.effective < LEAST_EFFECTIVE:
        found.append(
            f"its {chains.size:,} stored draws are worth only as much as {chains.effective:.0f} "
            "that are independent"
        )
    return tuple(found)
