"""`aide.measure_convergence`: AIDE of a chain against its number of steps."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.keywords import keywords
from aide._core.types import Key
from aide._core.validate import check_size
from aide.algorithms.mcmc import MarkovChain
from aide.convergence.curve import LEVEL, Convergence
from aide.convergence.diagnostics import Diagnostics, import_arviz, rhat_and_ess, run_chains
from aide.engine.draw import draw_each
from aide.engine.draws import Draws
from aide.engine.programs.tracing import one_call
from aide.engine.stage import Client
from aide.estimation.sandwich.sandwich import what_is_missing
from aide.estimation.summary import Estimate
from aide.learned.refined import RefinedChain


@keywords("aide.measure_convergence")
@one_call()
def measure_convergence(
    key: Key | int,
    gold: InferenceAlgorithm,
    chain: MarkovChain | RefinedChain,
    *,
    steps: Sequence[int],
    num_gold: int = 200,
    num_target: int = 200,
    num_meta_gold: int = 1,
    num_meta_target: int = 2,
    num_chains: int = 4,
    measure_looseness: bool = True,
    keep_values: bool | None = None,
    share: Draws | None = None,
    first_run: int = 0,
    checkpoint: Mapping[str, str | Path] | None = None,
    chunk_size: int | None = None,
    progress: bool | None = None,
    executor: Executor | Client | None = None,
    unchanged: bool = False,
) -> Convergence:
    r"""Measure a chain after several numbers of steps against the same gold standard.

    Besides AIDE's upper bound the result has a lower bound from the same outputs, and R-hat and ESS
    of all draws of ordinary chains with the same numbers of steps, by ArviZ.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard.
        chain: A chain from `aide.refine` with the largest of `steps`, or a chain with canonical
            meta-inference; its own number of steps is replaced.
        steps: Numbers of steps.
        num_gold: Runs of the gold standard; a lower bound needs 50.
        num_target: Runs of the chain, per number of steps; a lower bound needs 50.
        num_meta_gold: Meta-inference runs of the gold standard per output.
        num_meta_target: Meta-inference runs per output. Two make the lower bound far sharper than
            one, if $Z$ is known on both sides.
        num_chains: Ordinary chains for R-hat and ESS; 0 needs no ArviZ.
        measure_looseness: Draw one more meta-inference run per output, which measures how loose
            the bounds are.
        keep_values: Keep the outputs, which lower bounds need; the default here.
        share: Draws of the same gold standard with another target, whose gold runs are used again.
        first_run: Index of the first run, to spread runs over machines.
        checkpoint: A file for every number of steps, by the number as a text.
        chunk_size: Runs computed at a time; never changes the numbers beyond rounding.
        progress: Show a progress bar; by default in long runs at a terminal.
        executor: Runs blocks of runs elsewhere; see `aide.draw`.
        unchanged: State that an algorithm in plain Python is the one that made the stored runs;
            see `aide.draw`.

    Returns:
        The curve: bounds from above and below, R-hat and effective sample size at every number of
        steps.

    Example:
        >>> posterior = Normal(1.0, 0.5)
        >>> kernel = aide.kernels.RandomWalk(0.9)
        >>> chain = aide.mcmc(Normal(0.0, 1.0), posterior.log_prob, kernel=kernel, num_steps=8)
        >>> gold = aide.Tractable.of(posterior)
        >>> sizes = {"num_gold": 60, "num_target": 60, "num_chains": 0}
        >>> aide.measure_convergence(0, gold, chain, steps=[2, 8], **sizes).steps
        (2, 8)
    """
    if not steps:
        raise ValueError("steps must name at least one number of steps, got none.")
    for number in steps:
        check_size("steps", number, 0)
    if not isinstance(chain, MarkovChain | RefinedChain):
        raise TypeError(
            f"chain must be a chain, from aide.mcmc or aide.refine, got {describe(chain)}."
        )
    arviz = import_arviz(num_chains)
    numbers = tuple(sorted(set(steps)))
    chains = [chain.with_steps(number) for number in numbers]
    ordinary = chain.chain if isinstance(chain, RefinedChain) else chain
    found = Diagnostics((np.nan,) * len(numbers), (np.nan,) * len(numbers))
    if num_chains:
        found = rhat_and_ess(arviz, run_chains(key, ordinary, numbers[-1], num_chains), numbers)
    named = {str(number): shorter for number, shorter in zip(numbers, chains, strict=True)}
    drawn = draw_each(
        key,
        gold,
        named,
        num_gold=num_gold,
        num_target=num_target,
        num_meta_gold=num_meta_gold,
        num_meta_target=num_meta_target,
        measure_looseness=measure_looseness,
        keep_values=True if keep_values is None else keep_values,
        share=share,
        first_run=first_run,
        checkpoint=checkpoint,
        chunk_size=chunk_size,
        progress=progress,
        executor=executor,
        unchanged=unchanged,
    )
    estimates = [Estimate(draws) for _, draws in drawn]
    note = what_is_missing(estimates[-1].draws)
    lower = [np.nan if note else one.sandwich(LEVEL).lower for one in estimates]
    notes = chain.fit.notes if isinstance(chain, RefinedChain) else ()
    return Convergence(numbers, tuple(estimates), tuple(lower), *found, num_chains, note, notes)
