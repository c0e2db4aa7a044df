"""Saving and loading what was learned (equinox serialisation after one line of sizes)."""

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from aide.learned.fit import ReverseFit
from aide.learned.mixture import JointMixture

FORMAT = "aide reverse fit, version 1"


def save_reverse(fit: ReverseFit, path: str | Path) -> None:
    """Write a fit to a file."""
    arrays = _without_scores(fit)
    shapes = [[list(leaf.shape), leaf.dtype.str] for leaf in jax.tree.leaves(arrays)]
    header = {
        "format": FORMAT,
        "num_models": len(fit.models),
        "shapes": shapes,
        "held_out": fit.held_out,
    }
    with open(path, "wb") as file:
        file.write((json.dumps(header) + "\n").encode())
        eqx.tree_serialise_leaves(file, arrays)


def load_reverse(path: str | Path) -> ReverseFit:
    """Read a fit that `ReverseFit.save` wrote."""
    with open(path, "rb") as file:
        try:
            header = json.loads(file.readline())
            if header["format"] != FORMAT:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} does not hold a fit written by ReverseFit.save.") from None
        num_fields = len(JointMixture.__dataclass_fields__)
        blank: Any = np.zeros(())
        models = tuple(JointMixture(*[blank] * num_fields) for _ in range(header["num_models"]))
        skeleton = ReverseFit(models, *[blank] * 4)
        leaves = [np.zeros(shape, dtype) for shape, dtype in header["shapes"]]
        skeleton = jax.tree.unflatten(jax.tree.structure(skeleton), leaves)
        fit = eqx.tree_deserialise_leaves(file, skeleton)
    return ReverseFit(*_fields(fit)[:-1], held_out=header["held_out"])


def _without_scores(fit: ReverseFit) -> ReverseFit:
    return ReverseFit(*_fields(fit)[:-1])


def _fields(fit: ReverseFit) -> list[Any]:
    return [getattr(fit, name) for name in ReverseFit.__dataclass_fields__]
