r"""Kernels that draw noise and satisfy detailed balance: Metropolis–Hastings by involutions.

Draw noise $v \sim g(\cdot \mid x)$, apply an involution $(y, v') = \varphi(x, v)$ of Jacobian 1
and accept $y$ with probability $\min\{1, \gamma(y) g(v' \mid y) / (\gamma(x) g(v \mid x))\}$.
Every kernel of this form is reversible. A new one states $g$ and $\varphi$. Its steps can be undone
(`aide.kernels.retrace`): an accepted step $(x, v) \to (y, v')$ leaves the record $(v', 1)$, from
which $\varphi(y, v') = (x, v)$; a rejected one leaves $(v, 0)$.
"""

import math
from abc import abstractmethod
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike

from aide._core.distribution import Distribution, check_distribution, log_density_of, sample_from
from aide._core.numerics import all_finite, as_log, as_parameter, ravel_reals
from aide._core.random import derive_keys, standard_normal, standard_uniform
from aide._core.types import Key, LogDensity, LogProb, Parameter, Value
from aide._core.validate import check_positive, check_scalar
from aide.kernels.coordinates import Metric, as_metric, stretched
from aide.kernels.kernel import AbstractInvariantKernel
from aide.kernels.retrace import NO_RECORD, Recorded, Retraced


class AbstractNoiseKernel(AbstractInvariantKernel):
    r"""A kernel that draws noise $v \sim g(\cdot \mid x)$ and is its own reversal."""

    @abstractmethod
    def noise(self, key: Key, x: Value) -> Value:
        r"""Sample $v \sim g(\cdot \mid x)$."""

    @abstractmethod
    def log_noise(self, x: Value, v: Value) -> LogProb:
        r"""$\log g(v \mid x)$, normalised: learned meta-inference compares it with other densities.

        An omitted constant would leave transitions right and make learned meta-inference wrong.
        """

    def reverse_noise(self, key: Key, log_density: LogDensity, y: Value) -> Value:
        r"""Draw $v \sim g(\cdot \mid y)$: by detailed balance the step back is a step forward."""
        return self.noise(key, y)

    def reversal(self) -> "AbstractNoiseKernel":
        """The kernel itself: detailed balance holds."""
        return self


class NormalNoise:
    r"""Noise $v \sim N(0, I)$ in the structure of the state, independent of the state."""

    def noise(self, key: Key, x: Value) -> Value:
        r"""$v \sim N(0, I)$; the state must be real-valued."""
        flat, unravel = ravel_reals(x)
        return unravel(standard_normal(key, flat.shape, flat.dtype))

    def reverse_noise_from(self, z: Value, log_density: LogDensity, y: Value) -> Value:
        """Return the normals $z$: the noise does not depend on the state."""
        return z

    def log_noise(self, x: Value, v: Value) -> LogProb:
        r"""$\log N(v; 0, I)$."""
        return log_standard_normal(v)


def log_standard_normal(v: Value) -> LogProb:
    """Log density of independent standard normals."""
    flat, _ = ravel_pytree(v)
    return -0.5 * jnp.sum(flat**2) - 0.5 * flat.size * math.log(2 * math.pi)


REJECTED = 0
"""Branch of a Metropolis step that stayed."""
ACCEPTED = 1
"""Branch of a Metropolis step that moved."""


class ProposedMove(NamedTuple):
    r"""$(y, v') = \varphi(x, v)$, with $\log\gamma(x)$ and $\log\gamma(y)$."""

    value: Value
    noise: Value
    log_density_before: LogProb
    log_density: LogProb


