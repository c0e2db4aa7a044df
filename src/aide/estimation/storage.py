"""Draws as xarray data, and on disk: netCDF or zarr, never pickle."""

import json
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from aide.estimation.draws import Draws, Side

_ROLES = ("gold", "target")


def to_xarray(draws: Draws) -> Any:
    r"""An `xarray.Dataset` with every $\log\xi$ (dims `gold_run`, `target_run`, `*_meta`).

    Own scores have one coordinate more than M: 0 is the trace really used, 1… are `regenerate`.
    """
    import xarray as xr

    data: dict[str, Any] = {}
    for name, other, side in zip(_ROLES, _ROLES[::-1], (draws.gold, draws.target), strict=True):
        run = f"{name}_run"
        data[f"log_xi_{name}_at_{name}"] = ((run, f"{name}_own_trace"), side.own)
        data[f"log_xi_{other}_at_{name}"] = ((run, f"{other}_meta_at_{name}"), side.cross)
        if side.repeats is not None:
            data[f"{name}_repeats"] = ((run,), side.repeats.astype(np.int8))
        leaves, template = _flatten(side.values)
        for index, leaf in enumerate(leaves):
            dims = [run, *(f"{name}_value{index}_dim{axis}" for axis in range(1, leaf.ndim))]
            data[f"{name}_value{index}"] = (dims, leaf)
    template = json.dumps([_flatten(side.values)[1] for side in (draws.gold, draws.target)])
    settings = {
        "num_meta": [draws.num_meta_gold, draws.num_meta_target],
        "names": draws.names,
        "log_z": draws.log_z,
        "key_data": draws.key_data,
        "first_run": draws.first_run,
        "same_algorithm": draws.same_algorithm,
    }
    return xr.Dataset(data, attrs={"aide_settings": json.dumps(settings), "aide_values": template})


def from_xarray(dataset: Any) -> Draws:
    """The inverse of `to_xarray`."""
    settings = json.loads(dataset.attrs["aide_settings"])
    templates = json.loads(dataset.attrs["aide_values"])
    sides = []
    for name, other, template in zip(_ROLES, _ROLES[::-1], templates, strict=True):
        own = np.asarray(dataset[f"log_xi_{name}_at_{name}"])
        cross = np.asarray(dataset[f"log_xi_{other}_at_{name}"])
        values = _fill(template, lambda index, n=name: np.asarray(dataset[f"{n}_value{index}"]))
        marks = dataset.get(f"{name}_repeats")
        sides.append(Side(own, cross, values, None if marks is None else np.asarray(marks) != 0))
    return Draws(
        gold=sides[0],
        target=sides[1],
        num_meta_gold=settings["num_meta"][0],
        num_meta_target=settings["num_meta"][1],
        names=tuple(settings["names"]),
        log_z=tuple(settings["log_z"]),
        key_data=tuple(settings["key_data"]),
        first_run=settings["first_run"],
        same_algorithm=settings.get("same_algorithm", False),
    )


def save_draws(draws: Draws, path: str | Path) -> None:
    """Write a zarr folder if `path` ends in `.zarr`, else a netCDF file, replaced at once."""
    path, dataset = Path(path), to_xarray(draws)
    if path.suffix == ".zarr":
        dataset.to_zarr(path, mode="w", consolidated=False)
        return
    partial = path.with_name(path.name + ".partial")
    dataset.to_netcdf(partial, engine="h5netcdf")
    os.replace(partial, path)


def load_draws(path: str | Path) -> Draws:
    """Read what `save_draws` wrote."""
    import xarray as xr

    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no saved draws at {path}.")
    if path.suffix == ".zarr":
        with xr.open_zarr(path, consolidated=False) as dataset:
            return from_xarray(dataset.load())
    with xr.open_dataset(path, engine="h5netcdf") as dataset:
        return from_xarray(dataset.load())


def check_savable(values: Any) -> None:
    """Raise if outputs of this structure cannot be saved."""
    _encode(jax.tree.map(lambda leaf: 0, values))


def _flatten(values: Any) -> tuple[list[np.ndarray], Any]:
    """Leaves, and the structure as JSON: dicts, lists, tuples, and integers for the leaves."""
    leaves, structure = jax.tree.flatten(values)
    indices = jax.tree.unflatten(structure, range(len(leaves)))
    return [np.asarray(leaf) for leaf in leaves], _encode(indices)


def _encode(tree: Any) -> Any:
    if tree is None or isinstance(tree, int):
        return tree
    if isinstance(tree, dict) and all(isinstance(key, str) for key in tree):
        return {"dict": {key: _encode(value) for key, value in tree.items()}}
    if type(tree) in (list, tuple):
        return {type(tree).__name__: [_encode(item) for item in tree]}
    raise TypeError(
        f"outputs of type {type(tree).__name__} cannot be saved; return arrays in dicts with "
        "string keys, lists or tuples, or drop them with .without_values()."
    )


def _fill(template: Any, leaf: Any) -> Any:
    if template is None:
        return None
    if isinstance(template, int):
        return leaf(template)
    [(kind, items)] = template.items()
    if kind == "dict":
        return {key: _fill(item, leaf) for key, item in items.items()}
    filled = [_fill(item, leaf) for item in items]
    return tuple(filled) if kind == "tuple" else filled
