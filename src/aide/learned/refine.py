"""Learning tighter meta-inference for Markov chains, unadjusted annealing, AIS and SMC.

Several models of the reverse may serve an algorithm; their scores on fresh runs decide.
"""

import dataclasses
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NamedTuple, overload

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.random import as_key
from aide._core.types import TARGET, Key
from aide._core.validate import check_size
from aide.algorithms.annealed_langevin import AnnealedLangevin
from aide.algorithms.mcmc import MarkovChain
from aide.engine.programs.sharing import Client, shared_out
from aide.engine.programs.tracing import one_call
from aide.engine.runners.choose import run_pairs
from aide.kernels.retrace import parts_of
from aide.learned.fitting.families import state_size
from aide.learned.fitting.learn import can_tilt, extend_fit, learn_joint, learn_tilted
from aide.learned.fitting.reverse_fit import ReverseFit
from aide.learned.records.recorders import ChainRecorder, Recorder, SmcRecorder
from aide.learned.records.transitions import Transitions
from aide.learned.refined import (
    RefinedChain,
    RefinedLangevin,
    langevin_transitions,
    refined_label,
    transitions_of,
)
from aide.learned.refined_smc import RefinedSmc, share_out
from aide.smc.moves import KernelMove
from aide.smc.smc import Smc
from aide.smc.steps import Steps

FEWEST_DIMENSIONS = 5
"""Least dimension for tilted models; in fewer dimensions mixtures learn every shape."""
MOST_DIMENSIONS = 20
"""Largest dimension for mixtures along a path; above, they take minutes and cost nats."""
NUM_CONTEST_RUNS = 64
"""Fresh runs on which models are compared."""
TIGHT_ENOUGH = 0.1
"""Looseness in nats, with one standard error, at which no further model is learned: a choice."""


class FitScore(NamedTuple):
    r"""The score of a fit on fresh runs.

    Attributes:
        log_likelihood: Mean $\log\xi$ of fresh meta-inference at outputs: a lower bound on
            $E[\log q(x)]$, which is higher for the better model.
        looseness_limit: Looseness (mean $\log\xi$ with the true trace minus `log_likelihood`) plus
            one standard error.
    """

    log_likelihood: float
    looseness_limit: float


def learn_best(
    key: Key,
    recorder: Recorder,
    build: Callable[[ReverseFit], InferenceAlgorithm],
    *,
    num_pilots: int | None,
    num_components: int | None,
    log_z: float | None,
    progress: bool | None,
) -> ReverseFit:
    """Learn models one after another until one is tight; return the one with the best score.

    The order is: a tilted model, one with powers of the densities for runs that lag far behind, a
    mixture or table. Tilted models are left out in few dimensions, for kernels or states that they
    cannot serve, and if `num_components` asks for Gaussians. `build` makes an algorithm of a fit,
    with the reverse particles that the caller asked for.
    """
    transitions, size = recorder.transitions, state_size(recorder.transitions.start)
    of_mixture: dict[str, Any] = {"num_components": num_components, "log_z": log_z}
    shared: dict[str, Any] = {"num_pilots": num_pilots, "progress": progress}
    if num_components is not None or size < FEWEST_DIMENSIONS or not can_tilt(transitions):
        return learn_joint(key, recorder, **of_mixture, **shared)
    key_tilted, key_runs, key_power = (jax.random.fold_in(key, number) for number in (2, 3, 4))
    learners = {
        "tilted": lambda: learn_tilted(key_tilted, recorder, **shared),
        "power": lambda: learn_tilted(key_power, recorder, **shared, with_power=True),
        "mixture": lambda: learn_joint(key, recorder, **of_mixture, **shared),
    }
    if transitions.inputs is not None and size > MOST_DIMENSIONS:
        del learners["mixture"]
    found = dict[str, tuple[FitScore, ReverseFit]]()
    for name, learn in learners.items():
        fit = learn()
        found[name] = _score_fit(key_runs, build(fit)), fit
        if found[name][0].looseness_limit <= TIGHT_ENOUGH:
            break
    _, best = max(found.values(), key=lambda one: one[0].log_likelihood)
    scores = {name: score.log_likelihood for name, (score, _) in found.items()}
    scores = scores if len(scores) > 1 else {}
    return dataclasses.replace(best, held_out={**best.held_out, **scores})


def _score_fit(key: Key, algorithm: InferenceAlgorithm) -> FitScore:
    """The score of a fit as part of an algorithm; the worst score if an output has density 0."""
    pairs = run_pairs(key, algorithm, TARGET, NUM_CONTEST_RUNS)
    own, fresh = pairs.log_xi, pairs.regenerated
    if not np.isfinite(fresh).all():
        return FitScore(-np.inf, np.inf)
    gap = own - fresh
    loose = gap.mean() + gap.std(ddof=1) / NUM_CONTEST_RUNS**0.5
    return FitScore(float(fresh.mean()), float(loose))


