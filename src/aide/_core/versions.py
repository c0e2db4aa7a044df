"""Other versions of an algorithm: small, short, with another budget, from another start; its steps.

Only an algorithm knows what it is made of. Therefore each kind of version is a method of the
algorithm, and so is the description of its steps (`ObservedSteps`). `AbstractAlgorithm` has a
default for each of these methods: the default says that there is no such version, or rebuilds the
algorithm with other `num_particles`. Algorithms of users need no base class: callers use the
functions of this file, which call the algorithm's own method if it has one, else the default.
"""

import copy
import dataclasses
import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float, Int

from aide._core.algorithm import Draw, InferenceAlgorithm, describe, plain
from aide._core.distribution import Distribution
from aide._core.types import Key, LogDensity, LogProb, Value


class ObservedMove(NamedTuple):
    """One move of one particle.

    Attributes:
        value: The state after the move.
        log_weight: The move's log weight.
        acceptance: Share of proposals that were accepted, by each part of the kernel; `None` if
            nothing is proposed.
        squared_jump: Squared distance that every coordinate moved; `None` for a move to another
            space.
        temperature: Temperature of the density that the kernel leaves invariant; `None` if the
            density has none.
    """

    value: Value
    log_weight: LogProb
    acceptance: Float[Array, " parts"] | None = None
    squared_jump: Float[Array, " d"] | None = None
    temperature: Float[Array, ""] | None = None


class ObservedSteps(NamedTuple):
    r"""Some steps of one run, all of one kind; every array has a leading step axis $T$.

    A field is `None` if the algorithm has no such quantity: weights of a chain, ancestors of one
    particle, proposals of a filter.

    Attributes:
        log_evidence: $\log\hat p$ after the step.
        relative_ess: $(\sum_i w_i)^2 / (P \sum_i w_i^2)$ of the particles after the step.
        num_ancestors: Number of the first particles that have descendants after the step.
        acceptance: Share of proposals that were accepted, by each part of the kernel.
        temperature: Temperature at which the kernel moved.
        squared_jump: Mean squared distance of every coordinate.
        mean: Mean of every coordinate, after the step.
        mean_square: Mean square of every coordinate.

    Example:
        >>> start, posterior = Normal(0.0, 3.0), Normal(1.0, 0.5)
        >>> kernel = aide.kernels.RandomWalk(0.9)
        >>> chain = aide.mcmc(start, posterior.log_prob, kernel=kernel, num_steps=8)
        >>> steps = chain.observe_steps(jax.random.key(0))[0]
        >>> steps.acceptance.shape, steps.relative_ess is None
        ((8, 1), True)
    """

    log_evidence: Float[Array, " T"] | None = None
    relative_ess: Float[Array, " T"] | None = None
    num_ancestors: Int[Array, " T"] | None = None
    acceptance: Float[Array, "T parts"] | None = None
    temperature: Float[Array, " T"] | None = None
    squared_jump: Float[Array, "T d"] | None = None
    mean: Float[Array, "T d"] | None = None
    mean_square: Float[Array, "T d"] | None = None


def rebuilt(thing: Any, **changes: Any) -> Any:
    """Return the object with other values of some settings; `None` if no safe way is known.

    A dataclass is rebuilt by `dataclasses.replace`. An object of another class is built anew if it
    keeps each argument of its constructor as an attribute of that name. An object without
    attributes, whose settings are attributes of its class, is copied, and the copy gets the new
    values. Setting an attribute of any other object could leave numbers that were computed from the
    old value.

    Args:
        thing: The object.
        **changes: New values of settings, by name.
    """
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        settings = {field.name for field in dataclasses.fields(thing) if field.init}
        return dataclasses.replace(thing, **changes) if set(changes) <= settings else None
    kept = vars(thing) if hasattr(thing, "__dict__") else {}
    try:
        parameters = inspect.signature(type(thing)).parameters
    except (TypeError, ValueError):
        return None
    if parameters and set(changes) <= set(parameters) <= set(kept):
        settings = {parameter: kept[parameter] for parameter in parameters}
        build: Callable[..., Any] = type(thing)
        return build(**{**settings, **changes})
    if not kept and not parameters and all(hasattr(thing, name) for name in changes):
        changed = copy.copy(thing)
        for name, value in changes.items():
            setattr(changed, name, value)
        return changed
    return None


