"""Saving and loading what was learned (equinox serialisation after one line of sizes)."""

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from aide.learned.fit import ReverseFit
from aide.learned.mixture import JointMixture
from aide.learned.table import JointTable

FORMAT = "aide reverse fit, version 2"
KINDS = {kind.__name__: kind for kind in (JointMixture, JointTable)}


def save_reverse(fit: ReverseFit, path: str | Path) -> None:
    """Write a fit to a file."""
    header = {
        "format": FORMAT,
        "models": [type(model).__name__ for model in fit.models],
        "shapes": [[list(leaf.shape), leaf.dtype.str] for leaf in jax.tree.leaves(fit)],
        "held_out": dict(fit.held_out),
    }
    with open(path, "wb") as file:
        file.write((json.dumps(header) + "\n").encode())
        eqx.tree_serialise_leaves(file, fit)


def load_reverse(path: str | Path) -> ReverseFit:
    """Read a fit that `ReverseFit.save` wrote."""
    with open(path, "rb") as file:
        try:
            header = json.loads(file.readline())
            if header["format"] != FORMAT:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} does not hold a fit written by ReverseFit.save.") from None
        blank: Any = np.zeros(())
        models = tuple(_blank(KINDS[name], blank) for name in header["models"])
        skeleton = ReverseFit(models, blank, blank, blank, blank, header["held_out"])
        leaves = [np.zeros(shape, dtype) for shape, dtype in header["shapes"]]
        skeleton = jax.tree.unflatten(jax.tree.structure(skeleton), leaves)
        return eqx.tree_deserialise_leaves(file, skeleton)


def _blank(kind: Any, leaf: Any) -> Any:
    return kind(*[leaf] * len(kind.__dataclass_fields__))
