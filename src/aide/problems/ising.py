"""Ising models on a grid: undirected, with a partition function instead of an evidence."""

import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from aide._core.numerics import as_parameter
from aide._core.random import draw_index
from aide._core.types import Key, LogProb
from aide.algorithms.tractable import Tractable
from aide.kernels.gibbs import GibbsSites
from aide.problems.distributions import FairCoins


class IsingModel(eqx.Module):
    r"""$\log\gamma(x) = J \sum_{i\sim j} s_i s_j + h \sum_i s_i$ with spins $s_i = 2 x_i - 1$.

    Args:
        coupling: $J$ between neighbours on the grid (free boundary).
        field: $h$.
        shape: Rows and columns.

    Example:
        >>> model = aide.problems.IsingModel(coupling=0.0, field=0.0, shape=(2, 2))
        >>> round(float(jnp.exp(model.log_partition())), 3)  # 2^4 configurations of weight 1
        16.0
    """

    coupling: Array = eqx.field(converter=as_parameter)
    field: Array = eqx.field(converter=as_parameter, default=0.0)
    shape: tuple[int, int] = eqx.field(static=True, default=(4, 4))

    def __check_init__(self) -> None:
        if len(self.shape) != 2 or min(self.shape) < 1:
            raise ValueError(f"shape must be (rows, columns), each at least 1, got {self.shape}.")

    def log_density(self, x: Int[Array, "rows columns"]) -> LogProb:
        """Unnormalised log density of a grid of 0s and 1s."""
        spins = 2.0 * jnp.asarray(x, float) - 1.0
        pairs = jnp.sum(spins[1:] * spins[:-1]) + jnp.sum(spins[:, 1:] * spins[:, :-1])
        return self.coupling * pairs + self.field * jnp.sum(spins)

    def uniform(self) -> Tractable:
        """Independent fair spins: the start of an annealing path."""
        return Tractable.of(FairCoins(self.shape), label="fair coins")

    def gibbs(self) -> GibbsSites:
        """A Gibbs sweep over the grid, row by row."""
        return GibbsSites(np.arange(math.prod(self.shape)), 2)

    def exact(self) -> Tractable:
        """Exact draws by enumerating all configurations (up to 20 spins), normalised."""
        return Tractable(self._sample_exact, self._log_exact, label="enumeration")

    def log_partition(self) -> LogProb:
        r"""$\log\sum_x\gamma(x)$ by enumeration."""
        return jax.nn.logsumexp(self._all_log_densities())

    def _configurations(self) -> Any:
        num = math.prod(self.shape)
        if num > 20:
            raise ValueError(f"enumeration handles up to 20 spins, got {num}: anneal instead.")
        table = np.array(list(itertools.product((0, 1), repeat=num)), np.int8)
        return table.reshape(-1, *self.shape)

    def _all_log_densities(self) -> Array:
        return jax.vmap(self.log_density)(self._configurations())

    def _sample_exact(self, key: Key) -> Array:
        log_densities = self._all_log_densities()
        index = draw_index(key, jnp.exp(log_densities - jnp.max(log_densities)))
        return jnp.asarray(self._configurations())[index].astype(int)

    def _log_exact(self, x: Array) -> LogProb:
        return self.log_density(x) - self.log_partition()
