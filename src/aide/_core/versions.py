"""Other versions of an algorithm: small, short, with another budget, from another start; its steps.

Only an algorithm knows what it is made of, so each kind of version is a method of it, and so is
what a run shows of its steps (`ObservedSteps`). `AbstractAlgorithm` has all of them; its own say
that there is no such version, or rebuild the algorithm with other `num_particles`. Algorithms of
users need no base class: whoever wants a version calls the function of this file, which asks the
algorithm's own method and falls back on the one here.
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
    """One particle moved, and how.

    Attributes:
        value: Where it is.
        log_weight: The move's log weight.
        acceptance: Share of proposals that were accepted, by each part of the kernel; `None` where
            nothing is proposed.
        squared_jump: Squared distance of every coordinate; `None` for a move to another space.
        temperature: That of the density which the kernel leaves invariant; `None` off a path.
    """

    value: Value
    log_weight: LogProb
    acceptance: Float[Array, " parts"] | None = None
    squared_jump: Float[Array, " d"] | None = None
    temperature: Float[Array, ""] | None = None


class ObservedSteps(NamedTuple):
    r"""Some steps of one run, of one kind; a leading step axis $T$ everywhere.

    What does not exist is `None`: weights of a chain, ancestors of one particle, proposals of a
    filter.

    Attributes:
        log_evidence: $\log\hat p$ after the step.
        relative_ess: $(\sum_i w_i)^2 / (P \sum_i w_i^2)$ of the particles after the step.
        num_ancestors: How many first particles have descendants after the step.
        acceptance: Share of proposals that were accepted, by each part of the kernel.
        temperature: Temperature at which the kernel moved.
        squared_jump: Mean squared distance of every coordinate.
        mean: Mean of every coordinate, after the step.
        mean_square: Mean square of every coordinate.
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
    """The same object with other values of some settings; `None` if that is unsafe.

    A dataclass is replaced. Another class is built anew from its attributes if each argument of its
    constructor is kept under its own name, and copied if the settings are class attributes and the
    object holds nothing of its own. A changed attribute alone would leave alone what was derived
    from it.
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
"""Numbers of particles of small versions: errors of the weights show best among few."""
MOST_STEPS = 3
"""Number of steps that a small version keeps."""
MOST_WORK = 300
"""Largest product of particles and steps with which the algorithm itself is checked, too."""
AS_GIVEN_SHARE = 1 / 3
"""Runs of the algorithm itself relative to those of a small version, which shows errors better."""


class Version(NamedTuple):
    r"""A small version of an algorithm, and what is known about it.

    Attributes:
        algorithm: The version.
        has_density: Whether $\xi$ is complete; without it only law 2, in which the density of the
            output cancels, applies.
        has_one_particle: Whether it is known to have one particle.
        share: Its share of the runs, relative to the others'.
    """

    algorithm: InferenceAlgorithm
    has_density: bool = True
    has_one_particle: bool = False
    share: float = 1.0


class Shortened(NamedTuple):
    """An algorithm with few steps, in words what was done, and whether its density is complete."""

    algorithm: InferenceAlgorithm
    words: str = ""
    has_density: bool = True


Prefix = tuple[str, Callable[[], InferenceAlgorithm]]
"""A name, and a builder of the algorithm up to there."""
KernelUse = tuple[Any, LogDensity]
"""An MCMC kernel, and the density it is meant for."""


class NoSuchVersion(TypeError):
    """The algorithm cannot be had like that; the message says what to do instead."""


class AbstractAlgorithm(eqx.Module):
    """An algorithm of this library: the two operations, and the versions it can be had in."""

    @abstractmethod
    def simulate(self, key: Key) -> Draw:
        r"""Sample $(u, x) \sim q(u, x)$; return $x$ and $\log\xi(u, x)$."""

    @abstractmethod
    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""Sample $u \sim r(u; x)$ for the given $x$; return $\log\xi(u, x)$."""

    def __repr__(self) -> str:
        """One line that says what it is; its fields may hold whole data sets and networks."""
        name, words = type(self).__name__, plain(describe(self))
        return words if words.startswith(name) else f"{name}: {words}"

    def shrunk(self) -> Mapping[str, InferenceAlgorithm | Version]:
        """Named small versions, in which errors show best: here 1, 2 and 3 particles."""
        return few_particles(self, Shortened(self), 1)

    def with_budget(self, factor: float) -> InferenceAlgorithm | None:
        """The algorithm with that multiple of its `num_particles`, if it has two or more.

        `None` if there is no such version.
        """
        size = getattr(self, "num_particles", None)
        if not isinstance(size, int) or size < 2:
            return None
        num, label = int(size * factor), f"{describe(self)}, budget times {factor:g}"
        named = rebuilt(self, num_particles=num, label=label)
        return rebuilt(self, num_particles=num) if named is None else named

    def with_start(self, start: Distribution, label: str = "") -> InferenceAlgorithm:
        """The algorithm from another start; an error, unless the algorithm says how."""
        raise NoSuchVersion(
            f"with_start knows the start of sir, tempered_smc, ais and mcmc, not of "
            f"{describe(self)}: build the algorithm with another start yourself."
        )

    def rivals(self) -> Mapping[str, InferenceAlgorithm]:
        """Algorithms that should agree with it, which an audit compares it with; here none."""
        return {}

    def prefixes(self) -> Sequence[Prefix]:
        """The algorithm after each of its moves, with one particle; none are known here."""
        return ()

    def kernels(self) -> Sequence[KernelUse]:
        """MCMC kernels on states like those of `start`, each with its density; here none."""
        return ()

    def observe_steps(self, key: Key) -> tuple[ObservedSteps, ...]:
        """What the steps of one run show, for `aide.diagnose`; an error: nothing is known here."""
        raise NoSuchVersion(
            f"{describe(self)} has no steps to look at: aide.diagnose is for sir, tempered_smc, "
            "ais, mcmc, particle filters, aide.smc.Smc and what aide.refine makes of them. An "
            "algorithm of your own may have a method observe_steps(key)."
        )

    def determines_trace(self) -> bool:
        r"""Whether the output is known to determine the trace, or at least $\xi$."""
        return getattr(self, "determines_log_xi", False) is True


