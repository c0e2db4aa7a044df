"""posteriordb: data and reference draws from a folder of the database.

The database (Magnusson, Torgander, Bürkner, Zhang, Carpenter and Vehtari) holds posteriors with
draws that count as exact. A folder is a copy of its `posterior_database`, or has all files side
by side as `DATA.data.json.zip` and `DATA-MODEL.draws.json.zip`. Callers write the models.
"""

import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Entry", "list_names", "load", "load_data", "load_draws"]

_COORDINATE = re.compile(r"(?P<name>[^\[\]]+)(\[(?P<index>[\d,]+)\])?")


class Entry(NamedTuple):
    """A posterior of the database.

    Attributes:
        name: `DATA-MODEL`.
        data: The data of the model, by name: numbers, and arrays for lists.
        draws: Reference draws by name, arrays (chain, draw, ...) on the scale of the model.

    Example:
        >>> import json, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> chains = [{"mu": [1.1, 0.9, 1.3]}, {"mu": [0.8, 1.2, 1.0]}]
        >>> _ = (folder / "two-mean.draws.json").write_text(json.dumps(chains))
        >>> _ = (folder / "two.data.json").write_text(json.dumps({"y": [0.7, 1.4]}))
        >>> entry = aide.posteriordb.load(folder, "two-mean")
        >>> entry.name, entry.data["y"].shape
        ('two-mean', (2,))
    """

    name: str
    data: dict[str, Any]
    draws: dict[str, np.ndarray]


def load(folder: str | Path, name: str) -> Entry:
    """Data and reference draws of one posterior.

    Args:
        folder: The folder of the files.
        name: `DATA-MODEL`, as in `eight_schools-eight_schools_noncentered`.

    Raises:
        ValueError: If the folder has no such posterior; the names it has are listed.

    Returns:
        Data and reference draws by name.

    Example:
        >>> import json, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> chains = [{"mu": [1.1, 0.9, 1.3]}, {"mu": [0.8, 1.2, 1.0]}]
        >>> _ = (folder / "two-mean.draws.json").write_text(json.dumps(chains))
        >>> _ = (folder / "two.data.json").write_text(json.dumps({"y": [0.7, 1.4]}))
        >>> aide.posteriordb.load(folder, "two-mean").draws["mu"].shape  # chains, draws
        (2, 3)
    """
    return Entry(name, load_data(folder, name), load_draws(folder, name))


def load_draws(folder: str | Path, name: str) -> dict[str, np.ndarray]:
    """Reference draws of one posterior, whose data need not be in the folder.

    Args:
        folder: The folder of the files.
        name: `DATA-MODEL`.

    Raises:
        ValueError: If the folder has no such draws; the names it has are listed.

    Returns:
        Arrays (chain, draw, ...) by name.

    Example:
        >>> import json, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> chains = [{"mu": [1.1, 0.9, 1.3]}, {"mu": [0.8, 1.2, 1.0]}]
        >>> _ = (folder / "two-mean.draws.json").write_text(json.dumps(chains))
        >>> _ = (folder / "two.data.json").write_text(json.dumps({"y": [0.7, 1.4]}))
        >>> aide.posteriordb.load_draws(folder, "two-mean")["mu"].shape  # chains, draws
        (2, 3)
    """
    folder = Path(folder)
    about = _read(folder / "posteriors", name) or {}
    draws_name = about.get("reference_posterior_name") or name
    chains = _first(
        (folder, f"{draws_name}.draws"),
        (folder / "reference_posteriors" / "draws" / "draws", draws_name),
    )
    if chains is None:
        raise _nothing(folder, name, "reference draws")
    return _draws_of(chains)


