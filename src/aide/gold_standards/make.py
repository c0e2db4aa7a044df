"""Making a gold standard: tuned by pilots, frozen, tested with fresh runs."""

from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from typing import Any

import jax
import numpy as np

from aide._core.algorithm import Aside, InferenceAlgorithm, describe
from aide._core.distribution import Distribution, check_distribution, is_distribution, possible
from aide._core.keywords import keywords
from aide._core.random import as_key
from aide._core.types import Key, LogDensity, Value
from aide._core.validate import check_count, check_positive
from aide.algorithms.particle_filter import Proposal, StateSpaceModel
from aide.engine.programs.map_runs import Progress, quick_while_fast
from aide.engine.programs.programs import compile_quickly
from aide.engine.programs.sharing import Client, shared_out
from aide.engine.programs.tracing import one_call
from aide.gold_standards.annealed import Annealed, half_of, make_annealed, make_rival
from aide.gold_standards.budget import (
    COVERING_GIVEN_UP,
    LAST_RIVAL,
    RIVAL_GIVEN_UP,
    Budget,
    Goal,
    Laps,
    TooLate,
    now,
)
from aide.gold_standards.choices import check_kind, choose_tuner, has_gradient
from aide.gold_standards.exploring import (
    check_arrived,
    compare_pilots,
    cover_explored,
    explore,
    stretchable,
    wider,
)
from aide.gold_standards.filtered import make_filtered
from aide.gold_standards.pilots.losses import Losses
from aide.gold_standards.pilots.schedule import make_recipe
from aide.gold_standards.pilots.tuners import Tuner
from aide.gold_standards.result import GoldStandard, Making
from aide.gold_standards.starts.climbing import join_modes
from aide.gold_standards.starts.tails import NUM_POINTS, fit_start
from aide.gold_standards.testing import run_tests
from aide.gold_standards.words import chosen_words, remarks_of, title_of
from aide.kernels.kernel import AnyKernel

MAX_LOOSENESS = 0.05
"""Default of the largest accepted looseness, in nats: a choice, small beside usual tolerances."""
MAX_EVALUATIONS = 1e9
"""Default limit of evaluations of the log density or its gradient: no limit in practice."""
LATE_WORDS = "Pilots from a wider start were left out:"
"""Begin the sentence on a rival that was left out for lack of time."""
PHASES = ("pilots", "pilots from a wider start", "number of particles")
"""Names of the progress bars before those of the tests, each with its seconds."""
TICKS = 100
"""Ticks of the progress bar for one path."""


