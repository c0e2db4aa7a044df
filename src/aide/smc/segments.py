"""Shorter, earlier and other versions of the moves of an SMC algorithm; their kernels and names.

A segment is a move or a run of them (`Steps`).
"""

from collections.abc import Iterator

import jax.numpy as jnp

from aide._core.distribution import Distribution
from aide._core.types import LogProb, Value
from aide._core.versions import KernelUse, ask
from aide.smc.move import AbstractMove, WeightedMove
from aide.smc.moves import Steps

Segments = tuple[WeightedMove | Steps, ...]


def no_density(value: Value) -> LogProb:
    """Log density 0: takes the place of the output's density in laws where that cancels."""
    return jnp.zeros(())


def count_moves(segments: Segments) -> int:
    """Number of moves in all segments."""
    return sum(_length(segment) for segment in segments)


def shorten_moves(segments: Segments, most: int) -> Segments | None:
    """At most `most` steps a segment, with the same ends; `None` if there is no such run."""
    found = list[WeightedMove | Steps]()
    for segment in segments:
        short = segment.shortened(most) if isinstance(segment, Steps) else segment
        if short is None:
            return None
        found.append(short)
    return tuple(found)


def first_moves(segments: Segments, most: int) -> Segments:
    """The beginning, up to and including `most` steps of the first segment that has more."""
    found = list[WeightedMove | Steps]()
    for segment in segments:
        if isinstance(segment, Steps) and segment.num_steps > most:
            return (*found, segment.first(most))
        found.append(segment)
    return tuple(found)


def move_prefixes(segments: Segments) -> Iterator[tuple[str, Segments]]:
    """The beginnings, move by move: where each ends, in words, and its segments."""
    for place, segment in enumerate(segments):
        before = segments[:place]
        where = f"move {place + 1} of {len(segments)} ({_name(segment)})"
        if not isinstance(segment, Steps):
            yield where, (*before, segment)
            continue
        for num in range(1, segment.num_steps + 1):
            yield f"{where}, step {num} of {segment.num_steps}", (*before, segment.first(num))


def moves_from(segments: Segments, start: Distribution) -> Segments | None:
    """The moves of an algorithm that starts elsewhere; `None` if nobody can tell."""
    found = [ask(AbstractMove, segment, "with_start", start) for segment in segments]
    return None if any(segment is None for segment in found) else tuple(found)


def kernels_in(segments: Segments) -> list[KernelUse]:
    """MCMC kernels with the density each is meant for, as long as states are those of the start."""
    found = list[KernelUse]()
    for segment in segments:
        uses = ask(AbstractMove, segment, "kernels")
        if uses is None:
            break
        found += uses
    return found


def _length(segment: WeightedMove | Steps) -> int:
    return segment.num_steps if isinstance(segment, Steps) else 1


def _name(segment: WeightedMove | Steps) -> str:
    if not isinstance(segment, Steps):
        return type(segment).__name__
    inner = getattr(segment.move_at, "move", segment.move_at)
    kernel = getattr(inner, "kernel", None)
    name = type(inner).__name__
    return f"{name} with {type(kernel).__name__}" if kernel is not None else name
