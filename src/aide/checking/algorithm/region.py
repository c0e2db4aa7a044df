"""A region of outputs with an exactly known distribution, and bounded functions of outputs.

**The region** is used by laws 1 and 5. It is fitted to pilot outputs: discrete parts take a
frequent configuration, with its frequency; continuous parts are uniform on an ellipsoid that
holds three quarters of the pilot outputs of that configuration. Since this distribution is bounded
and has compact support, the ratios of both laws vary little.

**The functions** (`ProbeFeatures`) lie between 0 and 1 and have no symmetries, so that they see
outputs from several sides.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import PyTreeDef
from jaxtyping import Array, Float

from aide._core.numerics import flat_rows, special
from aide._core.random import derive_keys, draw_index, standard_normal
from aide._core.types import Key, LogProb, Value

MOST_DIMENSIONS = 50
"""Largest number of continuous dimensions; in more, an ellipsoid holds nothing typical."""
MIN_PILOTS = 20
"""Least number of pilot outputs per continuous dimension for an ellipsoid."""
MOST_REPEATED = 0.01
"""Largest share of outputs with a real number that occurs again, for numbers with a density."""
MOST_CONFIGURATIONS = 256
"""Largest number of configurations of the discrete parts; the most frequent ones are taken."""
FEW_VALUES = 0.05
"""Different values per output up to which floating-point numbers count as discrete."""
MIN_SEEN = 20
"""Least number of pilot outputs of a configuration."""
INSIDE_SHARE = 0.75
"""Share of a configuration's pilot outputs inside its ellipsoid: a choice."""
MIN_MASS = 0.02
"""Smallest share of the outputs that the configurations of the region must hold."""
NUM_FEATURES = 3
"""Number of projections among the functions, beside the distance from the centre."""
LARGEST = 1e150
"""Size to which infinite numbers of an output are cut, so that their squares are finite."""


class OutputLayout(eqx.Module):
    """Takes an output apart into continuous and discrete numbers, and puts it together."""

    tree: PyTreeDef = eqx.field(static=True)
    leaves: tuple[tuple[tuple[int, ...], str, bool], ...] = eqx.field(static=True)
    """Shape, dtype and whether it is continuous, of every leaf."""

    @staticmethod
    def of(values: Value) -> "OutputLayout":
        """The layout of stacked outputs: floating-point leaves of many values are continuous."""
        leaves, tree = jax.tree.flatten(values)
        kinds = [a.dtype.kind == "f" and np.unique(a).size > FEW_VALUES * len(a) for a in leaves]
        facts = zip(leaves, kinds, strict=True)
        return OutputLayout(tree, tuple((a.shape[1:], str(a.dtype), kind) for a, kind in facts))

    def real_numbers(self, values: Value) -> np.ndarray:
        """The continuous numbers of stacked outputs, one row each."""
        return self.split_all(values)[0]

    def split_all(self, values: Value) -> tuple[np.ndarray, np.ndarray]:
        """The continuous and the discrete numbers of stacked outputs, one row each."""
        rows = [np.asarray(leaf) for leaf in jax.tree.leaves(values)]
        parts: dict[bool, list[np.ndarray]] = {True: [], False: []}
        for leaf, (_, _, is_real) in zip(rows, self.leaves, strict=True):
            parts[is_real].append(leaf.reshape(len(leaf), -1).astype(np.float64))
        none = np.zeros((len(rows[0]), 0))
        return np.hstack([none, *parts[True]]), np.hstack([none, *parts[False]])

    def split(self, value: Value) -> tuple[Array, Array]:
        """The continuous and the discrete numbers of one output."""
        parts: dict[bool, list[Array]] = {True: [jnp.zeros(0)], False: [jnp.zeros(0)]}
        for leaf, (_, _, is_real) in zip(jax.tree.leaves(value), self.leaves, strict=True):
            parts[is_real].append(jnp.ravel(leaf).astype(float))
        return jnp.concatenate(parts[True]), jnp.concatenate(parts[False])

    def join(self, real: Array, rest: Array) -> Value:
        """The output made of these numbers."""
        leaves, begins = [], {True: 0, False: 0}
        for shape, dtype, is_real in self.leaves:
            end = begins[is_real] + math.prod(shape)
            numbers = (real if is_real else rest)[begins[is_real] : end]
            leaves.append(numbers.reshape(shape).astype(dtype))
            begins[is_real] = end
        return jax.tree.unflatten(self.tree, leaves)


