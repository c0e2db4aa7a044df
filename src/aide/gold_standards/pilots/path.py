r"""The path that pilots walk: from a start to the posterior, at one temperature."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from aide._core.algorithm import Aside
from aide._core.distribution import Distribution, LogDensityOf, evaluate, sample_from
from aide._core.flat_states import flat_reals
from aide._core.numerics import as_parameter, log_ratio
from aide._core.types import Key, LogDensity, LogProb, Parameter, Value
from aide.algorithms.annealed import Tempered


class Path(eqx.Module):
    r"""$\gamma_\beta$ between a start $k_1$ and $\gamma$, at one temperature.

    Args:
        start: $k_1$.
        log_joint: $\log\gamma$.
        temperature: $\beta$.
        names: Those of the coordinates, for messages; `None`: by their places.
    """

    start: Distribution
    log_joint: LogDensity
    temperature: Parameter = eqx.field(converter=as_parameter, default=0.0)
    names: Aside = Aside(None)

    def at(self, temperature: float) -> "Path":
        """The same path at another temperature."""
        return Path(self.start, self.log_joint, temperature, self.names)

    @property
    def log_density(self) -> Tempered:
        r"""$\log\gamma_\beta$."""
        return Tempered(LogDensityOf(self.start), self.log_joint, self.temperature)

    def log_ratio(self, x: Value) -> LogProb:
        r"""$h(x) = \log\gamma(x) - \log k_1(x)$: what tempering weighs by."""
        return self.look(x)[0]

    def look(self, x: Value) -> tuple[LogProb, Bool[Array, ""]]:
        r"""$h(x)$, and whether $\log\gamma(x)$ is NaN or $+\infty$ as it was written."""
        end, lost = evaluate(self.log_joint, x)
        return log_ratio(end, LogDensityOf(self.start)(x)), lost


def start_particle(path: Path, key: Key, run: int) -> tuple[Value, Array, LogProb]:
    """One particle at temperature 0, as an operation of the engine."""
    return start_watched(path, key, run)[:3]


def start_watched(path: Path, key: Key, run: int) -> tuple[Value, Array, LogProb, Bool[Array, ""]]:
    """The same particle, and whether the log density has no value there."""
    x = sample_from(path.start, jax.random.fold_in(key, run))
    x = jax.tree.map(jnp.asarray, x)
    return x, flat_reals(x), *path.look(x)


def unraveller(x: Value) -> Callable[[Array], Value]:
    """From the flat form of a real-valued state back to its structure."""
    leaves, tree = jax.tree.flatten(x)
    shapes = [jnp.shape(leaf) for leaf in leaves]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]

    def unravel(flat: Array) -> Value:
        parts = jnp.split(flat, ends)
        return jax.tree.unflatten(tree, [p.reshape(s) for p, s in zip(parts, shapes, strict=True)])

    return unravel
