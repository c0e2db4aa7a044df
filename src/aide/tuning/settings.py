"""Settings of a target: a grid of parameters, or a list; and the algorithm at each setting."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.versions import budget_version, rebuilt
from aide.engine.programs.tracing import users_code_ran
from aide.engine.stage import Sizes

Setting = dict[str, Any]
Family = Callable[..., InferenceAlgorithm] | InferenceAlgorithm
"""A function from parameters to an algorithm, or an algorithm that can be rebuilt with others."""
METAS = ("num_meta_gold", "num_meta_target")
"""Parameters of the estimate that a grid may have besides those of the target."""
BUDGET = "budget_factor"
"""Name of the parameter that multiplies the budget of an algorithm with `with_budget`."""


def settings_of(
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
) -> tuple[Setting, ...]:
    """All combinations of a grid, the last parameter fastest; or the settings of a list."""
    found: list[Setting]
    if isinstance(grid, Mapping):
        names, values = [str(name) for name in grid], [list(each) for each in grid.values()]
        found = [dict(zip(names, each, strict=True)) for each in itertools.product(*values)]
    else:
        found = [dict(setting) for setting in grid]
    if not found or not all(found):
        raise ValueError(
            "settings must be a grid such as {'num_particles': [10, 100]}, or a list of such "
            f"dictionaries with one value each, got {grid!r}."
        )
    if any(set(setting) != set(found[0]) for setting in found):
        raise ValueError("all settings must have the same parameters.")
    return tuple(found)


def build(family: Family, setting: Setting) -> InferenceAlgorithm:
    """The algorithm at a setting: the function's, or the given one with other parameters.

    An algorithm is rebuilt with these fields, or with a multiple of its budget if the only
    parameter is `budget_factor`.
    """
    own = {name: value for name, value in setting.items() if name not in METAS}
    if not isinstance(family, InferenceAlgorithm):
        algorithm = family(**own)
        users_code_ran()
        return algorithm
    if not own:
        return family
    if set(own) == {"budget"}:
        raise ValueError("the parameter budget is called budget_factor now.")
    found = budget_version(family, own[BUDGET]) if set(own) == {BUDGET} else rebuilt(family, **own)
    if found is None:
        raise ValueError(
            f"{describe(family)} cannot be had with {words_of(setting)}: pass a function from "
            "parameters to an algorithm instead."
        )
    return found


def metas_of(setting: Setting, num_meta_gold: int, num_meta_target: int) -> Sizes:
    """M of both algorithms at a setting."""
    return {
        "num_meta_gold": int(setting.get("num_meta_gold", num_meta_gold)),
        "num_meta_target": int(setting.get("num_meta_target", num_meta_target)),
    }


def words_of(setting: Setting) -> str:
    """A setting in words, such as `num_particles=100, step=0.5`."""
    return ", ".join(f"{name}={_short(value)}" for name, value in setting.items())


def particles_of(algorithm: InferenceAlgorithm) -> int | None:
    """The algorithm's own number of particles; `None` if it states none."""
    found = getattr(algorithm, "num_particles", None)
    return found if isinstance(found, int) else None


def axis_of(settings: Sequence[Setting]) -> str | None:
    """The name of the only parameter that varies, if its values are numbers; else `None`."""
    names = [name for name in settings[0] if len({repr(setting[name]) for setting in settings}) > 1]
    if len(names) != 1:
        return None
    values = [setting[names[0]] for setting in settings]
    is_numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return names[0] if is_numeric else None


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 24 else f"{text[:23]}…"
