"""Gold standards on disk: the numbers from which they are built, and the record of their tests.

A file is a zip archive of NumPy arrays and JSON, without code. It does not hold the log joint and
the start: the caller passes both again, and they must be unchanged.
"""

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

from aide._core.algorithm import Aside
from aide._core.distribution import Distribution, is_distribution
from aide._core.numerics import as_parameter
from aide._core.process import write_atomically
from aide._core.types import LogDensity, Value
from aide.auditing.audit import Widened
from aide.engine.programs.identity import Identity
from aide.engine.runners.choose import identity_of
from aide.gold_standards.annealed import Annealed
from aide.gold_standards.choices import choose_tuner, shape_of
from aide.gold_standards.exploring import WIDER
from aide.gold_standards.pilots.schedule import Recipe
from aide.gold_standards.record import Record
from aide.gold_standards.result import GoldStandard, Making
from aide.gold_standards.starts.tails import Covering, StudentMixture
from aide.kernels.coordinates import ScaledCoordinates
from aide.kernels.kernel import AnyKernel

VERSION = 4
"""Version of the format; files of other versions are refused."""
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)
"""Errors of reading a broken archive, besides `ValueError` and `KeyError`."""
MIXTURE = ("weights", "means", "factors")
"""Arrays of a fitted or covering start."""
NUMBERS = ("temperatures", "settings", "factors")
"""Arrays of a recipe."""
COORDINATES = ("locations", "slopes", "centre")
"""Arrays of the coordinates of a recipe's kernels, if any."""


def save(gold: GoldStandard, path: str | Path) -> None:
    """Write a gold standard to a file."""
    making: Making = gold.making.content
    if not making.recipes:
        raise TypeError(
            f"only gold standards by tempered SMC are saved, not {gold.label}: it is fast to make."
        )
    arrays, facts = dict[str, np.ndarray](), list[dict[str, Any]]()
    for number, one in enumerate(making.recipes):
        for name in NUMBERS:
            arrays[f"{number}.{name}"] = np.asarray(getattr(one.recipe, name))
        arrays |= _coordinates_arrays(f"{number}.", one.recipe.coordinates)
        if isinstance(one.start, Covering):
            arrays |= {f"{number}.cover.{n}": np.asarray(getattr(one.start, n)) for n in MIXTURE}
            arrays |= _coordinates_arrays(f"{number}.cover.", one.start.coordinates)
        facts.append({"num_particles": one.recipe.num_particles, "label": str(one.algorithm.label)})
    first = making.recipes[0].start
    first = first.start if isinstance(first, Covering) else first
    if isinstance(first, Widened):
        for number, leaf in enumerate(jax.tree.leaves(first.centre)):
            arrays[f"centre.{number}"] = np.asarray(leaf)
        first = first.distribution
    if isinstance(first, StudentMixture):
        arrays |= {f"start.{name}": np.asarray(getattr(first, name)) for name in MIXTURE}
    about = {
        "format": "aide gold standard",
        "version": VERSION,
        "recipes": facts,
        "record": making.record.to_json(),
        "identities": [identity_of(one.algorithm).to_json() for one in making.recipes],
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("about.json", json.dumps(about, default=list))
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, array, allow_pickle=False)
            archive.writestr(f"{name}.npy", content.getvalue())
    write_atomically(path, file.getvalue())


