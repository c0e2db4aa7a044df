"""`aide.audit`: a gold standard against itself at other budgets and from other starts."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.distribution import (
    Distribution,
    check_distribution,
    is_distribution,
    log_density_of,
    sample_from,
)
from aide._core.keywords import keywords
from aide._core.numerics import as_parameter
from aide._core.random import as_key
from aide._core.types import Key, LogProb, Parameter, Value
from aide._core.validate import check_count, check_positive
from aide._core.versions import NoSuchVersion, budget_version, rivals_of, started_version
from aide.auditing.result import Audit, AuditTest
from aide.auditing.simulated import Simulated
from aide.comparing.compare import compare
from aide.engine.draws import Draws
from aide.engine.outputs import check_algorithm
from aide.engine.programs.map_runs import in_double, map_runs
from aide.engine.programs.programs import compile_quickly
from aide.engine.programs.tracing import one_call
from aide.engine.runners.choose import identity_of
from aide.engine.stage import Client
from aide.estimation.closeness import check_tolerance

NUM_CENTRE = 1000
"""Draws of a start whose mean is the centre about which the start is widened."""
NUM_RUNS = 300
"""Default number of runs of each version."""
NUM_RUNS_OF_MADE = 60
"""Default number of runs of each version of a gold standard from `aide.gold_standard`.