class AbstractMetropolis(AbstractNoiseKernel):
    r"""A kernel given by noise $g$ and an involution $\varphi$.

    One step draws $v \sim g(\cdot \mid x)$, computes $(y, v') = \varphi(x, v)$ and accepts $y$ with
    probability $\min(1, \gamma(y)\,g(v' \mid y)\,|J| / \gamma(x)\,g(v \mid x))$, where $\varphi$
    applied twice gives back $(x, v)$. A subclass defines `noise`, `log_noise`, `involution` and
    `reverse_noise`.

    Example:
        >>> from aide.kernels import AbstractMetropolis, Hmc, Ula
        >>> issubclass(Hmc, AbstractMetropolis), issubclass(Ula, AbstractMetropolis)
        (True, False)
    """

    num_branches: ClassVar[int] = 2

    @abstractmethod
    def involution(self, log_density: LogDensity, x: Value, v: Value) -> tuple[Value, Value]:
        r"""$\varphi(x, v)$, with $\varphi(\varphi(x, v)) = (x, v)$ and $|\det J| = 1$."""

    def propose(
        self, log_density: LogDensity, x: Value, v: Value, here: LogProb | None = None
    ) -> ProposedMove:
        r"""$\varphi(x, v)$ and the log density at $x$ and $y$; `here` is that at $x$, if known.

        A kernel whose involution evaluates the density overrides this method to evaluate it once.
        """
        y, w = self.involution(log_density, x, v)
        before = log_density(x) if here is None else here
        before, there = (check_scalar("log_density", log) for log in (before, log_density(y)))
        return ProposedMove(y, w, before, there)

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        r"""Draw $v$, propose $\varphi(x, v)$, accept or stay.

        A point where `log_density` is NaN is accepted and never left, so that the NaN reaches the
        result instead of passing for a rejection. A proposal that overflowed is a rejection.
        """
        return self.record(key, log_density, x).value

    def observe_step(self, key: Key, log_density: LogDensity, x: Value) -> tuple[Value, Array]:
        """The same step, and whether it was accepted."""
        y, _, branch = self.record(key, log_density, x)
        return y, jnp.where(branch == ACCEPTED, 1.0, 0.0)[None]

    def record(self, key: Key, log_density: LogDensity, x: Value) -> Recorded:
        """Make a step; the record is the branch, and the noise that leads back."""
        key_noise, key_accept = derive_keys(key, 2)
        v = self.noise(key_noise, x)
        y, w, here, there = self.propose(log_density, x, v)
        log_accept = there + self.log_noise(y, w) - here - self.log_noise(x, v)
        accept = jnp.log(standard_uniform(key_accept)) < log_accept
        accept = (accept | jnp.isnan(there)) & all_finite((y, w)) & ~jnp.isnan(here)
        value, noise = (_select(accept, new, old) for new, old in ((y, x), (w, v)))
        return Recorded(value, noise, jnp.where(accept, ACCEPTED, REJECTED))

    def retrace(
        self, log_density: LogDensity, y: Value, log_density_y: LogProb, noise: Value
    ) -> Retraced:
        r"""Undo a step for both branches: stay at $y$, or go to $x$.

        With $(x, w) = \varphi(y, v)$, an accepted step has forward density
        $g(w \mid x) \min\{1, \gamma(y) g(v \mid y) / (\gamma(x) g(w \mid x))\}$, also where
        $\gamma(x) = 0$.
        """
        here = as_log(log_density_y)
        x, w, _, there = self.propose(log_density, y, noise, here)
        log_v, log_w = self.log_noise(y, noise), self.log_noise(x, w)
        possible = all_finite((x, w))
        broken = jnp.isnan(here) | (jnp.isnan(there) & possible)
        ratio = there + log_w - here - log_v
        # 0/0 is a rejection, as in `step`; a density that is NaN is an error and stays NaN.
        undefined = jnp.isnan(ratio) & ~broken
        log_back = jnp.where(undefined | ~possible, -jnp.inf, jnp.minimum(ratio, 0.0))
        log_ahead = jnp.where(undefined | ~possible, -jnp.inf, jnp.minimum(-ratio, 0.0))
        rejected = log_v + jnp.log(-jnp.expm1(log_back))
        accepted = jnp.where(possible, log_w + log_ahead, -jnp.inf)
        before = _select(possible, x, y)
        return Retraced(
            jax.tree.map(lambda stay, move: jnp.stack([stay, move]), y, before),
            jnp.stack([here, jnp.where(possible, there, here)]),
            jnp.stack([rejected, accepted]),
            jnp.stack([rejected, log_v + log_back]),
        )


class RandomWalk(NormalNoise, AbstractMetropolis):
    r"""$y = x + s\,L v$ with standard normal $v$; $\varphi(x, v) = (x + s L v, -v)$.

    Args:
        scale: $s$: a number, or numbers that broadcast against the flattened state.
        metric: $L L^\top$, the covariance of a proposal of scale 1: variances of the flattened
            state, or a matrix; by default the identity.

    Example:
        >>> kernel = aide.kernels.RandomWalk(0.5, metric=[1.0, 4.0])  # steps of sd 0.5 and 1.0
        >>> log_density = lambda x: -0.5 * jnp.sum(x**2)
        >>> kernel.step(jax.random.key(0), log_density, jnp.zeros(2)).shape
        (2,)
    """

    scale: Parameter = eqx.field(converter=as_parameter)
    metric: Metric | None = eqx.field(converter=as_metric, default=None)

    def __check_init__(self) -> None:
        check_positive("scale", self.scale)

    def involution(self, log_density: LogDensity, x: Value, v: Value) -> tuple[Value, Value]:
        r"""$(x + s L v, -v)$."""
        flat, unravel = ravel_reals(x)
        shift = stretched(self.metric, ravel_pytree(v)[0])
        return unravel(flat + self.scale * shift), jax.tree.map(jnp.negative, v)