@overload
def refine(
    key: Key | int | None,
    algorithm: MarkovChain,
    *,
    num_reverse: int = 100,
    num_pilots: int | None = None,
    num_components: int | None = None,
    log_z: float | None = None,
    fit: ReverseFit | None = None,
    towards: InferenceAlgorithm | None = None,
    label: str = "",
    progress: bool | None = None,
    executor: Executor | Client | None = None,
) -> RefinedChain: ...


@overload
def refine(
    key: Key | int | None,
    algorithm: AnnealedLangevin,
    *,
    num_reverse: int = 100,
    num_pilots: int | None = None,
    num_components: int | None = None,
    log_z: float | None = None,
    fit: ReverseFit | None = None,
    label: str = "",
    progress: bool | None = None,
    executor: Executor | Client | None = None,
) -> RefinedLangevin: ...


@overload
def refine(
    key: Key | int | None,
    algorithm: Smc,
    *,
    num_reverse: int = 100,
    num_islands: int | None = None,
    num_pilots: int | None = None,
    num_components: int | None = None,
    fit: ReverseFit | None = None,
    label: str = "",
    progress: bool | None = None,
    executor: Executor | Client | None = None,
) -> RefinedSmc: ...


@one_call()
def refine(
    key: Key | int | None,
    algorithm: MarkovChain | AnnealedLangevin | Smc,
    *,
    num_reverse: int = 100,
    num_islands: int | None = None,
    num_pilots: int | None = None,
    num_components: int | None = None,
    log_z: float | None = None,
    fit: ReverseFit | None = None,
    towards: InferenceAlgorithm | None = None,
    label: str = "",
    progress: bool | None = None,
    executor: Executor | Client | None = None,
) -> RefinedChain | RefinedLangevin | RefinedSmc:
    r"""The same algorithm with learned meta-inference, for where canonical meta-inference is loose.

    For `aide.mcmc`, `aide.annealed_langevin`, `aide.ais`, `aide.tempered_smc` and other `Smc` whose
    moves are kernels followed by a weight (one `Steps`). Canonical meta-inference walks back as if
    every kernel had reached its density, which is far from true for a chain that has not arrived,
    for coarse schedules and for few particles. `refine` makes pilot runs and fits the joint law of
    state and record along a grid of times: a mixture of the kernel in equilibrium and Gaussians,
    or a table where states are integers; from 5 dimensions on first the kernel's own guess, tilted
    (`aide.learned.models.tilted`), then with powers of the densities, then the mixture, each only
    if the bound is not yet tight: fresh runs decide between them. Outputs have the same law (for
    AIS and SMC they are the same, key by key), and any fit gives a valid bound;
    `result.looseness` says whether it is tight.

    Args:
        key: A JAX key, or an integer seed for pilot runs; use another one for the estimate itself.
        algorithm: The algorithm to refine. Its kernel is a Metropolis kernel, `Ula`, `Sgld`, or a
            `Cycle` or `Repeat` of them; for discrete states `GibbsSites` or `FiniteNoise`.
        num_reverse: Reverse particles, for the path that led to the output. Looseness is about
            proportional to their inverse.
        num_islands: For SMC, populations, for the other particles; by default as many as make up
            `num_reverse` particles. With tilted models they are divided among several paths.
        num_pilots: Pilot runs: by default 2,000 for one dimension up to 8,000 for eleven, with
            `Nuts` up to 16,384 for 23; for tilted models 8 times the squared dimension, from 8,192
            to 32,768.
        num_components: Gaussians for accepted steps (half as many for rejected ones; with `Nuts`
            pairs); by default chosen by the likelihood of held-out pilots. If stated, a mixture is
            learned.
        log_z: For a chain, $\log\int\gamma$ if you know it; estimated otherwise. Affects looseness
            only.
        fit: An earlier fit, `refined.fit` or from `aide.learned.load_reverse`; no pilots are run,
            and `key` may be `None`.
        towards: For a chain of real numbers, all of whose steps are of one kernel: a gold standard
            that visits modes which the chain's start misses. From 200 of its outputs the way back
            from these modes is learned too, which pilots do not show; use many reverse particles,
            such as 1,000. A fit that serves these outputs already is left unchanged.
        label: A name for tables.
        progress: Show a progress bar; by default in long runs at a terminal.
        executor: Runs pilots, and the fresh runs that compare models, elsewhere; see `aide.draw`.
            The fit is the same to the bit. Models are fitted to the pilots here, by one program.

    Returns:
        The refined algorithm, whose `fit` has notes on what was learned.

    Example:
        >>> posterior = Normal(1.0, 0.5)
        >>> kernel = aide.kernels.RandomWalk(0.9)
        >>> chain = aide.mcmc(Normal(0.0, 3.0), posterior.log_prob, kernel=kernel, num_steps=8)
        >>> refined = aide.refine(0, chain, num_pilots=300, num_reverse=30)
        >>> gold = aide.Tractable.of(posterior)
        >>> sizes = {"num_gold": 50, "num_target": 50}
        >>> tight, loose = (aide.estimate(1, gold, each, **sizes) for each in (refined, chain))
        >>> tight.value < loose.value  # the same chain, a tighter bound
        True
    """
    refinement = _refinement_of(algorithm, num_reverse, num_islands, label)
    recorder = refinement.recorder
    if not isinstance(algorithm, MarkovChain):
        _refuse("towards", towards, "annealing must start from a density that covers all modes")
    if isinstance(algorithm, Smc):
        _refuse("log_z", log_z, "SMC estimates it")
    effort: dict[str, Any] = {"num_pilots": num_pilots, "num_components": num_components}
    effort |= {"log_z": log_z, "progress": progress}
    with shared_out(executor):
        fit = _learned(key, refinement, fit, towards, effort)
    refined = refinement.build(fit)
    first = recorder.transitions.first()
    fit.check_serves(recorder.transitions.start, first.log_density, first.kernel)
    return refined