The audit then costs no more than an estimate. An estimate has 3 runs and meta-inference runs of the
gold standard for each of 500 outputs. Half and double budget and a rival of up to 4 times the cost
make 24.5 for each of 60.
"""


class Widened(eqx.Module):
    r"""A real-valued distribution stretched about a centre: $x = c + a\,(x_0 - c)$.

    Args:
        distribution: The law of $x_0$.
        centre: $c$, in the structure of the state.
        factor: $a$.
    """

    distribution: Distribution
    centre: Value
    factor: Parameter = eqx.field(converter=as_parameter)

    def sample(self, key: Key) -> Value:
        """Draw a state and stretch it."""
        x = sample_from(self.distribution, key)
        return jax.tree.map(lambda a, c: c + self.factor * (a - c), x, self.centre)

    def log_density(self, x: Value) -> LogProb:
        """The log density of a stretched draw."""
        back = jax.tree.map(lambda a, c: c + (a - c) / self.factor, x, self.centre)
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(self.centre))
        value = log_density_of(self.distribution, back) - size * jnp.log(self.factor)
        # A density that overflow leaves without a number, far outside, counts as zero.
        return jnp.where(jnp.isnan(value), -jnp.inf, value)


def can_be_widened(key: Key, thing: object) -> bool:
    """Whether an object is a distribution of real values."""
    if not is_distribution(thing):
        return False
    shapes = in_double(jax.eval_shape, lambda k: sample_from(thing, k), key)
    return all(jnp.issubdtype(shape.dtype, jnp.floating) for shape in jax.tree.leaves(shapes))


def widen(key: Key, distribution: Distribution, factor: float) -> Widened:
    """Stretch a distribution about its mean, which is estimated from draws."""
    check_distribution("distribution", distribution)
    check_positive("factor", factor)
    if not can_be_widened(key, distribution):
        raise TypeError("only real-valued starts can be widened; this one has discrete parts.")
    words = np.asarray(jax.random.key_data(jax.random.split(key, NUM_CENTRE)))
    with compile_quickly():
        draws = map_runs(_sample, distribution, key, (words,), what="the start")
    centre = jax.tree.map(lambda a: np.asarray(a, np.float64).mean(axis=0), draws)
    return Widened(distribution, jax.tree.map(as_parameter, centre), factor)


def _sample(distribution: Distribution, key: Key, words: Any) -> Value:
    """Draw by the key made of these words, as an operation of the engine."""
    return sample_from(distribution, jax.random.wrap_key_data(words, impl=jax.random.key_impl(key)))


@keywords("aide.audit")
@one_call()
def audit(
    key: Key | int,
    gold: InferenceAlgorithm,
    *,
    with_budget: Callable[[float], InferenceAlgorithm | None] | None = None,
    starts: Mapping[str, InferenceAlgorithm] | Iterable[InferenceAlgorithm] = (),
    start_factor: float | None = 3.0,
    simulated: Simulated | None = None,
    tolerance: float = 0.5,
    num_runs: int | None = None,
    num_meta: int = 1,
    measure_looseness: bool = True,
    keep_values: bool | None = None,
    share: Draws | None = None,
    first_run: int = 0,
    checkpoint: Mapping[str, str | Path] | None = None,
    chunk_size: int | None = None,
    progress: bool | None = None,
    executor: Executor | Client | None = None,
    unchanged: bool = False,
) -> Audit:
    r"""Compare a gold standard with itself: at half and double budget, and from other starts.

    Each comparison is AIDE's upper bound on the symmetrised KL divergence between two versions of
    the gold standard, whose runs are shared by all of them. Where the bound exceeds the tolerance,
    the lower bound of `Estimate.sandwich` tells disagreement from looseness. Agreement is
    necessary, never sufficient: the result states in words what no such test can show.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard.
        with_budget: `with_budget(factor)` builds the gold standard with `factor` times its budget,
            for factors of 0.5 and 2. Not needed for algorithms with two or more
            `num_particles`, nor for those with a method `with_budget(factor)`. Either may return
            `None`.
        starts: The gold standard from other starts, far apart and wide; the method
            `gold.with_start(start)` builds them. A dict gives them names.
        start_factor: `sir`, `tempered_smc`, `ais` and `mcmc` with real-valued states are also
            started from a distribution this many times as wide; `None` leaves it out. A gold
            standard from `aide.gold_standard` is compared with its rival instead, which was tuned
            for another start.
        simulated: The result of `aide.audit_simulated` for the same algorithm, for the verdict.
        tolerance: Nats of disagreement that are small enough.
        num_runs: Runs of each version: by default 300, or 60 of a gold standard from
            `aide.gold_standard`, which is tight enough for fewer; the audit then costs no more than
            an estimate.
        num_meta: Meta-inference runs per output; more tighten the bounds.
        measure_looseness: Draw one more meta-inference run per output, which measures how loose
            the bounds are.
        keep_values: Keep the outputs, which lower bounds need; the default here.
        share: Draws of this gold standard with some target, whose gold runs are used again.
        first_run: Index of the first run, to spread runs over machines.
        checkpoint: A file for every version, by its name in the result.
        chunk_size: Runs computed at a time; never changes the numbers beyond rounding.
        progress: Show a progress bar; by default in long runs at a terminal.
        executor: Runs blocks of runs elsewhere; see `aide.draw`.
        unchanged: State that an algorithm in plain Python is the one that made the stored runs;
            see `aide.draw`.

    Returns:
        The comparisons, what they show and do not show, and one verdict: `passed`, `failed` or
        `undecided`.

    Example:
        >>> left, right = Normal(-8.0, 1.0), Normal(8.0, 1.0)
        >>> modes = lambda x: jnp.logaddexp(left.log_prob(x), right.log_prob(x))
        >>> narrow = aide.sir(Normal(-8.0, 1.5), modes, num_particles=100)
        >>> wide = narrow.with_start(Normal(0.0, 10.0))
        >>> starts = {"a wide start": wide}
        >>> found = aide.audit(0, narrow, starts=starts, start_factor=None, num_runs=100)
        >>> found.verdict  # the wide start sees a mode that the narrow one misses
        'failed'
    """
    check_algorithm("gold", gold)
    check_tolerance(tolerance)
    key, rivals = as_key(key), rivals_of(gold)
    if num_runs is None:
        made = rivals or getattr(gold, "provenance", "")
        num_runs = NUM_RUNS_OF_MADE if made else NUM_RUNS
    check_count("num_runs", num_runs, 2)
    versions, untested = _budgets(gold, with_budget)
    versions |= rivals
    if start_factor is not None and not rivals:
        wider, reason = _wider(key, gold, start_factor)
        versions |= wider
        untested += reason
    versions |= _named(starts)
    if not versions:
        raise ValueError(
            f"nothing to compare {describe(gold)} with. " + " ".join(f"{u}." for u in untested)
        )
    found = compare(
        key,
        gold,
        versions,
        tolerance=tolerance,
        num_gold=num_runs,
        num_target=num_runs,
        num_meta_gold=num_meta,
        num_meta_target=num_meta,
        max_meta=num_meta,
        measure_looseness=measure_looseness,
        keep_values=keep_values,
        share=share,
        first_run=first_run,
        checkpoint=checkpoint,
        chunk_size=chunk_size,
        progress=progress,
        executor=executor,
        unchanged=unchanged,
    )
    closeness: Any = found.closeness  # in nats, like the tolerance
    tests = tuple(AuditTest(n, one, closeness[n]) for n, one in found.items())
    return Audit(tests, simulated, tolerance, tuple(untested), describe(gold), identity_of(gold))


def _budgets(
    gold: InferenceAlgorithm, with_budget: Callable[[float], InferenceAlgorithm | None] | None
) -> tuple[dict[str, InferenceAlgorithm], list[str]]:
    names = {"itself at half the budget": 0.5, "itself at double the budget": 2.0}
    build = with_budget or (lambda factor: budget_version(gold, factor))
    versions = {name: build(factor) for name, factor in names.items()}
    found = {name: version for name, version in versions.items() if version is not None}
    if not found:
        return {}, [
            "Other budgets: pass with_budget=, a function that builds the gold standard with "
            "0.5 and 2 times its budget"
        ]
    why = "pass with_budget=, a function that builds the gold standard with that budget"
    lacking = [f"{name[0].upper()}{name[1:]}: {why}" for name in versions if name not in found]
    return found, lacking


def _wider(
    key: Key, gold: InferenceAlgorithm, factor: float
) -> tuple[dict[str, InferenceAlgorithm], list[str]]:
    key_centre, initial = jax.random.fold_in(key, 2**32 - 1), getattr(gold, "start", None)
    lacking = [
        f"Other starts of {describe(gold)}: pass starts=, the gold standard built with other starts"
    ]
    if initial is None or not can_be_widened(key_centre, initial):
        return {}, lacking
    start = widen(key_centre, initial, factor)
    label = f"{describe(gold)}, start {factor:g} times as wide"
    try:
        wider = started_version(gold, start, label)
    except NoSuchVersion:
        return {}, lacking
    return {f"itself from a start {factor:g} times as wide": wider}, []


def _named(
    starts: Mapping[str, InferenceAlgorithm] | Iterable[InferenceAlgorithm] | InferenceAlgorithm,
) -> dict[str, InferenceAlgorithm]:
    if isinstance(starts, Mapping):
        return {f"itself from {name}": version for name, version in starts.items()}
    if isinstance(starts, InferenceAlgorithm):
        starts = (starts,)
    return {f"itself as {describe(s)} ({i + 1})": s for i, s in enumerate(starts)}
