"""The beginnings of an algorithm, move by move, and the MCMC kernels in it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.types import LogProb, Value
from aide.algorithms.annealed import AnnealingStep, Tempered
from aide.algorithms.mcmc import MarkovChain
from aide.algorithms.particle_filter import ParticleFilter
from aide.smc.moves import Composition, Constant, Rejuvenate, Reweight, Steps
from aide.smc.smc import Smc


def prefixes_of(algorithm: Any) -> list[tuple[str, Callable[[], Any]]]:
    r"""The algorithm after each of its moves, with one particle: a name and a builder each.

    With one particle $l$ is a difference of log weights in which the densities between the moves
    cancel, so that each prefix is a complete test of its moves.
    """
    if isinstance(algorithm, MarkovChain):
        algorithm = algorithm.canonical()
    if isinstance(algorithm, ParticleFilter):
        total = algorithm.model.num_steps
        one = dataclasses.replace(algorithm, num_particles=1)
        return [
            (f"step {n} of {total} (Extend)", lambda n=n: first_observations(one, n))
            for n in range(1, total + 1)
        ]
    if not isinstance(algorithm, Smc):
        return []
    one = dataclasses.replace(algorithm, num_particles=1, log_joint=no_density)
    found: list[tuple[str, Callable[[], Any]]] = []
    for place, segment in enumerate(algorithm.moves):
        before = algorithm.moves[:place]
        where = f"move {place + 1} of {len(algorithm.moves)} ({_move_name(segment)})"
        if not isinstance(segment, Steps):
            moves = (*before, segment)
            found.append((where, lambda m=moves: dataclasses.replace(one, moves=m)))
            continue
        for n in range(1, segment.num_steps + 1):
            name = f"{where}, step {n} of {segment.num_steps}"
            build = lambda b=before, s=segment, n=n: dataclasses.replace(
                one, moves=(*b, first_steps(s, n))
            )
            found.append((name, build))
    return found


def kernels_of(algorithm: Any) -> list[tuple[Any, Any]]:
    """MCMC kernels with the density each is meant for, as long as states are those of the start."""
    if isinstance(algorithm, MarkovChain):
        return [(algorithm.kernel, algorithm.log_joint)]
    found: list[tuple[Any, Any]] = []
    for segment in algorithm.moves if isinstance(algorithm, Smc) else ():
        move = segment
        if isinstance(segment, Steps) and isinstance(segment.move_at, AnnealingStep):
            step, temperature = segment.move_at, np.asarray(segment.inputs[0])[0]
            found.append((step.kernel, Tempered(step.log_start, step.log_end, temperature)))
            continue
        if isinstance(segment, Steps) and isinstance(segment.move_at, Constant):
            move = segment.move_at.move
        parts = move.parts if isinstance(move, Composition) else (move,)
        if not all(isinstance(part, Rejuvenate | Reweight) for part in parts):
            break
        found += [(part.kernel, part.log_density) for part in parts if isinstance(part, Rejuvenate)]
    return found


def no_density(value: Value) -> LogProb:
    """Stands in for the density of an output where it cancels."""
    return jnp.zeros(())


def first_steps(segment: Steps, num: int) -> Steps:
    """The first `num` steps of a run of moves."""
    if segment.inputs is None:
        return Steps(segment.move_at, num_steps=num)
    return Steps(segment.move_at, jax.tree.map(lambda a: a[:num], segment.inputs))


def first_observations(algorithm: ParticleFilter, num: int) -> ParticleFilter:
    """The filter on the first `num` observations."""
    model = algorithm.model
    data = jax.tree.map(lambda a: a[:num], model.observations)
    return dataclasses.replace(algorithm, model=dataclasses.replace(model, observations=data))


def _move_name(segment: Any) -> str:
    if not isinstance(segment, Steps):
        return type(segment).__name__
    inner = getattr(segment.move_at, "move", segment.move_at)
    kernel = getattr(inner, "kernel", None)
    name = type(inner).__name__
    return f"{name} with {type(kernel).__name__}" if kernel is not None else name
