"""Draws as xarray data and back, with a checksum over every bit."""

import hashlib
import json
from dataclasses import asdict, replace
from typing import Any

import jax
import numpy as np

from aide._core.identity import Identity
from aide.draws.draws import Draws, Range, Side
from aide.draws.storage.kept import Kept

_ROLES = ("gold", "target")
_SETTINGS, _VALUES, _CHECKSUM = "aide_settings", "aide_values", "aide_checksum"


def to_xarray(draws: Draws) -> Any:
    r"""An `xarray.Dataset` with every $\log\xi$ (dims `gold_run`, `target_run`, `*_meta`).

    Own scores have one coordinate more than M: 0 is the trace really used, 1… are `regenerate`.
    """
    return dataset_of(draws, (Kept.of(draws.gold), Kept.of(draws.target)))


def dataset_of(header: Draws, sides: tuple[Kept, Kept]) -> Any:
    """The runs of two sides under the settings of `header`."""
    import xarray as xr

    data: dict[str, Any] = {}
    templates = []
    for name, other, side in zip(_ROLES, _ROLES[::-1], sides, strict=True):
        run = f"{name}_run"
        data[f"log_xi_{name}_at_{name}"] = ((run, f"{name}_own_trace"), side.own)
        data[f"log_xi_{other}_at_{name}"] = ((run, f"{other}_meta_at_{name}"), side.cross)
        data[f"num_{name}_at_{name}"] = ((run,), side.num_own.astype(np.int64))
        data[f"num_{other}_at_{name}"] = ((run,), side.num_cross.astype(np.int64))
        if side.fingerprints is not None:
            data[f"{name}_fingerprint"] = ((f"{name}_fingerprint_run",), side.fingerprints)
        first = side.first if _is_savable(side.first) else None
        for kind, tree, axes in (("value", side.values, 1), ("first", first, 0)):
            leaves, template = _flatten(tree)
            templates.append(template)
            for index, leaf in enumerate(leaves):
                rows = [f"{name}_{kind}_run"][:axes]
                dims = [f"{name}_{kind}{index}_dim{axis}" for axis in range(axes, leaf.ndim)]
                data[f"{name}_{kind}{index}"] = ([*rows, *dims], leaf)
    dataset = xr.Dataset(data, attrs={_SETTINGS: _settings(header), _VALUES: json.dumps(templates)})
    return dataset.assign_attrs({_CHECKSUM: _checksum(dataset)})


def kept_in(dataset: Any) -> tuple[Draws, tuple[Kept, Kept]]:
    """Settings and runs of a dataset, checked bit by bit."""
    if not {_SETTINGS, _VALUES, _CHECKSUM} <= set(dataset.attrs):
        raise ValueError("it holds no draws of aide, or those of a version before checksums")
    if _checksum(dataset) != dataset.attrs[_CHECKSUM]:
        raise ValueError("its checksum is wrong: some bits were changed since it was written")
    settings = json.loads(dataset.attrs[_SETTINGS])
    templates = iter(json.loads(dataset.attrs[_VALUES]))
    sides = []
    for name, other in zip(_ROLES, _ROLES[::-1], strict=True):
        trees = [
            _fill(next(templates), lambda i, n=name, k=kind: np.asarray(dataset[f"{n}_{k}{i}"]))
            for kind in ("value", "first")
        ]
        names = [f"log_xi_{name}_at_{name}", f"log_xi_{other}_at_{name}"]
        names += [f"num_{name}_at_{name}", f"num_{other}_at_{name}"]
        prints = dataset.get(f"{name}_fingerprint")
        prints = None if prints is None else np.asarray(prints)
        tables = [np.asarray(dataset[n]) for n in names]
        sides.append(Kept(*tables, values=trees[0], first=trees[1], fingerprints=prints))
        check_no_nan(name, sides[-1])
    return _header(settings), (sides[0], sides[1])


def draws_of(header: Draws, sides: tuple[Kept, Kept]) -> Draws:
    """All runs, with the meta-runs that all of them have."""
    whole = [side.side(0, side.num_runs) or Side(side.own, side.cross) for side in sides]
    gold, target = whole
    columns = {
        "num_meta_gold": (gold.own, target.cross),
        "num_meta_target": (target.own, gold.cross),
    }
    metas = {
        name: min([getattr(header, name), *(table.shape[1] for table in tables if len(table))])
        for name, tables in columns.items()
    }
    return replace(header, gold=gold, target=target, **metas)


def check_no_nan(name: str, side: Kept) -> None:
    """Raise if a score that counts is NaN."""
    for table, drawn in ((side.own, side.num_own), (side.cross, side.num_cross)):
        if np.isnan(table[np.arange(table.shape[1]) < drawn[:, None]]).any():
            raise ValueError(f"a log xi at the {name} outputs is nan, which no run returns")


def check_savable(values: Any) -> None:
    """Raise if outputs of this structure cannot be saved."""
    _encode(jax.tree.map(lambda leaf: 0, values))


def _is_savable(values: Any) -> bool:
    try:
        check_savable(values)
    except TypeError:
        return False
    return True


def _settings(header: Draws) -> str:
    identities = [None if one is None else asdict(one) for one in header.identities]
    settings = {
        "num_meta": [header.num_meta_gold, header.num_meta_target],
        "names": header.names,
        "log_z": header.log_z,
        "tractable": header.tractable,
        "key_data": header.key_data,
        "first_run": header.first_run,
        "identities": identities,
        "pooled": header.pooled,
    }
    return json.dumps(settings)


def _header(settings: dict[str, Any]) -> Draws:
    none = Side(np.empty((0, 0)), np.empty((0, 0)))
    identities = [
        None
        if one is None
        else Identity(one["kind"], one["digest"], one["facts"], tuple(one["unseen"]))
        for one in settings["identities"]
    ]
    pooled = tuple(Range(tuple(key), first, num) for key, first, num in settings["pooled"])
    return Draws(
        gold=none,
        target=none,
        num_meta_gold=settings["num_meta"][0],
        num_meta_target=settings["num_meta"][1],
        names=tuple(settings["names"]),
        log_z=tuple(settings["log_z"]),
        tractable=tuple(settings["tractable"]),
        key_data=tuple(settings["key_data"]),
        first_run=settings["first_run"],
        identities=(identities[0], identities[1]),
        pooled=pooled,
    )


def _checksum(dataset: Any) -> str:
    """A digest of every name, shape, number and setting."""
    digest = hashlib.sha256()
    for name in sorted(map(str, dataset.variables)):
        array = np.ascontiguousarray(dataset[name])
        kind = "bool" if array.dtype == bool else array.dtype.newbyteorder("<").str
        digest.update(f"{name} {kind} {array.shape} {dataset[name].dims}".encode())
        digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    for name in (_SETTINGS, _VALUES):
        digest.update(str(dataset.attrs[name]).encode())
    return digest.hexdigest()


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
