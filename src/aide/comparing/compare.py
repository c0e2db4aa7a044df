"""Measuring several targets against one gold standard."""

from collections.abc import Mapping
from typing import Any

from aide._core.algorithm import InferenceAlgorithm
from aide._core.types import Key
from aide.comparing.closeness import check_tolerance, judge
from aide.comparing.comparison import Comparison
from aide.draws.draw_many import draw_many
from aide.estimation.summary import Estimate


def compare(
    key: Key,
    gold: InferenceAlgorithm,
    targets: Mapping[str, InferenceAlgorithm],
    *,
    tolerance: float | None = None,
    num_gold: int | None = None,
    num_target: int | None = None,
    num_meta_gold: int = 1,
    num_meta_target: int = 1,
    **options: Any,
) -> Comparison:
    r"""AIDE for several targets; the gold standard is run once.

    Each estimate is, to the bit, what `aide.estimate` gives with the same key and settings.

    Args:
        key: A JAX key.
        gold: The gold standard.
        targets: The algorithms being measured, by name.
        tolerance: Nats that would do. With it, every target gets a verdict at 95%: `within`,
            `too far` or `undecided`; outputs are then kept unless `keep_values=False`, because
            "too far" takes a lower limit (`Estimate.sandwich`).
        num_gold: Runs of the gold standard: 500 unless stated, or all draws of
            `aide.ReferenceDraws` if it has fewer.
        num_target: Runs of every target; the same.
        num_meta_gold: Meta-inference runs of the gold standard per output.
        num_meta_target: Meta-inference runs of every target per output.
        **options: Everything else `aide.draw` takes: `keep_values`, `share`, `chunk_size`,
            `progress`, `looseness`, `first_run`.
    """
    if tolerance is not None:
        check_tolerance(tolerance)
    options = {"keep_values": tolerance is not None, **options}
    drawn = draw_many(
        key,
        gold,
        targets,
        num_gold=num_gold,
        num_target=num_target,
        num_meta_gold=num_meta_gold,
        num_meta_target=num_meta_target,
        **options,
    )
    estimates = {name: Estimate(draws) for name, draws in drawn.items()}
    return compare_estimates(estimates, tolerance)


def compare_estimates(
    estimates: Mapping[str, Estimate], tolerance: float | None = None
) -> Comparison:
    """The table of estimates that are there already, by name, of the same gold standard."""
    judged = {} if tolerance is None else {n: judge(e, tolerance) for n, e in estimates.items()}
    return Comparison(dict(estimates), tolerance, judged)