@keywords("aide.gold_standard")
@one_call()
def gold_standard(
    key: Key | int,
    log_joint: LogDensity | StateSpaceModel,
    start: Distribution | Value | None = None,
    *,
    max_looseness: float = MAX_LOOSENESS,
    kernel: AnyKernel | None = None,
    proposals: Sequence[Proposal] = (),
    max_evaluations: float = MAX_EVALUATIONS,
    max_seconds: float | None = None,
    num_pilots: int | None = None,
    num_values: Value | None = None,
    progress: bool | None = None,
    names: Sequence[str] | None = None,
    executor: Executor | Client | None = None,
) -> GoldStandard:
    r"""A gold standard for a posterior: pilots choose all numbers, then fresh runs test the result.

    For a log density: tempered SMC from `start` $k_1$. With $h = \log\gamma - \log k_1$ and
    $\tau_\beta$ its autocorrelation time under the kernel, pilots choose temperatures of equal
    length along $\int\sqrt{\mathrm{var}_\beta(h)\,\tau_\beta}\,d\beta$ (closer where weights vary
    and where one step does not mix); a kernel for each (HMC with step size, metric and number of
    leapfrog steps, a random walk where there is no gradient, Gibbs sweeps on integers); and
    particles until the looseness $E[|l|\tanh(|l|/2)]$, $l = \log\xi_2 - \log\xi_1$ of a run and its
    regeneration, is at most `max_looseness`. For a `StateSpaceModel`: a particle filter over whole
    paths, with the best of the proposals.

    The result never changes again: all laws of algorithms hold for it. Fresh runs then measure
    its looseness and its log evidence, and compare the result with a version at half the budget
    and, if there is one, with a version from another start that was tuned there. A mode that no
    start and no pilot visits cannot be seen.

    Args:
        key: A JAX key, or an integer seed.
        log_joint: $\log\gamma(x)$, prior times likelihood, up to a constant; or a
            `StateSpaceModel`. A state at which it is NaN or $+\infty$ counts as impossible; such
            states are counted and reported. An error if they are more than half of the start's
            draws, or more than 1% of the points within a standard deviation of draws from the
            posterior. `aide.algorithms.strict(log_joint)` makes every such point an error.
        start: A distribution from which the path sets out: the prior, or any that covers the
            posterior. Or one state of the right structure, such as `np.zeros(61)`: then a
            heavy-tailed distribution is fitted to the modes that optimisers find from points
            scattered about it.
        max_looseness: Largest accepted looseness, in nats.
        kernel: Your own kernel for all temperatures; needed where a state mixes integers and reals.
        proposals: For a `StateSpaceModel`: `Proposal`s to try beside the model's own transition;
            the result must agree with the filter of the second-best proposal.
        max_evaluations: Approximate limit of evaluations of the log density or its gradient; a
            Gibbs update counts as one evaluation per value of its site.
        max_seconds: Approximate limit in seconds. Pilots of the first pass, a compilation and a
            chunk of runs are not interrupted, by which the call may overrun. Later steps are left
            out first (also the version from another start, without which `passed` is false), then
            tests. The result depends on the machine.
        num_pilots: Particles of the pilots; by default chosen by the dimension.
        num_values: For integers: the number of values 0, 1, 2, … of each site, one number or an
            array of the state's shape. Not needed where the start has a bounded support (NumPyro's
            categoricals) or an attribute `num_values`; draws cannot show the number.
        progress: Show progress bars; by default in long runs at a terminal.
        names: Names of the coordinates of the flat state, for messages.
        executor: Runs trial runs, the runs of the tests, and those steps of pilots that take 0.1
            seconds or more elsewhere; see `aide.draw`. The gold standard is the same to the bit.
            Optimisers that climb to modes run here, since each step follows from the one before.

    Returns:
        The gold standard, an algorithm for every other call; printed, it says what tests showed.

    Example:
        >>> prior = Normal(0.0, 3.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * ((x - 1.0) / 0.5) ** 2
        >>> gold = aide.gold_standard(0, log_joint, prior, num_pilots=100, max_looseness=0.3)
        >>> fit = aide.Tractable.of(Normal(1.0, 0.5))
        >>> aide.estimate(0, gold, fit, num_gold=50, num_target=50).value < 0.5
        True
    """
    key, begun = as_key(key), now()
    check_positive("max_looseness", max_looseness)
    check_positive("max_evaluations", max_evaluations)
    if num_pilots is not None:
        check_count("num_pilots", num_pilots, 10)
    if max_seconds is not None:
        check_positive("max_seconds", max_seconds)
    seconds = np.inf if max_seconds is None else float(max_seconds)
    words = None if names is None else tuple(map(str, names))
    goal = Goal(max_looseness, Budget(float(max_evaluations), seconds), num_pilots, words)
    _check_parts(log_joint, start, kernel, proposals, num_values)
    with shared_out(executor):
        if isinstance(log_joint, StateSpaceModel):
            return make_filtered(key, log_joint, tuple(proposals), goal, progress)
        return _make_tempered(
            key, possible(log_joint), start, kernel, num_values, goal, progress, begun
        )


def _make_tempered(
    key: Key,
    log_joint: LogDensity,
    start: Any,
    kernel: AnyKernel | None,
    num_values: Any,
    goal: Goal,
    progress: bool | None,
    begun: float,
) -> GoldStandard:
    """Tempered SMC from a start: pilots, the number of particles, tests."""
    key_start, key_one, key_other, key_size, key_test = jax.random.split(key, 5)
    # Only `_start` draws with `key_start`: the other two look at the shape of a draw.
    own_start = stretchable(key_start, _start(key_start, log_joint, start, goal.budget, progress))
    tuner = choose_tuner(key_start, log_joint, own_start, kernel, num_values)
    clock = Laps(begun)
    clock.lap("start")
    wider_start, rival, failure = wider(own_start), None, ""
    with Progress(PHASES, (TICKS, TICKS, 1), progress) as bars, ExitStack() as quickly:
        report_first, report_rival = _reporter(bars, 0), _reporter(bars, 1)
        report_size = bars.reporter(2)
        quickly.enter_context(quick_while_fast())  # until the last pilots have arrived
        first = explore(key_one, log_joint, own_start, tuner, goal, report_first)
        clock.lap("pilots")
        tuner, modes = first.tuner, first.modes  # the tuner knows the structure that pilots found
        if wider_start is not None and goal.budget.is_late(LAST_RIVAL):
            failure = f"{LATE_WORDS} {goal.budget.words(LAST_RIVAL)} had passed."
        elif wider_start is not None:
            try:
                with goal.budget.until(RIVAL_GIVEN_UP):
                    rival = explore(key_other, log_joint, wider_start, tuner, goal, report_rival)
                    check_arrived(rival, goal)
                    modes = join_modes(modes, rival.modes)  # both covering starts need all modes
                    rival = cover_explored(key_other, log_joint, rival, modes, goal, report_rival)
            except (ValueError, RuntimeError) as error:
                rival, failure = None, f"Pilots from a wider start failed: {error}"
        clock.lap("pilots from a wider start")
        with suppress(TooLate), goal.budget.until(COVERING_GIVEN_UP):
            first = cover_explored(key_one, log_joint, first, modes, goal, report_first)
        clock.lap("pilots")
        quickly.close()
        objections = compare_pilots([first] if rival is None else [first, rival])
        num_rival = 0 if rival is None else len(make_recipe(rival.pilot, tuner).temperatures)
        report_size(0)  # the clock of this progress bar starts
        one = make_annealed(key_size, log_joint, first, goal, num_rival)
        other = make_rival(log_joint, one, rival) if rival is not None else None
        report_size(1)
        clock.lap("number of particles")
    half = half_of(log_joint, one, tuner)
    versions = (one, half, other)
    return _test(key_test, versions, tuner, goal, failure, objections, progress, begun, clock)


