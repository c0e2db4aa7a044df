"""Draws as xarray data and back, with a checksum over every bit."""

import hashlib
import json
from typing import Any

import jax
import numpy as np

from aide._core.chains import Chains
from aide._core.types import Role
from aide.engine.draws import Draws, Range, Runs, Side
from aide.engine.programs.identity import Identity

_SETTINGS, _VALUES, _CHECKSUM = "aide_settings", "aide_values", "aide_checksum"


def to_xarray(draws: Draws) -> Any:
    r"""An `xarray.Dataset` with every $\log\xi$ (dims `gold_run`, `target_run`, `*_meta`).

    Own scores have one coordinate more than M: 0 is the run's own trace, 1… are `regenerate`.
    """
    return dataset_of(draws, draws.sides)


def dataset_of(header: Draws, sides: tuple[Runs, Runs]) -> Any:
    """The runs of two sides with the settings of `header`, as a dataset."""
    import xarray as xr

    data: dict[str, Any] = {}
    templates = []
    for role, side in zip(Role, sides, strict=True):
        name, other = role.word, role.other.word
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


def runs_in(dataset: Any) -> tuple[Draws, tuple[Runs, Runs]]:
    """Settings and runs of a dataset, checked bit by bit."""
    if not {_SETTINGS, _VALUES, _CHECKSUM} <= set(dataset.attrs):
        raise ValueError("it holds no draws of aide, or those of a version before checksums")
    if _checksum(dataset) != dataset.attrs[_CHECKSUM]:
        raise ValueError("its checksum is wrong: some bits were changed since it was written")
    settings = json.loads(dataset.attrs[_SETTINGS])
    templates = iter(json.loads(dataset.attrs[_VALUES]))
    sides = []
    for role in Role:
        name, other = role.word, role.other.word
        trees = [
            _fill(next(templates), lambda i, n=name, k=kind: np.asarray(dataset[f"{n}_{k}{i}"]))
            for kind in ("value", "first")
        ]
        tables = []
        for by in (name, other):
            tables.append(np.asarray(dataset[f"log_xi_{by}_at_{name}"]))
            check_no_nan(name, tables[-1], np.asarray(dataset[f"num_{by}_at_{name}"]))
        prints = dataset.get(f"{name}_fingerprint")
        prints = None if prints is None else np.asarray(prints)
        sides.append(Runs(tables[0], tables[1], trees[0], trees[1], prints))
    return _header(settings), (sides[0], sides[1])


def draws_of(header: Draws, sides: tuple[Runs, Runs]) -> Draws:
    """All runs, with the meta-inference runs that all of them have."""
    gold, target = (side.part(0, side.num_runs) or side for side in sides)
    draws = header.with_runs(gold, target)
    for role in Role:
        tables = (draws.side(role).own, draws.side(role.other).cross)
        most = min([draws.side(role).num_meta, *(t.shape[1] for t in tables if len(t))])
        draws = draws.with_num_meta(role, most)
    return draws


def check_no_nan(name: str, table: np.ndarray, drawn: np.ndarray) -> None:
    """Raise if one of the first `drawn` scores of a row is NaN."""
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
    """The settings as JSON; facts about both sides are pairs (gold, target)."""
    sides = header.sides
    settings: dict[str, Any] = {
        "num_meta": [side.num_meta for side in sides],
        "names": [side.name for side in sides],
        "log_z": [side.log_z for side in sides],
        "tractable": [side.tractable for side in sides],
        "key_data": header.key_data,
        "first_run": header.first_run,
        "identities": [
            None if side.identity is None else side.identity.to_json() for side in sides
        ],
        "pooled": header.pooled,
    }
    # Rare facts are written only if they exist, as in files of version 0.1.
    if any(side.provenance for side in sides):
        settings["provenance"] = [side.provenance for side in sides]
    if any(side.doubts is not None for side in sides):
        settings["doubts"] = [side.doubts for side in sides]
    if any(side.chains is not None for side in sides):
        settings["chains"] = [side.chains for side in sides]
    return json.dumps(settings)


def _header(settings: dict[str, Any]) -> Draws:
    provenance, chains = settings.get("provenance", ("", "")), settings.get("chains", (None, None))
    doubts = settings.get("doubts", (None, None))
    gold, target = (
        Side(
            np.empty((0, 0)),
            np.empty((0, 0)),
            role=role,
            num_meta=settings["num_meta"][role],
            name=settings["names"][role],
            log_z=settings["log_z"][role],
            tractable=settings["tractable"][role],
            provenance=provenance[role],
            doubts=None if doubts[role] is None else tuple(doubts[role]),
            chains=None if chains[role] is None else Chains(*chains[role]),
            identity=_identity(settings["identities"][role]),
        )
        for role in Role
    )
    # Version 0.1 stored one number of runs, that of the algorithm with more of them.
    pooled = tuple(
        Range(tuple(key), first, nums[0], nums[-1]) for key, first, *nums in settings["pooled"]
    )
    key_data = tuple(settings["key_data"])
    return Draws(gold, target, key_data, settings["first_run"], pooled)


def _identity(one: dict[str, Any] | None) -> Identity | None:
    if one is None:
        return None
    return Identity.from_json(one)


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
