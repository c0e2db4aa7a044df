"""Inference Gym: means and standard deviations that its checkout holds.

The suite reads Python files of a checkout of TensorFlow Probability (folder `spinoffs/
inference_gym`) as data: no code of the checkout is executed. Models are ours, in coordinates
in which latent noise is standard normal; `quantities` computes what the gym publishes.

Source: Sountsov, Radul & contributors (2020), Inference Gym.
"""

import ast
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aide.adapters.numpyro.posterior import posterior
from aide.scorecard.moments import MeanAndSd
from aide.scorecard.suites.gym_models import GYM_MODELS
from aide.scorecard.suites.suite import PublishedCase

SOURCE = "Inference Gym, long Stan runs"
INSIDE = Path("spinoffs") / "inference_gym" / "inference_gym"
"""Where the gym is in a checkout of TensorFlow Probability."""
MEAN, ERROR, SD = "_MEAN", "_MEAN_STANDARD_ERROR", "_STANDARD_DEVIATION"
"""Ends of names in files of ground truth."""
DOWNLOADED = ("german_credit", "radon")
"""Beginnings of names of targets whose data the gym downloads."""


class GymSuite(NamedTuple):
    """The targets of a checkout.

    Attributes:
        folder: The folder `inference_gym` that holds `targets` and `internal`.
    """

    folder: Path

    @staticmethod
    def at(folder: str) -> "GymSuite | None":
        """Return the suite of a checkout of TensorFlow Probability, or of the gym itself."""
        for place in (Path(folder) / INSIDE, Path(folder)):
            if (place / "targets" / "ground_truth").is_dir():
                return GymSuite(place)
        return None

    @property
    def title(self) -> str:
        """The name of the suite."""
        return "Inference Gym"

    def names(self) -> list[str]:
        """Return the names of all files of ground truth."""
        files = (self.folder / "targets" / "ground_truth").glob("*.py")
        return sorted(file.stem for file in files if not file.stem.startswith("_"))

    def refusal(self, name: str) -> str:
        """Return why there is no row: no data in the checkout, or no model of ours."""
        if name.startswith(DOWNLOADED):
            return "Its data are not part of the checkout: the gym downloads them."
        return "" if name in GYM_MODELS else f"There is no NumPyro model of the target {name}."

    def load(self, name: str) -> PublishedCase:
        """Return a target with its means and standard deviations."""
        model = GYM_MODELS[name]
        data = {}
        if model.data:
            data = arrays_of(self.folder / "internal" / "datasets" / f"{model.data}.py")
        truth = arrays_of(self.folder / "targets" / "ground_truth" / f"{name}.py")
        post = posterior(model.model, *model.arguments(data))
        quantities = model.quantities
        return PublishedCase(post, SOURCE, moments_of(truth), quantities=quantities)


def moments_of(truth: dict[str, np.ndarray]) -> dict[str, MeanAndSd]:
    """Return moments by coordinate, such as `locs[3]`; a target of one part is `x[3]`.

    Stored standard deviations have no errors: for n independent draws of a normal law, the error
    of the standard deviation is that of the mean divided by the square root of 2.
    """
    found = {}
    for name in truth:
        if name.endswith(ERROR):
            part = name.removesuffix(ERROR)
            title = part.removeprefix("IDENTITY").removeprefix("_").lower() or "x"
            parts = (truth[part + MEAN], truth[name], truth[part + SD])
            for index in np.ndindex(*parts[0].shape):
                mean, error, sd = (float(each[index]) for each in parts)
                words = ",".join(str(i + 1) for i in index)
                label = f"{title}[{words}]" if index else title
                found[label] = MeanAndSd(mean, error, sd, error / 2**0.5)
    return found


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    """Read `NAME = np.array([...]).reshape(...)` from a Python file; skip everything else."""
    found = {}
    for line in ast.parse(path.read_text()).body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            try:
                found[line.targets[0].id] = np.asarray(_value(line.value))
            except _NotData:
                continue
    return found


class _NotData(Exception):
    """An expression that is not an array of numbers."""


def _value(node: ast.expr) -> Any:
    """Evaluate numbers, lists, `np.nan`, `np.array`, and the methods `reshape` and `astype`."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_value(part) for part in parts]
        case ast.Attribute(attr="nan"):
            return np.nan
        case ast.Call(func=ast.Attribute(attr="array"), args=[inner, *_]):
            return np.array(_value(inner))
        case ast.Call(func=ast.Attribute(value=inner, attr="reshape"), args=[shape]):
            return np.reshape(_value(inner), tuple(_value(shape)))
        case ast.Call(func=ast.Attribute(value=inner, attr="astype")):
            return np.asarray(_value(inner), np.float32)
    raise _NotData
