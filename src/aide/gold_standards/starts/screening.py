r"""Many draws of a start: at which of them is the density higher than known modes explain?

A peak of width $s$ beside a wide mode attracts climbs from a region of some $s$ about it alone,
where a few hundred climbs may not set out; and one inside of the wide mode's reach is told apart
from it by its height only. One plain evaluation shows the peak wherever it stands out of the rest,
at a hundredth of the price of a climb. So the log density of many draws is compared with
$\log\sum_k m_k\,t_k(x)$, the masses and shapes of the modes that are known; further climbs set out
where it is above by most.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.types import Key, Parameter
from aide.engine.programs.map_runs import map_runs
from aide.gold_standards.pilots.population import start_particle
from aide.gold_standards.starts.ascent import Ascent
from aide.gold_standards.starts.climbing import Mode
from aide.gold_standards.starts.student import inverses_of, log_student_mixture

UNEXPLAINED = 4.0
"""Nats above what modes explain, from which on a draw may be at a mode that is not known: in a
normal distribution it is 1 to 3, since $t$ distributions about modes are wider."""


class Screen(eqx.Module):
    """A log density, and the modes that should explain it.

    Args:
        ascent: The log density, and the start that draws come from.
        log_masses: Of the modes.
        means: Theirs, by rows.
        inverses: Of their factors.
    """

    ascent: Ascent
    log_masses: Parameter
    means: Parameter
    inverses: Parameter

    @staticmethod
    def of(ascent: Ascent, weighed: Sequence[Mode]) -> "Screen":
        """For modes with masses in the units of the density."""
        columns = zip(*(mode[:3] for mode in weighed), strict=True)
        masses, means, factors = (np.array(column) for column in columns)
        return Screen(ascent, masses, means, inverses_of(factors))

    def explained(self, flat: Array) -> Array:
        r"""$\log\sum_k m_k\,t_k(x)$."""
        top = jnp.max(jnp.asarray(self.log_masses))
        masses = jnp.exp(self.log_masses - top)
        return top + log_student_mixture(flat, masses, self.means, self.inverses)

    def worst_runs(self, key: Key, num: int, most: int) -> np.ndarray:
        """Of so many draws of the start those that modes do not explain, the worst first.

        Numbers of runs, from which `climb_from_start` sets out with the same key.
        """
        runs = np.arange(num, dtype=np.uint32)
        residuals = map_runs(residual_at_start, self, key, (runs,), what="log_joint")
        worst = np.argsort(-residuals, kind="stable")[:most]
        return runs[worst[residuals[worst] > UNEXPLAINED]]

    def are_unexplained(self, flat: np.ndarray, heights: np.ndarray) -> np.ndarray:
        """Whether the log density at points is more than what modes explain."""
        if not len(flat):
            return np.zeros(0, bool)
        key = jax.random.key(0)  # nothing is drawn
        return heights > map_runs(explained_at, self, key, (flat,), what="") + UNEXPLAINED


def explained_at(screen: Screen, key: Key, flat: Array) -> Array:
    """What modes explain at a point, as an operation of the engine."""
    return screen.explained(flat)


def residual_at_start(screen: Screen, key: Key, run: int) -> Array:
    r"""$\log\gamma(x) - \log\sum_k m_k\,t_k(x)$ at a draw of the start; $-\infty$ for no number."""
    _, flat, _ = start_particle(screen.ascent.path, key, run)
    residual = screen.ascent.density(flat) - screen.explained(flat)
    return jnp.where(jnp.isfinite(residual), residual, -jnp.inf)
