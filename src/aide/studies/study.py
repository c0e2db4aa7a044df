"""A study: a Python file with a gold standard and what is measured against it."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from aide._core.algorithm import InferenceAlgorithm
from aide.checking.load import BadTarget, as_algorithm, load_module, run_users
from aide.experiments.data import BadInput
from aide.reporting.result import Result


class Study(NamedTuple):
    """What a file defines.

    Attributes:
        path: The file.
        module: What importing it made.
        gold: The gold standard.
        targets: Algorithms to measure, by name.
        family: A function from parameters to an algorithm, for `aide tune`, or `None`.
        settings: The grid of its parameters, or `None`.
        cost: What "cheap" means to `aide tune`: a parameter, a function of a setting, or `None`.
        about_gold: How the gold standard was made, in the user's words.
        audit: What an audit of it found, or `None`.
    """

    path: Path
    module: ModuleType
    gold: InferenceAlgorithm
    targets: dict[str, InferenceAlgorithm]
    family: Any
    settings: Any
    cost: Any
    about_gold: str
    audit: Result | None


def load_study(path: str, tuning: bool = False) -> Study:
    """Import the file; `gold` is needed, and `target`, `targets`, or for tuning `settings`.

    Algorithms may be functions without arguments that make them.
    """
    try:
        module = load_module(path)
        gold = as_algorithm("gold", _needed(module, path, "gold"))
        targets = {} if tuning else _targets(module, path)
        family = _needed(module, path, "target") if tuning else None
        settings = _needed(module, path, "settings") if tuning else None
        audit = getattr(module, "audit", None)
        if callable(audit) and not isinstance(audit, Result):
            audit = run_users("calling", "audit()", audit)
    except BadTarget as error:
        raise BadInput(str(error)) from error
    about = getattr(module, "about_gold", "")
    found = audit if isinstance(audit, Result) else None
    cost = getattr(module, "cost", None)
    return Study(Path(path), module, gold, targets, family, settings, cost, str(about), found)


def _needed(module: ModuleType, path: str, name: str) -> Any:
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise BadTarget(f"{path!r} must define {name!r}; it has {', '.join(public) or 'nothing'}.")
    return getattr(module, name)


def _targets(module: ModuleType, path: str) -> dict[str, InferenceAlgorithm]:
    if not hasattr(module, "targets"):
        return {"target": as_algorithm("target", _needed(module, path, "target"))}
    found = module.targets
    if callable(found):
        found = run_users("calling", "targets()", found)
    if not isinstance(found, Mapping) or not found:
        raise BadTarget(f"targets of {path!r} must be a dictionary of algorithms, got {found!r}.")
    return {str(name): as_algorithm(f"targets[{name!r}]", one) for name, one in found.items()}