def load(
    path: str | Path,
    log_joint: LogDensity,
    start: Distribution | Value,
    *,
    kernel: AnyKernel | None = None,
    num_values: Value | None = None,
) -> GoldStandard:
    """Read a gold standard from a file that `GoldStandard.save` wrote.

    Args:
        path: The file.
        log_joint: The log joint of the gold standard; another one is an error.
        start: The start of the gold standard, or the state about which modes were sought.
        kernel: The kernel of the gold standard, if the caller passed one.
        num_values: The number of values of integers, if the caller passed it.

    Returns:
        The gold standard, which gives the same numbers as the one that was saved.

    Example:
        >>> import tempfile
        >>> prior = Normal(0.0, 3.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * ((x - 1.0) / 0.5) ** 2
        >>> gold = aide.gold_standard(0, log_joint, prior, num_pilots=100, max_looseness=0.3)
        >>> path = f"{tempfile.mkdtemp()}/gold.zip"
        >>> gold.save(path)
        >>> again = aide.gold_standards.load(path, log_joint, prior)
        >>> again.record == gold.record
        True
    """
    about, arrays = _read(Path(path))
    begin = start
    if "start.weights" in arrays:
        if is_distribution(start):
            raise ValueError(
                f"{path} holds a gold standard whose start was fitted about a state: pass that "
                "state, not a distribution."
            )
        like = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), start)
        begin = StudentMixture(**{name: arrays[f"start.{name}"] for name in MIXTURE}, like=like)
    if not is_distribution(begin):
        raise ValueError(f"{path} holds a gold standard from a given start: pass that start.")
    tuner = choose_tuner(jax.random.key(0), log_joint, begin, kernel, num_values)
    starts, found = [begin], list[Annealed]()
    if "centre.0" in arrays:
        tree = jax.tree.structure(shape_of(jax.random.key(0), begin))
        leaves = [as_parameter(arrays[f"centre.{number}"]) for number in range(tree.num_leaves)]
        centre = jax.tree.unflatten(tree, leaves)
        starts = [Widened(begin, centre, factor) for factor in (1.0, WIDER)]
    for number, (one, facts) in enumerate(zip(starts, about["recipes"], strict=False)):
        if f"{number}.cover.means" in arrays:
            mixture = {name: arrays[f"{number}.cover.{name}"] for name in MIXTURE}
            one = Covering(one, **mixture, coordinates=_coordinates(arrays, f"{number}.cover."))
        recipe = _recipe(arrays, number, facts["num_particles"])
        algorithm = recipe.build(one, log_joint, tuner, facts["label"])
        found.append(Annealed(one, recipe, None, algorithm, 0.0))
        changed = Identity.from_json(about["identities"][number]).differences(
            identity_of(algorithm)
        )
        if changed:
            raise ValueError(
                f"{path} holds a gold standard for something else: {changed} changed since it was "
                "made. Make it again with aide.gold_standard, or pass what it was made for."
            )
    rival = found[1].algorithm if len(found) > 1 else None
    making = Making(Record.from_json(about["record"]), rival, tuple(found))
    return GoldStandard(found[0].algorithm, Aside(making))


def _recipe(arrays: dict[str, np.ndarray], number: int, num_particles: int) -> Recipe:
    temperatures, settings, factors = (arrays[f"{number}.{name}"] for name in NUMBERS)
    coordinates = _coordinates(arrays, f"{number}.")
    return Recipe(temperatures, settings, factors, num_particles, coordinates)


def _coordinates_arrays(
    prefix: str, coordinates: ScaledCoordinates | None
) -> dict[str, np.ndarray]:
    if coordinates is None:
        return {}
    return {f"{prefix}{name}": np.asarray(getattr(coordinates, name)) for name in COORDINATES}


def _coordinates(arrays: dict[str, np.ndarray], prefix: str) -> ScaledCoordinates | None:
    if f"{prefix}slopes" not in arrays:
        return None
    return ScaledCoordinates(*(arrays[f"{prefix}{name}"] for name in COORDINATES))


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read("about.json"))
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            files = {name: io.BytesIO(archive.read(name)) for name in names}
            arrays = {
                name.removesuffix(".npy"): np.load(file, allow_pickle=False)
                for name, file in files.items()
            }
    except (*DAMAGED, KeyError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged, or not a gold standard that aide saved: {error}. Make it again."
        ) from error
    if not isinstance(about, dict) or about.get("format") != "aide gold standard":
        raise ValueError(f"{path} is not a gold standard that aide saved.")
    if about.get("version") != VERSION:
        raise ValueError(
            f"{path} was written by another version of aide (format {about.get('version')}, this "
            f"one reads {VERSION}): make it again."
        )
    needed = {f"{place}.{name}" for place in range(len(about["recipes"])) for name in NUMBERS}
    if needed - set(arrays):
        lacking = ", ".join(sorted(needed - set(arrays)))
        raise ValueError(f"{path} is damaged: it lacks {lacking}. Make it again.")
    return about, arrays
