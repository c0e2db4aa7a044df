"""What people pass by mistake gets an error with the word that was meant."""

from typing import Any

import numpy as np
import pytest
from support.pairs import gaussian

import aide

GOLD, TARGET = gaussian(0.0, 1.0), gaussian(0.1, 1.0)
FEW: dict[str, Any] = {"num_gold": 4, "num_target": 4, "progress": False}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"tolerance": 1.0},
            r"aide\.estimate has no argument tolerance=: aide\.compare\(key, gold",
        ),
        (
            {"num_samples": 10},
            r"no argument num_samples=: num_gold= and num_target= are the numbers of runs",
        ),
        ({"seed": 1}, r"no argument seed=: the key or seed comes first"),
        ({"num_golds": 9}, r"no argument num_golds=: did you mean num_gold="),
        ({"banana": 9}, r"no argument banana=: It takes key, gold"),
    ],
)
def test_wrong_keywords(options, words):
    with pytest.raises(TypeError, match=words):
        aide.estimate(0, GOLD, TARGET, **options)
    if "tolerance" not in options:
        with pytest.raises(TypeError, match=words.replace("estimate", "compare")):
            aide.compare(0, GOLD, {"fit": TARGET}, **options)


def test_compare_takes_one_algorithm_and_a_seed():
    one = aide.compare(3, GOLD, TARGET, **FEW)
    many = aide.compare(3, GOLD, {"Tractable": TARGET}, **FEW)
    (name,) = one
    assert one[name].value == many["Tractable"].value


class MCMC:
    __module__ = "numpyro.infer.mcmc"


class AutoNormal:
    __module__ = "numpyro.infer.autoguide"


class InferenceData:
    pass


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (MCMC(), r"targets must be .*, got a NumPyro MCMC object.*post\.from_mcmc\(mcmc\)"),
        (AutoNormal(), r"AutoNormal, a variational fit of NumPyro.*post\.guide\(guide"),
        (InferenceData(), r"draws \(InferenceData\).*post\.from_arviz\(data\)"),
        ([TARGET], r"a list of algorithms: pass a mapping from names"),
        (np.zeros(3), r"draws rather than an algorithm.*aide\.ReferenceDraws"),
    ],
)
def test_objects_of_other_libraries(thing, words):
    with pytest.raises(TypeError, match=words):
        aide.compare(0, GOLD, thing)
    with pytest.raises(TypeError, match=words.replace("targets", "target")):
        aide.estimate(0, GOLD, thing)


def test_a_call_without_a_key_says_that_one_comes_first():
    calls: tuple[Any, ...] = (aide.estimate, aide.compare, aide.draw)
    for call in calls:
        with pytest.raises(TypeError, match=rf"aide\.{call.__name__}: a key or seed comes first"):
            call(GOLD, TARGET)


def test_other_functions_name_the_word_too():
    draws, wrong = np.zeros((10, 2)), {"num_samples": 3}
    compare_draws: Any = aide.compare_draws
    gold_standard: Any = aide.gold_standard
    with pytest.raises(TypeError, match=r"aide\.compare_draws has no argument num_samples="):
        compare_draws(draws, draws, **wrong)
    with pytest.raises(TypeError, match=r"tolerance=: max_looseness= is how many nats"):
        gold_standard(0, lambda x: -(x**2), tolerance=0.1)
