"""Unknown keywords and names of earlier versions: the error says what to write."""

from collections.abc import Callable
from typing import Any

import pytest
from support import toys

import aide
from aide.estimation import Contrast
from aide.estimation.terms import Mean
from aide.kernels import RandomWalk

PRIOR, LOG_JOINT, WALK = toys.PRIOR, toys.log_joint, RandomWalk(0.5)
CHAIN: Any = {"log_joint": LOG_JOINT, "kernel": WALK, "num_steps": 2}
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "aide.mcmc initial": (aide.mcmc, {**CHAIN, "initial": PRIOR}, "start"),
    "aide.ais prior": (aide.ais, {"prior": PRIOR, "log_joint": LOG_JOINT, "kernel": WALK}, "start"),
    "aide.tempered_smc prior": (aide.tempered_smc, {"prior": PRIOR}, "start"),
    "aide.annealed_langevin initial": (aide.annealed_langevin, {"initial": PRIOR}, "start"),
    "aide.sir proposal": (aide.sir, {"proposal": PRIOR, "log_joint": LOG_JOINT}, "start"),
    "aide.draw looseness": (aide.draw, {"looseness": False}, "measure_looseness"),
    "aide.gold_standard looseness": (aide.gold_standard, {"looseness": 1.0}, "max_looseness"),
    "aide.tighten most_reverse": (aide.tighten, {"most_reverse": 8}, "max_reverse"),
    "aide.compare most_meta": (aide.compare, {"most_meta": 8}, "max_meta"),
    "aide.estimate budget": (aide.estimate, {"budget": 9}, "max_runs"),
    "aide.tune budget": (aide.tune, {"budget": 9}, "max_runs"),
    "aide.audit budget": (aide.audit, {"budget": 9}, "with_budget"),
    "aide.ReferenceDraws name": (aide.ReferenceDraws, {"name": "NUTS"}, "label"),
    "Smc initial": (aide.smc.Smc, {"initial": PRIOR, "moves": ()}, "start"),
    "MarkovChain initial": (
        aide.algorithms.mcmc.MarkovChain,
        {"initial": PRIOR, **CHAIN},
        "start",
    ),
}
"""The name that the error states and a former keyword; the call; what the keyword is called now."""


@pytest.mark.parametrize("case", CALLS)
def test_former_keywords_name_the_present_one(case):
    (name, word), (function, arguments, now) = case.split(), CALLS[case]
    with pytest.raises(TypeError, match=rf"{name} has no argument {word}=: .*{now}="):
        function(**arguments)


ATTRIBUTES: dict[str, tuple[Any, str]] = {
    "MarkovChain initial": (aide.mcmc(PRIOR, **CHAIN), "start"),
    "Contrast draw": (Contrast("mean", Mean(0.0, 1.0), Mean(0.0, 1.0)), "plot"),
}
"""A class and a former attribute; an object of the class; what the attribute is called now."""


@pytest.mark.parametrize("case", ATTRIBUTES)
def test_former_attributes_name_the_present_one(case):
    (name, word), (thing, now) = case.split(), ATTRIBUTES[case]
    with pytest.raises(AttributeError, match=rf"{name} has no attribute {word}: .*{now}"):
        getattr(thing, word)


@pytest.mark.parametrize(
    ("word", "hint"),
    [("num_step", "did you mean num_steps="), ("zzz", "It takes start, log_joint, kernel")],
)
def test_a_misspelt_keyword_names_the_nearest(word, hint):
    arguments: dict[str, Any] = {**CHAIN, word: 2}
    with pytest.raises(TypeError, match=f"aide.mcmc has no argument {word}=: {hint}"):
        aide.mcmc(PRIOR, **arguments)
