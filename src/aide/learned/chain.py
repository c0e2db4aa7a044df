"""A Markov chain with learned meta-inference, as an inference algorithm."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from aide._algorithm import Draw, Label
from aide._distribution import log_density_of, sample_from
from aide._random import derive, derive_keys
from aide._types import Key, LogDensity, LogProb, Value
from aide._validate import check_count
from aide.kernels.retrace import parts_of
from aide.learned.flat import FlatKernel
from aide.learned.mixture import Stored
from aide.learned.sweep import Kept, Population, begin, log_estimate, step_back
from aide.smc.policy import AbstractResampler, EssBelow
from aide.smc.resampling import Systematic


class LearnedChain(eqx.Module):
    r"""Start at $x_0 \sim q_0$, make `num_steps` transitions, output the last state.

    The trace is the noise and the branch of every step. `regenerate` runs SMC backwards in time
    over the trace (`aide.learned.sweep`); $\xi$ is its estimate of $q(x)$ and $Z = 1$. `simulate`
    runs the chain and then the conditional SMC that retains the true trace.

    Args:
        initial: $q_0$.
        log_density: $\log\gamma$, up to a constant.
        kernel: The transition: `Retraceable`, or a `Cycle` or `Repeat` of such kernels.
        models: For every part of the kernel, the models $J$ stacked over a grid of times.
        index: For every step, which of the stacked models to use.
        num_particles: $P$, reverse particles.
        resampler: When and how the walk back resamples.
        label: A name for tables.
    """

    initial: Any
    log_density: LogDensity
    kernel: Any
    models: tuple[Any, ...]
    index: Stored
    num_particles: int = eqx.field(static=True)
    resampler: AbstractResampler = EssBelow(0.8, Systematic())
    label: str = eqx.field(converter=Label, default="")

    def __check_init__(self) -> None:
        check_count("num_particles", self.num_particles)
        if len(parts_of(self.kernel)) != len(self.models):
            raise ValueError(
                f"the fit has models for {len(self.models)} kernels, but one transition runs "
                f"{len(parts_of(self.kernel))}. Learn the reverse of this very kernel."
            )

    @property
    def log_z(self) -> float:
        r"""$\log Z = 0$: $\xi$ is an unbiased estimate of $q(x)$ itself."""
        return 0.0

    def simulate(self, key: Key) -> Draw:
        r"""Run the chain, then conditional SMC around its trace."""
        key_start, key_chain, key_meta = derive_keys(key, 3)
        first = jax.tree.map(lambda x: jnp.asarray(x, float), sample_from(self.initial, key_start))
        flat, unravel = ravel_pytree(first)
        kernels = self._kernels(first)
        here = kernels[0].log_density(flat)

        def transition(carry: Any, step: Array) -> tuple[Any, tuple[Kept, ...]]:
            kept = []
            for kernel, subkey in zip(
                kernels, derive_keys(derive(key_chain, step), len(kernels)), strict=True
            ):
                x, log_density = carry
                y, noise, branch, log_density_y = kernel.record(subkey, x)
                kept.append(Kept(x, log_density, noise, branch))
                carry = (y, log_density_y)
            return carry, tuple(kept)

        steps = jnp.arange(self.index.shape[0], dtype=jnp.uint32)
        (x, log_density), trace = jax.lax.scan(transition, (flat, here), steps)
        return Draw(unravel(x), self._walk_back(key_meta, kernels, x, log_density, trace))

    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""SMC backwards from $x$: $\log$ of an unbiased estimate of $q(x)$."""
        value = jax.tree.map(lambda x: jnp.asarray(x, float), value)
        kernels = self._kernels(value)
        x, _ = ravel_pytree(value)
        return self._walk_back(key, kernels, x, kernels[0].log_density(x), None)

    def _kernels(self, example: Value) -> list[FlatKernel]:
        return [FlatKernel(part, self.log_density, example) for part in parts_of(self.kernel)]

    def _log_start(self, kernel: FlatKernel, states: Array) -> Array:
        start = lambda x: log_density_of(self.initial, kernel.unravel(x))
        return jax.vmap(start, -1)(states)

    def _walk_back(
        self, key: Key, kernels: list[FlatKernel], x: Array, log_density: Any, trace: Any
    ) -> LogProb:
        if not self.index.shape[0]:
            return self._log_start(kernels[0], x[:, None])[0]
        key_slot, key_steps = derive_keys(key, 2)
        index = jnp.asarray(self.index)
        last = _slice(self.models[-1], index[-1])
        retain = trace is not None
        population = begin(key_slot, x, log_density, last, self.num_particles, retain)

        def transition(population: Population, step: Any) -> tuple[Population, None]:
            time, now, before, kept = step
            subkeys = derive_keys(derive(key_steps, time), len(kernels))
            for part in reversed(range(len(kernels))):

                def score_before(states: Array, density: Array, part: int = part) -> Any:
                    model = _slice(self.models[part - 1], before if part == 0 else now)
                    scores, log_q = model.score(states, density)
                    if part == 0:
                        start = self._log_start(kernels[0], states)
                        log_q = jnp.where(time == 0, start, log_q)
                    return scores, log_q

                population = step_back(
                    subkeys[part],
                    kernels[part],
                    _slice(self.models[part], now),
                    score_before,
                    self.resampler,
                    population,
                    None if kept is None else kept[part],
                )
            return population, None

        times = jnp.arange(index.shape[0], dtype=jnp.uint32)
        steps = (times, index, jnp.concatenate([index[:1], index[:-1]]), trace)
        population, _ = jax.lax.scan(transition, population, steps, reverse=True)
        return log_estimate(population)


def _slice(model: Any, index: Array) -> Any:
    return jax.tree.map(lambda a: jnp.asarray(a)[index], model)