def few_particles(
    algorithm: InferenceAlgorithm, short: Shortened, num_steps: int
) -> dict[str, Version]:
    """The shortened algorithm with few particles, and the algorithm itself where it is small.

    Args:
        algorithm: The algorithm; one whose `num_particles` cannot be changed keeps them.
        short: The same with few steps.
        num_steps: Steps of the algorithm itself.
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
    if not short.has_density or (not is_whole and work <= MOST_WORK):
        share = AS_GIVEN_SHARE if short.has_density else 1.0
        found["as given"] = Version(algorithm, True, is_one, share)
    return found


def small_versions(algorithm: InferenceAlgorithm) -> dict[str, Version]:
    """Named versions with few particles and few steps."""
    found: Mapping[str, Any] = _ask(algorithm, "shrunk")
    return {
        name: version if isinstance(version, Version) else Version(version)
        for name, version in found.items()
    }


def budget_version(algorithm: InferenceAlgorithm, factor: float) -> InferenceAlgorithm | None:
    """The algorithm with a multiple of its budget; `None` if there is no such version."""
    return _ask(algorithm, "with_budget", factor)


def started_version(
    algorithm: InferenceAlgorithm, start: Distribution, label: str = ""
) -> InferenceAlgorithm:
    """The algorithm from another start; `NoSuchVersion` if it does not know itself from there."""
    return _ask(algorithm, "with_start", start, label)


def rivals_of(algorithm: InferenceAlgorithm) -> dict[str, InferenceAlgorithm]:
    """Other algorithms that should agree with it, by name."""
    return dict(_ask(algorithm, "rivals"))


def prefixes_of(algorithm: InferenceAlgorithm) -> Sequence[Prefix]:
    r"""The algorithm after each of its moves, with one particle.

    With one particle $l$ is a difference of log weights in which the densities between the moves
    cancel, so that each prefix is a complete test of its moves.
    """
    return _ask(algorithm, "prefixes")


def kernels_of(algorithm: InferenceAlgorithm) -> Sequence[KernelUse]:
    """MCMC kernels with the density each is meant for, as long as states are those of the start."""
    return _ask(algorithm, "kernels")


def observed_steps(algorithm: InferenceAlgorithm, key: Key) -> tuple[ObservedSteps, ...]:
    """What the steps of one run show; `NoSuchVersion` if the algorithm does not say."""
    return _ask(algorithm, "observe_steps", key)


def determines_trace(algorithm: InferenceAlgorithm) -> bool:
    """Whether the output is known to determine the trace, so that law 3 holds."""
    return _ask(algorithm, "determines_trace")


def _ask(algorithm: InferenceAlgorithm, name: str, *arguments: Any) -> Any:
    return ask(AbstractAlgorithm, algorithm, name, *arguments)


def ask(base: type, owner: object, name: str, *arguments: Any) -> Any:
    """Call the owner's method of that name, or that of `base` where the owner has none."""
    own = getattr(owner, name, None)
    return own(*arguments) if callable(own) else getattr(base, name)(owner, *arguments)