def _learned(
    key: Key | int | None,
    refinement: "_Refinement",
    fit: ReverseFit | None,
    towards: InferenceAlgorithm | None,
    effort: dict[str, Any],
) -> ReverseFit:
    """The fit, learned from pilots unless there is one, and extended towards a gold standard."""
    recorder = refinement.recorder
    if fit is None:
        check_size("num_steps", recorder.transitions.num_steps)
        if towards is None:
            fit = learn_best(as_key(key), recorder, refinement.build, **effort)
        else:  # only a mixture can be divided
            fit = learn_joint(as_key(key), recorder, **effort)
    if towards is None:
        return fit
    return extend_fit(jax.random.fold_in(as_key(key), 2), recorder.transitions, fit, towards)


class _Refinement(NamedTuple):
    """The way to refine algorithms of one kind.

    Attributes:
        recorder: Makes one run of the algorithm, with a record of every step.
        build: Makes a refined algorithm of a fit; raises if the fit is for another length.
    """

    recorder: Recorder
    build: Callable[[ReverseFit], Any]


def _refinement_of(
    algorithm: Any, num_reverse: int, num_islands: int | None, label: str
) -> _Refinement:
    """The refinement of an algorithm; raise if the algorithm cannot be refined."""
    label = label or refined_label(algorithm)
    if isinstance(algorithm, MarkovChain):
        _refuse("num_islands", num_islands, "a chain has no other particles")
        transitions = transitions_of(algorithm)
        parts_of(transitions.first().kernel)
        build = lambda fit: RefinedChain(algorithm, fit, num_reverse, label=label)
        return _Refinement(ChainRecorder(transitions), build)
    if isinstance(algorithm, AnnealedLangevin):
        _refuse("num_islands", num_islands, "the algorithm has no other particles")
        build = lambda fit: RefinedLangevin(algorithm, fit, num_reverse, label=label)
        return _Refinement(ChainRecorder(langevin_transitions(algorithm)), build)
    transitions = _check_smc(algorithm)
    if num_islands is None:
        num_islands = max(1, num_reverse // algorithm.num_particles)
    total = num_islands

    def build_smc(fit: ReverseFit) -> RefinedSmc:
        _check_length(fit, transitions.num_steps)
        # Mixtures use one path, so that their keyed results stay the same.
        islands, paths = share_out(total) if fit.models[0].tilts else (total, 1)
        return RefinedSmc(algorithm, fit, num_reverse, islands, paths, label=label)

    return _Refinement(SmcRecorder(algorithm), build_smc)


def _refuse(name: str, value: Any, reason: str) -> None:
    if value is not None:
        raise ValueError(f"{name} = {value} is not for this algorithm: {reason}. Leave it out.")


def _check_length(fit: ReverseFit, num_steps: int) -> None:
    """Raise unless a fit was learned for SMC with `num_steps` moves."""
    num_weights = len(fit.mean_weights.log_own)
    if fit.num_steps != num_steps or num_weights != num_steps + 1:
        raise ValueError(
            f"this fit is for {fit.num_steps} moves of "
            f"{'an SMC algorithm' if num_weights else 'a chain'}, got an SMC algorithm with "
            f"{num_steps} moves. Leave fit out to learn one."
        )


def _check_smc(algorithm: Any) -> Transitions:
    """The transitions of an SMC algorithm; raise if it cannot be refined."""
    moves = algorithm.moves if isinstance(algorithm, Smc) else ()
    if len(moves) == 1 and isinstance(moves[0], Steps) and moves[0].num_steps:
        transitions = Transitions.of(algorithm.start, moves[0])
        move = transitions.first()
        if isinstance(move, KernelMove):
            parts_of(move.kernel)
            return transitions
    raise TypeError(
        "refine needs a chain built by aide.mcmc, an algorithm built by aide.annealed_langevin, "
        "aide.ais or aide.tempered_smc with at least two temperatures, or an aide.smc.Smc with one "
        "aide.smc.Steps of moves that are kernels followed by a weight (aide.smc.KernelMove), got "
        f"{describe(algorithm)}. Raise num_meta_target instead."
    )
