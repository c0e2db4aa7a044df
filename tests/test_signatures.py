"""One idea, one keyword: signatures of the public names."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any, get_args

import aide
import aide.scorecard
from aide._core.types import Key

DRAW = {
    name: parameter
    for name, parameter in inspect.signature(aide.draw).parameters.items()
    if parameter.kind == parameter.KEYWORD_ONLY and name != "checkpoint"
}
"""Options of `aide.draw`; a checkpoint is one file there, and a file per pair elsewhere."""
ESTIMATE = inspect.signature(aide.estimate).parameters
OWN_DEFAULTS = {
    "aide.sweep": {"num_gold", "num_target"},
    "aide.tuning.sweep_data": {"num_gold", "num_target"},
    "aide.tuning.measure_amortized": {"num_gold", "num_target"},
    "aide.measure_convergence": {"num_gold", "num_target", "num_meta_target"},
    **dict.fromkeys(
        ("aide.scorecard.scorecard", "aide.scorecard.published", "aide.scorecard.references"),
        {"executor"},
    ),
}
"""Options with a default or a type of their own, which the documentation of each function states:
numbers of runs, and an executor of whole posteriors instead of blocks of runs."""
SEEDED = {"aide.scorecard.scorecard", "aide.scorecard.published", "aide.scorecard.references"}
"""Functions with an integer seed instead of a key, since files keep the seed."""
CHOSEN = {"num_meta_gold", "num_meta_target"}
"""Numbers whose `None` in `estimate` and `compare` means that a pilot may choose them."""


OF_OTHERS = {
    "from_arviz data",
    "draws_in data",
    "NumpyroPosterior.guide params",
    "PymcPosterior.guide approx",
    "HttpstanModel services",
    "numpyro.posterior args",
    "numpyro.posterior kwargs",
    "regenerate key",
    "regenerate value",
    "simulate key",
    "FiniteNoise noises",
    "Jobs.submit args",
    "Jobs.submit kwargs",
}
"""Parameters of any type: objects of other libraries, arguments of the user's model, and what a
protocol leaves to those who keep it. (A converter of Equinox hides the type of `noises`.)"""
STORED = {"ReverseFit index", "ReverseFit log_z", "ReverseFit last_log_density", "ReverseFit moves"}
"""Arrays of NumPy, or of JAX inside a program."""


def modules() -> Iterator[tuple[str, ModuleType]]:
    """The front door, its namespaces, the scorecard, and adapters whose library is installed."""
    yield "aide", aide
    yield "aide.scorecard", aide.scorecard
    for name in aide.__all__:
        if inspect.ismodule(getattr(aide, name)):
            yield f"aide.{name}", getattr(aide, name)
    for name in aide.adapters.EXTRAS:
        with suppress(ImportError):
            yield f"aide.{name}", aide.adapters.load_adapter(name)


def public() -> Iterator[tuple[str, Any]]:
    """Public names of all modules, each thing once."""
    seen = set()
    for place, module in modules():
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if id(thing) not in seen:
                seen.add(id(thing))
                yield f"{place}.{name}", thing


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions, with their full names."""
    return ((name, thing) for name, thing in public() if inspect.isfunction(thing))


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions, classes that can be built, and their public methods."""
    yield from functions()
    for name, thing in public():
        if not inspect.isclass(thing):
            continue
        if not getattr(thing, "_is_protocol", False) and callable(getattr(thing, "__init__", None)):
            yield name, thing
        for word, method in inspect.getmembers(thing, inspect.isfunction):
            if not word.startswith("_") and method.__module__.startswith("aide."):
                yield f"{name}.{word}", method


def differences(name: str, function: Callable[..., Any]) -> list[str]:
    """The options of `aide.draw` to which a function gives another type or another default."""
    found = []
    for word, parameter in inspect.signature(function).parameters.items():
        if word not in DRAW or word in OWN_DEFAULTS.get(name, ()):
            continue
        reference = ESTIMATE if word in CHOSEN and parameter.default is None else DRAW
        same_type = parameter.annotation == reference[word].annotation
        same_default = parameter.default == reference[word].default
        if not same_type:
            found.append(f"{word}: {parameter.annotation}")
        if not same_default:
            found.append(f"{word} = {parameter.default}")
    return found


def test_an_option_has_one_type_and_one_default():
    assert {name: found for name, f in functions() if (found := differences(name, f))} == {}


def test_another_default_is_found():
    def own(*, chunk_size: int | None = 7, progress: bool = False) -> None: ...

    found = ["chunk_size = 7", "progress: <class 'bool'>", "progress = False"]
    assert differences("own", own) == found


def test_every_keyword_is_in_the_signature_and_has_a_type():
    parameters = [
        (f"{name} {parameter.name}", parameter)
        for name, function in callables()
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
    ]
    assert len(parameters) > 700
    hidden = {
        words
        for words, p in parameters
        if p.annotation in (p.empty, Any) or p.kind == p.VAR_KEYWORD
    }
    allowed = (*OF_OTHERS, *STORED)
    assert [words for words in sorted(hidden) if not words.endswith(allowed)] == []


def test_a_key_may_be_an_integer_and_a_label_is_a_text():
    for name, function in functions():
        for word, parameter in inspect.signature(function).parameters.items():
            if word == "key":
                assert {int, *get_args(Key)} <= set(get_args(parameter.annotation)), name
            if word == "label":
                assert str in {parameter.annotation, *get_args(parameter.annotation)}, name
            assert word not in ("rng_key", "looseness", "budget"), name
            assert word != "seed" or name in SEEDED