class TypicalRegion(eqx.Module):
    """The distribution on the region, as an algorithm with a known density for `aide.draw`."""

    layout: OutputLayout
    configurations: Float[np.ndarray, "num discrete"]
    probabilities: Float[np.ndarray, " num"]
    centres: Float[np.ndarray, "num real"]
    factor: Float[np.ndarray, "real real"]
    inverse: Float[np.ndarray, "real real"]
    log_volume: float

    @property
    def log_z(self) -> float:
        """0, for a normalised density."""
        return 0.0

    @property
    def label(self) -> str:
        """A name for progress bars."""
        return "region of typical outputs"

    def simulate(self, key: Key) -> tuple[Value, LogProb]:
        """Sample an output and its log density."""
        x = self.sample(key)
        return x, self.log_density(x)

    def regenerate(self, key: Key, value: Value) -> LogProb:
        """The log density; the key is not used."""
        return self.log_density(value)

    def sample(self, key: Key) -> Value:
        """Draw a configuration by its frequency, and a uniform point of its ellipsoid."""
        key_which, key_point = derive_keys(key, 2)
        which = draw_index(key_which, jnp.asarray(self.probabilities))
        size = self.centres.shape[1]
        # d coordinates of a uniform point on the sphere in d + 2 dimensions fill the ball evenly.
        sphere = standard_normal(key_point, (size + 2,))
        ball = sphere[:size] / jnp.sqrt(jnp.sum(sphere**2))
        real = jnp.asarray(self.centres)[which] + jnp.asarray(self.factor) @ ball
        return self.layout.join(real, jnp.asarray(self.configurations)[which])

    def log_density(self, x: Value) -> LogProb:
        """The log density; minus infinity outside the region."""
        real, rest = self.layout.split(x)
        same = jnp.all(jnp.asarray(self.configurations) == rest, axis=1)
        offsets = (real - jnp.asarray(self.centres)) @ jnp.asarray(self.inverse).T
        inside = same & (jnp.sum(offsets**2, axis=1) <= 1.0)
        mass = jnp.sum(jnp.where(inside, jnp.asarray(self.probabilities), 0.0))
        return jnp.log(mass) - self.log_volume


def repeated(real: np.ndarray) -> np.ndarray:
    """Whether any of a row's real numbers repeats in the same column, and has no density."""
    found = np.zeros(len(real), bool)
    for column in real.T:
        _, which, counts = np.unique(column, return_inverse=True, return_counts=True)
        found |= counts[which.reshape(-1)] > 1
    return found


def fit_region(values: Value) -> TypicalRegion | str:
    """Fit to stacked pilot outputs; return the reason in words if that is impossible."""
    values = jax.tree.map(np.asarray, values)
    layout = OutputLayout.of(values)
    real, rest = layout.split_all(values)
    num = len(real)
    if not np.isfinite(real).all():
        return "outputs contain infinite numbers"
    size = real.shape[1]
    if size > MOST_DIMENSIONS:
        return f"outputs have {size} continuous dimensions, more than {MOST_DIMENSIONS}"
    if num < MIN_PILOTS * size:
        return f"{num} pilot runs are too few for {size} continuous dimensions: raise num_runs"
    if repeated(real).mean() > MOST_REPEATED:
        return "real numbers of the output repeat: they have no density there"
    rows, which, counts = np.unique(rest, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:MOST_CONFIGURATIONS]
    order = order[counts[order] >= max(MIN_SEEN, size + 2)]
    if counts[order].sum() < MIN_MASS * num:
        return "hardly any discrete configuration of the output comes twice"
    which = which.reshape(-1)
    centres = np.stack([real[which == row].mean(axis=0) for row in order])
    factor, log_volume = np.zeros((size, size)), 0.0
    if size:
        offsets = np.concatenate(
            [real[which == r] - c for r, c in zip(order, centres, strict=True)]
        )
        covariance = offsets.T @ offsets / len(offsets)
        if np.linalg.cond(covariance) > 1e10:
            return "continuous outputs lie on a subspace: they have no density"
        factor = np.linalg.cholesky(covariance)
        squared = np.sum(np.linalg.solve(factor, offsets.T) ** 2, axis=0)
        factor = factor * np.sqrt(np.quantile(squared, INSIDE_SHARE))
        log_ball = 0.5 * size * math.log(math.pi) - math.lgamma(0.5 * size + 1)
        log_volume = log_ball + float(np.log(np.diag(factor)).sum())
    inverse = np.linalg.inv(factor) if size else factor
    shares = counts[order] / counts[order].sum()
    return TypicalRegion(layout, rows[order], shares, centres, factor, inverse, log_volume)


class ProbeFeatures:
    """Sigmoids of projections of the standardised output, and of its distance from the centre."""

    def __init__(self, values: Value):
        flat = flat_outputs(values)
        self.mean, spread = flat.mean(axis=0), flat.std(axis=0)
        self.scale = np.where(spread > 0, spread, 1.0)
        rng = np.random.default_rng(20170525)
        self.directions = rng.normal(size=(flat.shape[1], NUM_FEATURES))
        self.directions /= np.linalg.norm(self.directions, axis=0)
        self.shifts = rng.normal(size=NUM_FEATURES) / 2

    def __call__(self, values: Value) -> np.ndarray:
        """One row per output, one column per feature, between 0 and 1."""
        standard = (flat_outputs(values) - self.mean) / self.scale
        projections = 2.0 * (standard @ self.directions + self.shifts)
        distance = np.mean(standard**2, axis=1, keepdims=True) / 0.5 - 1.0
        return special.expit(np.concatenate([projections, distance], axis=1))


def flat_outputs(values: Value) -> np.ndarray:
    """Stacked outputs as rows of numbers; infinite ones are cut to `LARGEST`."""
    return np.clip(flat_rows(values), -LARGEST, LARGEST)
