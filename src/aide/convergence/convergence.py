"""AIDE of a chain against its number of steps: when is it close enough?"""

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.keywords import keywords
from aide._core.types import Key
from aide._core.validate import check_size
from aide.algorithms.mcmc import MarkovChain
from aide.convergence.curve import LEVEL, Convergence
from aide.convergence.diagnostics import Diagnostics, import_arviz, rhat_and_ess, run_chains
from aide.engine.draw import draw_many
from aide.engine.options import CompareOptions, ManyOptions
from aide.engine.programs.tracing import one_call
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
    **options: Unpack[CompareOptions],
) -> Convergence:
    r"""Measure a chain after several numbers of steps against the same gold standard.

    Beside AIDE's bound from above stand a bound from below from the same outputs, and what ordinary
    chains of that many steps show: R-hat and ESS of all their draws, by ArviZ.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard.
        chain: What `aide.refine` returned for the longest of them, or a chain with canonical
            meta-inference; its own number of steps does not matter otherwise.
        steps: Numbers of steps.
        num_gold: Runs of the gold standard; a lower bound takes 50.
        num_target: Runs of the chain, per number of steps; a lower bound takes 50.
        num_meta_gold: Meta-inference runs of the gold standard per output.
        num_meta_target: Meta-inference runs per output. Two make the lower bound far sharper than
            one, if $Z$ is known on both sides.
        num_chains: Ordinary chains for R-hat and ESS; 0 does without ArviZ.
        **options: How runs are made, as in `aide.compare`: `progress`, `executor` and the like.
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
    settings: ManyOptions = {"keep_values": True, **options}
    settings["num_gold"], settings["num_target"] = num_gold, num_target
    settings["num_meta_gold"], settings["num_meta_target"] = num_meta_gold, num_meta_target
    named = {str(number): shorter for number, shorter in zip(numbers, chains, strict=True)}
    estimates = [Estimate(one) for one in draw_many(key, gold, named, **settings).values()]
    note = what_is_missing(estimates[-1].draws)
    lower = [np.nan if note else one.sandwich(LEVEL).lower for one in estimates]
    notes = chain.fit.notes if isinstance(chain, RefinedChain) else ()
    return Convergence(numbers, tuple(estimates), tuple(lower), *found, num_chains, note, notes)
