"""ArviZ in both directions: its draws as reference draws, results as its `DataTree`.

Only xarray is used, so that `InferenceData` (ArviZ 0.x) and `DataTree` (1.x) work alike.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from aide._core.types import Role
from aide._version import __version__
from aide.comparing.comparison import Comparison
from aide.engine.draws import Draws
from aide.estimation.summary import Estimate
from aide.reporting.result import as_data

if TYPE_CHECKING:
    from aide.adapters.posterior import AbstractPosterior

__all__ = ["draws_in", "to_datatree"]

PAIRS = {"role": [role.word for role in Role], "limit": ["lower", "upper"]}
"""Coordinates of pairs of numbers."""


def draws_in(data: Any, group: str = "posterior") -> dict[str, np.ndarray]:
    """Draws by name, with the leading axes (chain, draw).

    Args:
        data: An `InferenceData`, a `DataTree`, or one of their groups.
        group: The group, if there are several.

    Returns:
        Arrays by the name of the variable.

    Example:
        >>> import xarray
        >>> data = xarray.Dataset({"mu": (("chain", "draw"), np.zeros((4, 100)))})
        >>> aide.arviz.draws_in(data)["mu"].shape
        (4, 100)
    """
    groups = _groups_of(data)
    found = _group(data, group, groups) if groups else data
    if not hasattr(found, "data_vars"):
        raise TypeError(
            f"expected an InferenceData, a DataTree or a Dataset, got {type(data).__name__}."
        )
    draws = {}
    for name, array in found.data_vars.items():
        if not {"chain", "draw"} <= set(array.dims):
            raise ValueError(
                f"{name} has the dimensions {', '.join(map(str, array.dims))}; draws have chain "
                "and draw."
            )
        draws[str(name)] = np.asarray(array.transpose("chain", "draw", ...))
    if not draws:
        raise ValueError("the data hold no draws.")
    return draws


def divergences_in(data: Any) -> int:
    """Number of transitions that diverged, by the group `sample_stats`; 0 where nothing is said."""
    if "sample_stats" not in _groups_of(data):
        return 0
    found = getattr(data["sample_stats"], "data_vars", {})
    return int(np.sum(np.asarray(found["diverging"]))) if "diverging" in found else 0


def _groups_of(data: Any) -> list[str]:
    """Names of the groups of an `InferenceData` or of a `DataTree`'s root; of others none."""
    if hasattr(data, "groups") and not hasattr(data, "data_vars"):
        return [str(name).strip("/") for name in data.groups()]
    return list(getattr(data, "children", None) or ())


def _group(data: Any, group: str, names: list[str]) -> Any:
    if group not in names:
        raise ValueError(f"there is no group {group}; there are {', '.join(names)}.")
    return data[group]


def to_datatree(result: Estimate | Comparison, posterior: "AbstractPosterior | None" = None) -> Any:
    r"""A result as an `xarray.DataTree` in ArviZ's conventions.

    An estimate has the groups `estimate` (its numbers) and `log_xi` (every $\log\xi$, dimensions
    `gold_run`, `target_run` and their meta-inference runs); a comparison has `comparison`
    (dimension `target`, with the names as coordinates). If outputs were kept, the groups `gold` and
    `target` (of a comparison: `gold` and `target_<name>`) hold them with dimensions `chain` and
    `draw`, as ArviZ's functions expect.

    Args:
        result: A result of `aide.estimate` or `aide.compare`.
        posterior: Gives the outputs their names and scales; without it they are called `x`.

    Returns:
        The tree.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit, num_gold=50, num_target=50, keep_values=True)
        >>> sorted(aide.arviz.to_datatree(estimate).children)
        ['estimate', 'gold', 'log_xi', 'target']
    """
    import xarray as xr

    attributes = {
        "created_at": datetime.now(UTC).isoformat(),
        "creation_library": "aide",
        "creation_library_version": __version__,
        "sample_dims": ["chain", "draw"],
    }
    groups: dict[str, Any]
    if isinstance(result, Estimate):
        groups = {
            "estimate": xr.Dataset(_named_numbers(result.numbers()), coords=PAIRS),
            "log_xi": result.to_xarray(),
        }
        for role in Role:
            groups |= _outputs(role.word, result.draws, role, posterior)
    else:
        groups = {"comparison": _table(result)}
        first = next(iter(result.values())).draws
        groups |= _outputs("gold", first, Role.GOLD, posterior)
        for name, estimate in result.items():
            groups |= _outputs(f"target_{name}", estimate.draws, Role.TARGET, posterior)
    tree = xr.DataTree.from_dict({name: _storable(group) for name, group in groups.items()})
    tree.attrs.update(attributes)
    for group in tree.children.values():
        group.attrs.update(attributes)
    return tree