FEW_PARTICLES = (1, 2, 3)
"""Numbers of particles of small versions.

A choice: errors of weights show best among few particles, since one particle too many among 50
hardly changes a weight.
"""
FEW_STEPS = 3
"""Largest number of steps of a small version.

A choice: the first, a middle and the last step are different cases, and 3 steps have all of them.
"""
MAX_WORK_AS_GIVEN = 300
"""Largest product of particles and steps with which the algorithm itself is checked, too.

A choice: the runs of a larger algorithm would take most of the time of a check.
"""
AS_GIVEN_SHARE = 1 / 3
"""Number of runs of the algorithm itself, divided by that of a small version.

A choice: small versions show errors better, so that they get most of the runs.
"""


class Version(NamedTuple):
    r"""A small version of an algorithm, and the facts that decide which laws apply.

    Attributes:
        algorithm: The version.
        has_density: Whether $\xi$ contains the density of the output; if not, only law 2 applies,
            in which the density cancels.
        has_one_particle: Whether the version is known to have one particle.
        share: The version's number of runs, relative to the other versions'.
    """

    algorithm: InferenceAlgorithm
    has_density: bool = True
    has_one_particle: bool = False
    share: float = 1.0


class Shortened(NamedTuple):
    r"""An algorithm with few steps.

    Attributes:
        algorithm: The short algorithm.
        words: How the algorithm was shortened, as the end of a name; empty if it was not.
        has_density: Whether $\xi$ contains the density of the output.
    """

    algorithm: InferenceAlgorithm
    words: str = ""
    has_density: bool = True


Prefix = tuple[str, Callable[[], InferenceAlgorithm]]
"""The name of a move, and a function that builds the algorithm which ends after that move."""
KernelUse = tuple[Any, LogDensity]
"""An MCMC kernel, and the density it is meant for."""


class NoSuchVersion(TypeError):
    """The algorithm has no such version; the message says what to do instead."""