def _test(
    key: Key,
    versions: tuple[Annealed, InferenceAlgorithm | None, Annealed | None],
    tuner: Tuner,
    goal: Goal,
    failure: str,
    objections: tuple[str, ...],
    progress: bool | None,
    begun: float,
    clock: Laps,
) -> GoldStandard:
    (one, half, other), name = versions, "itself from a start twice as wide, tuned there"
    losses = Losses() if one.pilot is None else one.pilot.losses
    if other is not None and other.pilot is not None:
        losses = losses.joined(other.pilot.losses)
    rivals = {} if other is None else {name: other.algorithm}
    cost = one.recipe.cost(tuner) * one.recipe.num_particles
    spent = one.num_evaluations + (0.0 if other is None else other.num_evaluations)
    with compile_quickly(one.quick):
        tested = run_tests(key, one.algorithm, half, rivals, (spent, cost), progress, goal.budget)
    if failure:
        tested = tested.failing(name, failure)
    remarks = (*remarks_of(one, tested, goal), *([losses.words] if losses.words else []))
    clock.lap("tests")
    chosen = (*chosen_words(one, tuner), ("seconds", clock.words))
    record = tested.record(
        title_of(one, tuner), chosen, remarks, goal.looseness, (spent, cost), begun, objections
    )
    recipes = (one,) if other is None else (one, other)
    rival = None if other is None else other.algorithm
    return GoldStandard(one.algorithm, Aside(Making(record, rival, recipes)))


def _check_parts(
    log_joint: LogDensity | StateSpaceModel,
    start: Any,
    kernel: Any,
    proposals: Any,
    num_values: Any,
) -> None:
    """Raise if an argument would not be used."""
    if isinstance(log_joint, StateSpaceModel):
        if not (start is None and kernel is None and num_values is None):
            raise TypeError(
                "a StateSpaceModel brings its own start and has no kernel: leave out start=, "
                "kernel= and num_values=, and pass proposals= for better moves."
            )
    elif not callable(log_joint):
        raise TypeError(
            f"log_joint must be a function of the state or a StateSpaceModel, got "
            f"{describe(log_joint)}."
        )
    elif len(tuple(proposals)):
        raise TypeError("proposals= are for a StateSpaceModel; for a log density pass kernel=.")


def _start(
    key: Key, log_joint: LogDensity, start: Any, budget: Budget, progress: bool | None
) -> Distribution:
    if start is None:
        raise ValueError(
            "aide.gold_standard needs start=: a distribution (the prior, say), or one state of the "
            "right structure, such as np.zeros(61): modes are then sought about that state."
        )
    if is_distribution(start):
        check_distribution("start", start)
        check_kind(key, start)
        return start
    kinds = {np.asarray(leaf).dtype.kind for leaf in jax.tree.leaves(start)}
    if not kinds or not kinds <= {"f"}:
        raise TypeError(
            f"start must be a distribution or a state of real numbers, got {describe(start)}. For "
            "integers pass a distribution over them; write reals as floats, such as np.zeros(3)."
        )
    if not has_gradient(log_joint, start):
        raise TypeError(
            "optimisers need a gradient, and JAX cannot differentiate this log_joint: pass start=, "
            "a distribution that covers the posterior."
        )
    with Progress(("climbs to modes",), (NUM_POINTS,), progress) as bars:
        return fit_start(key, log_joint, start, budget, bars.reporter(0))


def _reporter(bars: Progress, bar: int) -> Any:
    report, done = bars.reporter(bar), [0]

    def on_progress(number: int, temperature: float) -> None:
        # Small temperatures take as many steps as large ones; a second pass starts at the end.
        reached = TICKS if number else int(TICKS * temperature**0.25)
        report(max(reached - done[0], 0))
        done[0] = max(reached, done[0])

    return on_progress