def load_data(folder: str | Path, name: str) -> dict[str, Any]:
    """Data of one posterior, which may have no reference draws.

    Args:
        folder: The folder of the files.
        name: `DATA-MODEL`.

    Raises:
        ValueError: If the folder has no such data.

    Returns:
        The data of the model, by name: numbers, and arrays for lists.

    Example:
        >>> import json, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> chains = [{"mu": [1.1, 0.9, 1.3]}, {"mu": [0.8, 1.2, 1.0]}]
        >>> _ = (folder / "two-mean.draws.json").write_text(json.dumps(chains))
        >>> _ = (folder / "two.data.json").write_text(json.dumps({"y": [0.7, 1.4]}))
        >>> aide.posteriordb.load_data(folder, "two-mean")["y"].shape
        (2,)
    """
    folder = Path(folder)
    about = _read(folder / "posteriors", name) or {}
    data_name = about.get("data_name", name.partition("-")[0])
    data = _first((folder, f"{data_name}.data"), (folder / "data" / "data", data_name))
    if data is None:
        raise _nothing(folder, name, "data")
    return {key: _as_array(value) for key, value in data.items()}


def _nothing(folder: Path, name: str, lacking: str) -> ValueError:
    return ValueError(
        f"{folder} has no {lacking} of {name!r}; it has reference draws of "
        f"{', '.join(list_names(folder)) or 'nothing'}."
    )


def list_names(folder: str | Path) -> list[str]:
    """The names of posteriors with reference draws.

    Args:
        folder: The folder of the database, or a copy of a part of it.

    Returns:
        Names such as `eight_schools-eight_schools_noncentered`.

    Example:
        >>> import json, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> chains = [{"mu": [1.1, 0.9, 1.3]}, {"mu": [0.8, 1.2, 1.0]}]
        >>> _ = (folder / "two-mean.draws.json").write_text(json.dumps(chains))
        >>> _ = (folder / "two.data.json").write_text(json.dumps({"y": [0.7, 1.4]}))
        >>> aide.posteriordb.list_names(folder)
        ['two-mean']
    """
    folder = Path(folder)
    flat = [path.name.partition(".draws.json")[0] for path in folder.glob("*.draws.json*")]
    inside = (folder / "reference_posteriors" / "draws" / "draws").glob("*.json*")
    return sorted({*flat, *(path.name.partition(".json")[0] for path in inside)})


def _first(*places: tuple[Path, str]) -> Any:
    """The contents of the first file that exists."""
    return next((found for place in places if (found := _read(*place)) is not None), None)


def _read(folder: Path, stem: str) -> Any:
    """The contents of `stem.json`, or of the only file in `stem.json.zip`; `None` without both."""
    plain, zipped = folder / f"{stem}.json", folder / f"{stem}.json.zip"
    if plain.is_file():
        return json.loads(plain.read_text())
    if not zipped.is_file():
        return None
    with zipfile.ZipFile(zipped) as archive:
        [member] = archive.namelist()
        return json.loads(archive.read(member))


def _as_array(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, list) else value


def _draws_of(chains: list[Mapping[str, list[float]]]) -> dict[str, np.ndarray]:
    """Arrays (chain, draw, ...); `theta[2,1]` is entry (1, 0) of `theta`, as Stan counts from 1."""
    places: dict[str, dict[tuple[int, ...], str]] = {}
    for coordinate in chains[0]:
        found = _COORDINATE.fullmatch(coordinate)
        if found is None:
            raise ValueError(f"{coordinate!r} is not the name of a coordinate, such as theta[1].")
        index = found["index"].split(",") if found["index"] else []
        place = tuple(int(number) - 1 for number in index)
        places.setdefault(found["name"], {})[place] = coordinate
    draws = {}
    for name, by_place in places.items():
        shape = tuple(np.max(list(by_place), axis=0).astype(int) + 1) if () not in by_place else ()
        if set(by_place) != set(np.ndindex(*shape)):
            raise ValueError(
                f"entries of {name} are missing: there are {', '.join(by_place.values())}."
            )
        columns = [[chain[by_place[place]] for place in np.ndindex(*shape)] for chain in chains]
        array = np.moveaxis(np.asarray(columns, np.float64), 1, 2)
        draws[name] = array.reshape(*array.shape[:2], *shape)
    return draws
