"""What a model of the reverse offers at one time: a joint law of a state and a step's record.

All functions work on all particles at once, with the particle axis last.
"""

from typing import Any, ClassVar, NamedTuple, Protocol

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Scores = Float[Array, "K P"]
States = Float[Array, "d P"]
Stored = Any
"""An array of NumPy, in double precision, or of JAX inside a program."""


class Proposed(NamedTuple):
    """Records proposed by a model; where `own` is true, the kernel's own guess replaces them."""

    own: Bool[Array, " P"]
    noise: Float[Array, "e P"]
    branch: Int[Array, " P"]


class JointModel(Protocol):
    r"""$J(y, v, b)$ with its exact marginal $\hat q(y)$ and conditional $J(v, b \mid y)$.

    A model that *tilts* sees the noise relative to the centre of the kernel's own guess, and leaves
    branches open: states before are weighed by $\hat q$ and the kernel (`walk_back.origins`).
    """

    tilts: ClassVar[bool]

    @property
    def sizes(self) -> tuple[int, int]:
        """How many numbers a state and a record's noise have."""
        ...

    def score(
        self, y: States, log_density: Float[Array, " P"]
    ) -> tuple[Scores, Float[Array, " P"]]:
        r"""The log terms of $\hat q(y)$, component 0 first, and $\log\hat q(y)$ itself."""
        ...

    def propose(
        self, uniform: Float[Array, " P"], white: Float[Array, "e P"], scores: Scores, y: States
    ) -> Proposed:
        r"""Draw a component given $y$, and $(v, b)$ from it unless it is the kernel's own guess."""
        ...

    def log_joint(
        self,
        scores: Scores,
        y: States,
        noise: Float[Array, "e P"],
        branch: Int[Array, " P"],
        possible: Bool[Array, "B P"],
        log_own: Float[Array, " P"],
    ) -> Float[Array, " P"]:
        r"""$\log J(y, v, b)$, given the scores of $y$ and $\log g(v, b \mid y)$."""
        ...


def redirect(branch: Int[Array, "..."], possible: Bool[Array, "B P"]) -> Int[Array, "..."]:
    """The branch itself where it is possible, else the first one that is."""
    numbers = jnp.arange(possible.shape[0])
    if possible.shape[0] == 1:  # also for a model learned for a kernel with more branches
        return jnp.zeros_like(branch)
    shape = (-1,) + (1,) * (branch.ndim - 1) + (possible.shape[1],)
    allowed = possible.reshape(shape) & (branch == numbers.reshape((-1,) + (1,) * branch.ndim))
    return jnp.where(jnp.any(allowed, axis=0), branch, jnp.argmax(possible, axis=0))


def log_sum_exp(terms: Scores) -> Float[Array, " P"]:
    r"""$\log\sum_k e^{l_k}$ over the first axis; $-\infty$ if all are, NaN if one is."""
    peak = jnp.max(terms, axis=0)
    shift = jnp.where(jnp.isfinite(peak), peak, 0.0)
    return shift + jnp.log(jnp.sum(jnp.exp(terms - shift), axis=0))
