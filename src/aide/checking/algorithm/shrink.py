"""Small versions of an algorithm: that is where errors show.

With many particles and steps the two operations average over so much that a mistake in one move
drowns; with 1, 2 or 3 particles and a few steps the laws see it within thousands of runs.
"""

import copy
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from aide.algorithms.annealed import AnnealingStep
from aide.algorithms.mcmc import MarkovChain
from aide.algorithms.particle_filter import ParticleFilter
from aide.algorithms.python import PythonAlgorithm
from aide.algorithms.rejection import RejectionSampler
from aide.algorithms.tractable import Amortized, Tractable
from aide.checking.algorithm.prefixes import first_observations, first_steps, no_density
from aide.smc.moves import Constant, Steps
from aide.smc.smc import Smc

PARTICLES = (1, 2, 3)
MOST_STEPS = 3
"""Steps that a shrunken algorithm keeps."""
MOST_WORK = 300
"""Particles times steps up to which the algorithm is also run as it is."""

AS_GIVEN_SHARE = 1 / 3
"""Share of the runs, relative to a small version's, of an algorithm that hides its errors."""


class Variant(NamedTuple):
    r"""A version of the algorithm under test.

    Attributes:
        name: What is different about it.
        algorithm: The version.
        has_density: Whether $\xi$ is complete; without it only law 2, in which the density of the
            output cancels, applies.
        has_one_particle: Whether it is known to have one particle.
        share: Its share of the runs, relative to the others'.
    """

    name: str
    algorithm: Any
    has_density: bool = True
    has_one_particle: bool = False
    share: float = 1.0


def variants_of(algorithm: Any) -> list[Variant]:
    """Versions with few particles and few steps, and the algorithm itself where it is small.

    Anything with a method `shrunk()` that returns a dict of named algorithms decides for itself.
    What `PythonAlgorithm` wraps is shrunk inside the wrapper.
    """
    if isinstance(algorithm, PythonAlgorithm):
        return [_wrapped(algorithm, variant) for variant in variants_of(algorithm.algorithm)]
    if isinstance(algorithm, MarkovChain):
        algorithm = algorithm.canonical()
    own = getattr(algorithm, "shrunk", None)
    if callable(own):
        shrunk: Any = own()
        return [Variant(name, version) for name, version in shrunk.items()]
    short, how, has_density = _shorten(algorithm)
    particles = getattr(algorithm, "num_particles", None)
    rebuild = rebuilder(algorithm, "num_particles") if isinstance(particles, int) else None
    if rebuild is None or not isinstance(particles, int):
        found = [Variant(f"as given{how}", short, has_density, particles == 1)]
        is_whole = has_density and not how
    else:
        found = [
            Variant(f"{_particles(num)}{how}", rebuild(short, num), has_density, num == 1)
            for num in PARTICLES
            if num <= particles
        ]
        is_whole = has_density and not how and particles in PARTICLES
    if not has_density or (not is_whole and _work(algorithm) <= MOST_WORK):
        share = AS_GIVEN_SHARE if has_density else 1.0
        found.append(Variant("as given", algorithm, True, particles == 1, share))
    return found


def rebuilder(algorithm: Any, name: str) -> Callable[[Any, int], Any] | None:
    """How to make the same algorithm with another value of one setting; `None` if that is unsafe.

    A dataclass is replaced. Another class is built anew from its attributes if each argument of its
    constructor is kept under its own name, and copied if the setting is a class attribute and the
    object holds nothing of its own. A changed attribute alone would leave alone what was derived
    from it.
    """
    if dataclasses.is_dataclass(algorithm):
        fields = {field.name for field in dataclasses.fields(algorithm) if field.init}
        return (
            (lambda old, num: dataclasses.replace(old, **{name: num})) if name in fields else None
        )
    kept = vars(algorithm) if hasattr(algorithm, "__dict__") else {}
    try:
        parameters = inspect.signature(type(algorithm)).parameters
    except (TypeError, ValueError):
        return None
    if name in parameters and set(parameters) <= set(kept):
        settings = {parameter: kept[parameter] for parameter in parameters}
        return lambda old, num: type(old)(**{**settings, name: num})
    if not kept and not parameters:

        def with_attribute(old: Any, num: int) -> Any:
            changed = copy.copy(old)
            setattr(changed, name, num)
            return changed

        return with_attribute
    return None


def _wrapped(wrapper: PythonAlgorithm, variant: Variant) -> Variant:
    inner = (
        wrapper
        if variant.algorithm is wrapper.algorithm
        else PythonAlgorithm(variant.algorithm, log_z=wrapper.log_z, label=wrapper.label)
    )
    return variant._replace(algorithm=inner)


def determines_trace(algorithm: Any) -> bool:
    """Whether the output is known to determine the trace, so that law 3 holds."""
    if isinstance(algorithm, Tractable | Amortized | RejectionSampler):
        return True
    if isinstance(algorithm, ParticleFilter):
        return algorithm.num_particles == 1
    return type(algorithm) is Smc and algorithm.num_particles == 1 and not algorithm.moves


def _shorten(algorithm: Any) -> tuple[Any, str, bool]:
    """The algorithm with few steps, in words what was done, and whether its density is complete."""
    if isinstance(algorithm, ParticleFilter):
        total = algorithm.model.num_steps
        if total <= MOST_STEPS:
            return algorithm, "", True
        return (
            first_observations(algorithm, MOST_STEPS),
            f", first {MOST_STEPS} observations",
            True,
        )
    if not isinstance(algorithm, Smc):
        return algorithm, "", True
    if all(_num_steps(segment) <= MOST_STEPS for segment in algorithm.moves):
        return algorithm, "", True
    moves = [_shorten_segment(segment) for segment in algorithm.moves]
    if all(move is not None for move in moves):
        return dataclasses.replace(algorithm, moves=tuple(moves)), f", {MOST_STEPS} steps", True
    kept: list[Any] = []
    for segment in algorithm.moves:
        if _num_steps(segment) > MOST_STEPS:
            assert isinstance(segment, Steps)
            kept.append(first_steps(segment, MOST_STEPS))
            break
        kept.append(segment)
    short = dataclasses.replace(algorithm, moves=tuple(kept), log_joint=no_density)
    return short, ", first moves", False


def _shorten_segment(segment: Any) -> Any:
    """A segment with the same ends and fewer steps, if there is one."""
    if _num_steps(segment) <= MOST_STEPS:
        return segment
    if isinstance(segment.move_at, Constant):
        return Steps(segment.move_at, num_steps=MOST_STEPS)
    if isinstance(segment.move_at, AnnealingStep):
        before, after = (np.asarray(a) for a in segment.inputs)
        knots = np.append(before, after[-1])
        chosen = knots[np.linspace(0, len(knots) - 1, MOST_STEPS + 1).round().astype(int)]
        return Steps(segment.move_at, (chosen[:-1], chosen[1:]))
    return None


def _num_steps(segment: Any) -> int:
    return segment.num_steps if isinstance(segment, Steps) else 1


def _work(algorithm: Any) -> int:
    particles = getattr(algorithm, "num_particles", 1)
    if isinstance(algorithm, ParticleFilter):
        return particles * algorithm.model.num_steps
    steps = sum(_num_steps(segment) for segment in getattr(algorithm, "moves", ()))
    return particles * max(steps, 1)


def _particles(num: int) -> str:
    return f"{num} particle{'s' if num > 1 else ''}"