def _storable(dataset: Any) -> Any:
    """Convert texts to objects, because zarr has no specification for texts of one length."""
    for name, variable in dataset.variables.items():
        if variable.dtype.kind == "U":
            dataset = dataset.assign({name: variable.astype(object)})
    return dataset


def _named_numbers(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and texts as variables; parts of tables under joined names, nothing for `None`.

    Pairs have the dimension `role` (gold, target), an interval `limit` (lower, upper).
    """
    found: dict[str, Any] = {}
    for name, value in numbers.items():
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            value = value._asdict()
        if isinstance(value, list | tuple):
            if all(np.ndim(one) == 0 and one is not None for one in value):
                found[name] = ("limit" if name == "interval" else "role", np.asarray(value))
                continue
            value = dict(zip(PAIRS["role"], value, strict=True))
        if isinstance(value, Mapping):
            found |= _named_numbers({f"{name}_{part}": inner for part, inner in value.items()})
        elif value is not None:
            found[name] = np.asarray(value)
    return found


def _table(comparison: Comparison) -> Any:
    """A variable per column with an entry; a cell without a number is NaN, as usual in xarray."""
    import xarray as xr

    records = [as_data(record) for record in comparison.records()]
    columns = {}
    for name in records[0]:
        cells = [record[name] for record in records]
        if name != "target" and any(cell is not None for cell in cells):
            columns[name] = ("target", _column(cells))
    dataset = xr.Dataset(columns, coords={"target": list(comparison)})
    facts = {name: fact for name, fact in as_data(comparison.numbers()).items() if fact is not None}
    return dataset.assign_attrs(facts)


def _column(cells: list[Any]) -> np.ndarray:
    numbers = [np.nan if cell is None else cell for cell in cells]
    try:
        return np.array([float(number) for number in numbers])
    except ValueError:  # words
        return np.array(["" if cell is None else str(cell) for cell in cells])


def _outputs(
    name: str, draws: Draws, role: Role, posterior: "AbstractPosterior | None"
) -> dict[str, Any]:
    """The group of one algorithm's outputs; no group if they were not kept."""
    import xarray as xr

    values = draws.side(role).values
    if values is None:
        return {}
    if posterior is not None:
        arrays = posterior.values_of(values)
    else:
        leaves = jax.tree_util.tree_leaves_with_path(values)
        arrays = {_leaf_name(path): np.asarray(leaf) for path, leaf in leaves}
    data = {
        variable: (
            ["chain", "draw", *(f"{variable}_dim_{axis}" for axis in range(array.ndim - 1))],
            array[None],
        )
        for variable, array in arrays.items()
    }
    num = draws.side(role).num_runs
    coordinates = {"chain": [0], "draw": np.arange(num)}
    # A slash in a name would make a path.
    return {name.replace("/", "-"): xr.Dataset(data, coordinates, {"name": draws.side(role).name})}


def _leaf_name(path: Any) -> str:
    parts = [str(getattr(part, "key", getattr(part, "idx", part))) for part in path]
    return ".".join(parts) or "x"