class Independence(AbstractMetropolis):
    r"""$y = v$ drawn from a fixed proposal; $\varphi$ swaps $x$ and $v$.

    Args:
        proposal: Anything with `sample(key)` and `log_prob(x)` or `log_density(x)`; it must cover
            the posterior.

    Example:
        >>> kernel = aide.kernels.Independence(Normal(0.0, 2.0))
        >>> aide.mcmc(Normal(0.0, 2.0), lambda x: -x * x, kernel=kernel, num_steps=10)
        MarkovChain: MCMC, 10 steps
    """

    proposal: Distribution

    def __check_init__(self) -> None:
        check_distribution("proposal", self.proposal)

    def noise(self, key: Key, x: Value) -> Value:
        r"""Draw $v$ from the proposal, which does not depend on $x$."""
        return sample_from(self.proposal, key)

    def log_noise(self, x: Value, v: Value) -> LogProb:
        """The log density of the proposal at $v$."""
        return log_density_of(self.proposal, v)

    def involution(self, log_density: LogDensity, x: Value, v: Value) -> tuple[Value, Value]:
        """$(v, x)$: state and noise change places."""
        return jax.tree.map(like, v, x), x


def like(new: ArrayLike, old: ArrayLike) -> Array:
    """Return a proposed value in the precision of the old one; raise if one is real, one not."""
    new, dtype = jnp.asarray(new), jnp.result_type(old)
    kinds = [jnp.issubdtype(kind, jnp.floating) for kind in (new.dtype, dtype)]
    if kinds[0] != kinds[1]:
        raise TypeError(
            f"the proposal draws {new.dtype} where the state is {dtype}: it must draw values of "
            "the same kind, real or integer."
        )
    return new.astype(dtype)


def _select(condition: Array, one: Value, other: Value) -> Value:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)


class FiniteNoise(AbstractInvariantKernel):
    r"""A Metropolis kernel whose noise takes finitely many values $v_0, \dots, v_{n-1}$.

    Steps are those of the kernel. The record of a step is the branch alone: the index of $v_i$, and
    whether the step was accepted (branch $2i + 1$) or not ($2i$). Learned meta-inference for
    discrete states guesses from tables of branches, which cannot hold noise.

    Args:
        kernel: The kernel, with involution $\varphi(x, v_i) = (y, v_j)$.
        noises: All values of its noise, stacked along a leading axis, exactly as the kernel draws
            them and as the involution returns them. Drawing a value that is not listed is an error.

    Example:
        >>> class Neighbour(aide.kernels.AbstractMetropolis):  # one step up or down, modulo 5
        ...     def noise(self, key, x):
        ...         return jnp.where(jax.random.bernoulli(key), 1, -1)
        ...     def log_noise(self, x, v):
        ...         return jnp.log(0.5)
        ...     def involution(self, log_density, x, v):
        ...         return (x + v) % 5, -v
        ...     def reverse_noise(self, key, log_density, y):
        ...         return self.noise(key, y)
        >>> aide.kernels.FiniteNoise(Neighbour(), noises=np.array([-1, 1])).num_branches
        4
    """

    kernel: AbstractMetropolis
    noises: Value = eqx.field(converter=lambda tree: jax.tree.map(np.asarray, tree))

    def __check_init__(self) -> None:
        lengths = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(self.noises)}
        if len(lengths) != 1 or () in lengths:
            raise ValueError(
                f"noises must be stacked along one leading axis, got lengths {sorted(lengths)}."
            )

    @property
    def num_branches(self) -> int:
        """Rejected and accepted, for each value of the noise."""
        return 2 * np.shape(jax.tree.leaves(self.noises)[0])[0]

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """Make a step of the kernel."""
        return self.kernel.step(key, log_density, x)

    def observe_step(self, key: Key, log_density: LogDensity, x: Value) -> tuple[Value, Array]:
        """The kernel's step, and whether it was accepted."""
        return self.kernel.observe_step(key, log_density, x)

    def reversal(self) -> "FiniteNoise":
        """The kernel itself: detailed balance holds."""
        return self

    def record(self, key: Key, log_density: LogDensity, x: Value) -> Recorded:
        """Make a step; the record is its branch, and `NO_RECORD` for a noise that is not listed."""
        value, noise, accepted = self.kernel.record(key, log_density, x)
        same = jax.tree.map(_equal, self.noises, noise)
        same = jnp.all(jnp.stack(jax.tree.leaves(same)), axis=0)
        branch = jnp.where(jnp.any(same), 2 * jnp.argmax(same) + accepted, NO_RECORD)
        return Recorded(value, (), branch.astype(jnp.int32))

    def reverse_noise(self, key: Key, log_density: LogDensity, y: Value) -> Value:
        """Return no noise: the branch alone undoes a step."""
        return ()

    def retrace(
        self, log_density: LogDensity, y: Value, log_density_y: LogProb, noise: Value
    ) -> Retraced:
        r"""Undo a step for every $v_i$, rejected and accepted."""
        undo = lambda v: self.kernel.retrace(log_density, y, log_density_y, v)
        found = jax.vmap(undo)(jax.tree.map(jnp.asarray, self.noises))
        return jax.tree.map(lambda a: a.reshape((-1, *a.shape[2:])), found)


def _equal(all_values: Array, value: Array) -> Array:
    """Which of the stacked values equal this one."""
    equal = jnp.asarray(all_values) == jnp.asarray(value)
    return jnp.all(equal.reshape(equal.shape[0], -1), axis=1)