class AbstractAlgorithm(eqx.Module):
    """An algorithm of this library: the two operations, and methods that build other versions."""

    @abstractmethod
    def simulate(self, key: Key) -> Draw:
        r"""Sample $(u, x) \sim q(u, x)$; return $x$ and $\log\xi(u, x)$."""

    @abstractmethod
    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""Sample $u \sim r(u; x)$ for the given $x$; return $\log\xi(u, x)$."""

    def __repr__(self) -> str:
        """Return one line with class and label: fields may hold whole data sets and networks."""
        name, words = type(self).__name__, plain(describe(self))
        return words if words.startswith(name) else f"{name}: {words}"

    def shrunk(self) -> Mapping[str, InferenceAlgorithm | Version]:
        """Return small versions, in which errors show best, by name: here 1, 2 and 3 particles."""
        return few_particles(self, Shortened(self), 1)

    def with_budget(self, factor: float) -> InferenceAlgorithm | None:
        """Return the algorithm with `factor` times its `num_particles`, if it has two or more.

        The result is `None` if there is no such version.
        """
        size = getattr(self, "num_particles", None)
        if not isinstance(size, int) or size < 2:
            return None
        num, label = int(size * factor), f"{describe(self)}, budget times {factor:g}"
        named = rebuilt(self, num_particles=num, label=label)
        return rebuilt(self, num_particles=num) if named is None else named

    def with_start(self, start: Distribution, label: str = "") -> InferenceAlgorithm:
        """Return the algorithm with another start; the default raises `NoSuchVersion`."""
        raise NoSuchVersion(
            f"with_start knows the start of sir, tempered_smc, ais and mcmc, not of "
            f"{describe(self)}: build the algorithm with another start yourself."
        )

    def rivals(self) -> Mapping[str, InferenceAlgorithm]:
        """Return algorithms, by name, that an audit expects to agree with this one; here none."""
        return {}

    def prefixes(self) -> Sequence[Prefix]:
        """Return the algorithm after each of its moves, with one particle; the default has none."""
        return ()

    def kernels(self) -> Sequence[KernelUse]:
        """Return MCMC kernels on states like those of `start`, each with its density; here none."""
        return ()

    def observe_steps(self, key: Key) -> tuple[ObservedSteps, ...]:
        """Describe the steps of one run for `aide.diagnose`; the default raises `NoSuchVersion`."""
        raise NoSuchVersion(
            f"{describe(self)} has no steps to look at: aide.diagnose is for sir, tempered_smc, "
            "ais, mcmc, particle filters, aide.smc.Smc and the algorithms that aide.refine makes "
            "of them. An algorithm of your own may have a method observe_steps(key)."
        )

    def determines_trace(self) -> bool:
        r"""Whether the output is known to determine the trace, or at least $\xi$."""
        return getattr(self, "determines_log_xi", False) is True


def few_particles(
    algorithm: InferenceAlgorithm, short: Shortened, num_steps: int
) -> dict[str, Version]:
    """Return the shortened algorithm with few particles, and the algorithm itself if it is small.

    Args:
        algorithm: The algorithm. If its `num_particles` cannot be changed, the versions have as
            many.
        short: The algorithm with few steps.
        num_steps: Number of steps of the algorithm itself.

    Returns:
        Versions by name.
    """
    stated = getattr(algorithm, "num_particles", None)
    particles = stated if isinstance(stated, int) else 0
    is_one, found = particles == 1, dict[str, Version]()
    for num in (num for num in FEW_PARTICLES if num <= particles):
        small = rebuilt(short.algorithm, num_particles=num)
        if small is not None:
            name = f"{num} particle{'s' if num > 1 else ''}{short.words}"
            found[name] = Version(small, short.has_density, num == 1)
    is_whole = short.has_density and not short.words
    if found:
        is_whole = is_whole and particles in FEW_PARTICLES
    else:
        name = f"as given{short.words}"
        found[name] = Version(short.algorithm, short.has_density, is_one)
    work = max(particles, 1) * num_steps
    if not short.has_density or (not is_whole and work <= MAX_WORK_AS_GIVEN):
        share = AS_GIVEN_SHARE if short.has_density else 1.0
        found["as given"] = Version(algorithm, True, is_one, share)
    return found


def small_versions(algorithm: InferenceAlgorithm) -> dict[str, Version]:
    """Return versions with few particles and few steps, by name."""
    found: Mapping[str, Any] = _ask(algorithm, "shrunk")
    return {
        name: version if isinstance(version, Version) else Version(version)
        for name, version in found.items()
    }


def budget_version(algorithm: InferenceAlgorithm, factor: float) -> InferenceAlgorithm | None:
    """Return the algorithm with a multiple of its budget; `None` if there is no such version."""
    return _ask(algorithm, "with_budget", factor)


def started_version(
    algorithm: InferenceAlgorithm, start: Distribution, label: str = ""
) -> InferenceAlgorithm:
    """Return the algorithm with another start, or raise `NoSuchVersion`."""
    return _ask(algorithm, "with_start", start, label)


def rivals_of(algorithm: InferenceAlgorithm) -> dict[str, InferenceAlgorithm]:
    """Return other algorithms, by name, that should agree with this one."""
    return dict(_ask(algorithm, "rivals"))


def prefixes_of(algorithm: InferenceAlgorithm) -> Sequence[Prefix]:
    r"""Return the algorithm as it stands after each of its moves, with one particle.

    With one particle, $l$ of law 2 is a difference of log weights in which the densities between
    the moves cancel, so that each prefix is a complete test of its moves.
    """
    return _ask(algorithm, "prefixes")


def kernels_of(algorithm: InferenceAlgorithm) -> Sequence[KernelUse]:
    """Return MCMC kernels on states like those of the start, each with the density it is for."""
    return _ask(algorithm, "kernels")


def observed_steps(algorithm: InferenceAlgorithm, key: Key) -> tuple[ObservedSteps, ...]:
    """Describe the steps of one run, or raise `NoSuchVersion`."""
    return _ask(algorithm, "observe_steps", key)


def determines_trace(algorithm: InferenceAlgorithm) -> bool:
    """Whether the output is known to determine the trace, so that law 3 holds."""
    return _ask(algorithm, "determines_trace")


def _ask(algorithm: InferenceAlgorithm, name: str, *arguments: Any) -> Any:
    return ask(AbstractAlgorithm, algorithm, name, *arguments)


def ask(base: type, owner: object, name: str, *arguments: Any) -> Any:
    """Call the owner's method of that name, or the method of `base` if the owner has none."""
    method = getattr(owner, name, None)
    return method(*arguments) if callable(method) else getattr(base, name)(owner, *arguments)
