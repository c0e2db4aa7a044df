"""Bounded functions of outputs, without symmetries, to look at them from several sides."""

import jax
import numpy as np

from aide._core.lazy import special
from aide._core.types import Value

NUM_FEATURES = 3


class ProbeFeatures:
    """Sigmoids of projections of the standardised output, and of its distance from the centre."""

    def __init__(self, values: Value):
        flat = flatten(values)
        self.mean, spread = flat.mean(axis=0), flat.std(axis=0)
        self.scale = np.where(spread > 0, spread, 1.0)
        rng = np.random.default_rng(20170525)
        self.directions = rng.normal(size=(flat.shape[1], NUM_FEATURES))
        self.directions /= np.linalg.norm(self.directions, axis=0)
        self.shifts = rng.normal(size=NUM_FEATURES) / 2

    def __call__(self, values: Value) -> np.ndarray:
        """One row per output, one column per feature, between 0 and 1."""
        standard = (flatten(values) - self.mean) / self.scale
        projections = 2.0 * (standard @ self.directions + self.shifts)
        distance = np.mean(standard**2, axis=1, keepdims=True) / 0.5 - 1.0
        return special.expit(np.concatenate([projections, distance], axis=1))


def flatten(values: Value) -> np.ndarray:
    """Stacked outputs as rows of numbers; infinite ones are cut to the largest float."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(values)]
    rows = np.concatenate([a.reshape(len(a), -1).astype(np.float64) for a in leaves], axis=1)
    return np.clip(rows, -1e150, 1e150)
