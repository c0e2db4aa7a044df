"""AIDE of a chain against its number of steps: when is it close enough?"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from aide._types import LogDensity
from aide._validate import check_count
from aide.algorithms.mcmc import mcmc
from aide.estimation.draw import draw
from aide.estimation.summary import Estimate


class Convergence(NamedTuple):
    """The bound after each number of steps.

    Attributes:
        steps: Numbers of steps, increasing.
        estimates: One `Estimate` each; the gold standard's runs are the same in all.
    """

    steps: tuple[int, ...]
    estimates: tuple[Estimate, ...]

    def steps_within(self, nats: float, level: float = 0.95) -> int | None:
        """The first number of steps from which on every upper confidence limit is below `nats`."""
        limits = [estimate.interval(2 * level - 1)[1] for estimate in self.estimates]
        first = len(limits)
        while first and limits[first - 1] <= nats:
            first -= 1
        return self.steps[first] if first < len(limits) else None

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per number of steps, for tables."""
        rows = []
        for steps, estimate in zip(self.steps, self.estimates, strict=True):
            loose = estimate.looseness.target
            row = {
                "steps": steps,
                "value": estimate.value,
                "std_error": estimate.std_error,
                "looseness": None if loose is None else loose.value,
                "total_variation": estimate.total_variation(),
            }
            rows.append(row)
        return rows

    def __str__(self) -> str:
        lines = ["steps     bound    ±        looseness  total variation"]
        for row in self.rows():
            loose = "" if row["looseness"] is None else f"{row['looseness']:.3f}"
            lines.append(
                f"{row['steps']:<9d} {row['value']:<8.3f} {row['std_error']:<8.3f} {loose:<10} "
                f"{row['total_variation']:.3f}"
            )
        for nats in (1.0, 0.1):
            steps = self.steps_within(nats)
            if steps is not None:
                lines.append(f"From {steps} steps on the chain is within {nats} nats (95%).")
        return "\n".join(lines)

    def plot(self, axes: Any = None) -> Any:
        """Draw bound and looseness against steps; return the figure."""
        import matplotlib.pyplot as plt

        if axes is None:
            _, axes = plt.subplots(figsize=(5.0, 3.4), layout="constrained")
        rows = self.rows()
        value, error = (np.array([row[name] for row in rows]) for name in ("value", "std_error"))
        axes.plot(self.steps, value, "o-", ms=3, label="AIDE: upper bound")
        axes.fill_between(self.steps, value - 2 * error, value + 2 * error, alpha=0.25, lw=0)
        loose = [np.nan if row["looseness"] is None else row["looseness"] for row in rows]
        axes.plot(self.steps, loose, "--", lw=1, label="of which looseness, at most")
        axes.set(xlabel="steps of the chain", ylabel="nats", xscale="log")
        axes.set_yscale("symlog", linthresh=0.1)
        axes.axhline(0.0, color="0.6", lw=0.5)
        axes.legend(frameon=False)
        return axes.figure


def convergence(
    key: Any,
    gold: Any,
    initial: Any,
    log_joint: LogDensity,
    *,
    kernel: Any,
    steps: Sequence[int],
    meta: Any,
    num_reverse: int | None = None,
    num_gold: int = 200,
    num_target: int = 200,
    **options: Any,
) -> Convergence:
    """Measure a chain after several numbers of steps against the same gold standard.

    Args:
        key: A JAX key.
        gold: The gold standard.
        initial: The start distribution.
        log_joint: The log density the chain is meant for, up to a constant.
        kernel: The transition.
        steps: Numbers of steps.
        meta: What `aide.learn_reverse` returned for the longest of them, or "canonical".
        num_reverse: Reverse particles.
        num_gold: Runs of the gold standard.
        num_target: Runs of the chain, per number of steps.
        **options: Anything else `aide.draw` takes, such as `num_meta_target`.
    """
    if not steps:
        raise ValueError("steps must name at least one number of steps, got none.")
    for number in steps:
        check_count("steps", number, 0)
    estimates, share = [], None
    for number in sorted(set(steps)):
        chain = mcmc(
            initial,
            log_joint,
            kernel=kernel,
            num_steps=number,
            meta=meta,
            num_reverse=num_reverse,
        )
        counts = {"num_gold": num_gold, "num_target": num_target}
        share = draw(key, gold, chain, share=share, **counts, **options)
        estimates.append(share.summarise())
    return Convergence(tuple(sorted(set(steps))), tuple(estimates))
