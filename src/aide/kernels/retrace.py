r"""Kernels whose steps can be undone from a record, as learned meta-inference needs.

A step $x \to y$ leaves a *reverse record* $(v, b)$: continuous noise $v$ and a branch
$b \in \{0, \dots, B-1\}$ (rejected or accepted, say), such that $(y, v, b)$ determines $x$ and the
map from $x$ and the step's own noise to $(y, v)$ has Jacobian 1 on every branch. Meta-inference
guesses records backwards in time; any guess is weighed exactly by what `retrace` returns.

A kernel that *weighs origins* keeps a record $(v, 0)$ that leaves open which of several states
$x_1, \dots, x_n$ the step came from (NUTS: any point of the trajectory). `retrace` returns all of
them, and meta-inference draws one in proportion to its chance instead of guessing.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Array, Float, Int

from aide._core.types import Key, LogDensity, LogProb, Value
from aide.kernels.kernel import check_instance

NO_RECORD = -1
"""The branch of a step that cannot be undone: a fault of the kernel, which makes log xi NaN."""


class Recorded(NamedTuple):
    """A step forward: the new state, and the record from which the step can be undone."""

    value: Value
    noise: Value
    branch: Int[Array, ""]


class Retraced(NamedTuple):
    r"""The step back from $y$ with noise $v$, for every branch or origin $b$ (leading axis $B$).

    Attributes:
        value: $x_b$, the state before; any state where the branch is impossible.
        log_density: $\log\gamma(x_b)$.
        log_forward: $\log k(y, v, b \mid x_b)$, the density of the step that was made.
        log_own: $\log g(v, b \mid y)$, the density with which the kernel's own guess
            (`reverse_noise`, then a branch) would have proposed this record.
    """

    value: Value
    log_density: Float[Array, " B"]
    log_forward: Float[Array, " B"]
    log_own: Float[Array, " B"]


@runtime_checkable
class Retraceable(Protocol):
    r"""A kernel with records: every Metropolis kernel of the library, `Nuts` and `Ula`.

    A kernel whose `reverse_noise` is made of standard normals may also have a method
    `reverse_noise_from(z, log_density, y)`, which takes the normals: drawing them in batches is
    faster. A kernel that weighs origins has the attribute `weighs_origins = True`.
    """

    num_branches: Any  # a property or a class variable

    def record(self, key: Key, log_density: LogDensity, x: Value) -> Recorded:
        """Make a step and keep its record."""
        ...

    def reverse_noise(self, key: Key, log_density: LogDensity, y: Value) -> Value:
        r"""Guess $v$ given $y$, as if the chain had arrived: $v \sim \sum_b g(v, b \mid y)$."""
        ...

    def retrace(
        self, log_density: LogDensity, y: Value, log_density_y: LogProb, noise: Value
    ) -> Retraced:
        """Undo a step for every branch; `log_density_y` is the log density at `y`."""
        ...


def weighs_origins(kernel: Any) -> bool:
    """Whether the record of a step leaves open which of several states it came from."""
    return bool(getattr(kernel, "weighs_origins", False))


def parts_of(kernel: Any) -> tuple[Any, ...]:
    """The kernels that one transition runs, in order; each must be `Retraceable`.

    A kernel that is a sequence of others lists them by a method `retraceable_parts()`.
    """
    check_instance(kernel)
    split = getattr(kernel, "retraceable_parts", None)
    if callable(split):
        return tuple(part for whole in split() for part in parts_of(whole))
    if not isinstance(kernel, Retraceable):
        raise TypeError(
            f"{type(kernel).__name__} keeps no record of its steps, which learned meta-inference "
            "needs. Use a Metropolis kernel (RandomWalk, Independence, Mala, Hmc, or a subclass of "
            "AbstractMetropolis that states its noise and involution), Nuts, Ula, for discrete "
            "states GibbsSites or FiniteNoise, or a Cycle, Repeat or OnEntry of them (all of "
            "aide.kernels); or use canonical meta-inference."
        )
    return (kernel,)
