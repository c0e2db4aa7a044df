"""Several targets against one gold standard, whose runs are made once."""

from collections.abc import Mapping
from typing import Any

from aide._core.algorithm import InferenceAlgorithm
from aide._core.identity import identity_of
from aide._core.types import Key
from aide.draws.draw import draw
from aide.draws.draws import Draws
from aide.draws.outputs import check_algorithm


def draw_many(
    key: Key,
    gold: InferenceAlgorithm,
    targets: Mapping[str, InferenceAlgorithm],
    **settings: Any,
) -> dict[str, Draws]:
    """For every target what `aide.draw(key, gold, target, **settings)` gives, to the bit.

    Args:
        key: A JAX key.
        gold: The gold standard.
        targets: What is measured, by name.
        **settings: Those of `aide.draw`, the same for all targets; `extend` and `checkpoint` belong
            to one pair and are refused.
    """
    if not targets:
        raise ValueError("targets must name at least one algorithm, got none.")
    for name in ("extend", "checkpoint"):
        if settings.get(name) is not None:
            raise ValueError(f"{name} belongs to one pair: use aide.draw for each target instead.")
    check_algorithm("gold", gold)
    for name, target in targets.items():
        check_algorithm(f"targets[{name!r}]", target)
    keep_values = settings.pop("keep_values", False)
    shared = settings.pop("share", None)
    can_share = not identity_of(gold).unseen
    found = {}
    for name, target in targets.items():
        drawn = draw(key, gold, target, keep_values=True, share=shared, **settings)
        shared = drawn if can_share else shared
        found[name] = drawn if keep_values else drawn.without_values()
    return found
