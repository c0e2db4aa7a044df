"""The plan of a call that may be interrupted: made once, kept beside its checkpoint."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aide._core.algorithm import InferenceAlgorithm
from aide._core.process import write_atomically
from aide.engine.runners.choose import identity_of
from aide.estimation.until.allocation import Allocation
from aide.estimation.until.goals import Goal


def plan_path(checkpoint: str | Path) -> Path:
    """`runs.nc` has its plan in `runs.nc.plan.json`."""
    path = Path(checkpoint)
    return path.with_name(f"{path.name}.plan.json")


def read_plan(
    path: Path, algorithms: tuple[InferenceAlgorithm, InferenceAlgorithm], goal: Goal, given: Any
) -> Allocation | None:
    """What was planned for this very call; `None` if nothing was.

    A pilot measures time, which is never the same again, so that only the stored plan makes a call
    that goes on end where it would have ended.

    Raises:
        ValueError: It is the plan of another call.
    """
    if not path.exists():
        return None
    try:
        stored = json.loads(path.read_text())
        found, of = as_allocation(stored["plan"]), stored["of"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no plan of aide ({error}): delete it with its runs.") from None
    if of != _described(algorithms, goal, given):
        raise ValueError(
            f"{path} is the plan of another call: its algorithms, until or sizes changed since. "
            "Choose another checkpoint, or delete this one and its plan."
        )
    return found


def as_allocation(data: Mapping[str, Any]) -> Allocation:
    """What `_asdict` and JSON made of one."""
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return Allocation(**fields)


def write_plan(
    path: Path,
    plan: Allocation,
    algorithms: tuple[InferenceAlgorithm, InferenceAlgorithm],
    goal: Goal,
    given: Any,
) -> None:
    """Keep a plan before the first of its runs."""
    data = {"plan": plan._asdict(), "of": _described(algorithms, goal, given)}
    write_atomically(path, (json.dumps(data, indent=1) + "\n").encode())


def _described(
    algorithms: tuple[InferenceAlgorithm, InferenceAlgorithm], goal: Goal, given: Any
) -> Any:
    identities = [identity_of(algorithm).digest for algorithm in algorithms]
    words = [type(goal).__name__, *goal]
    return json.loads(json.dumps({"identities": identities, "until": words, "given": given}))
