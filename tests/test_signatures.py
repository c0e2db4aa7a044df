"""One idea, one keyword: signatures of the public names."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_args

import aide
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
}
"""Numbers of runs with a default of their own, which the documentation of each function states."""
CHOSEN = {"num_meta_gold", "num_meta_target"}
"""Numbers whose `None` in `estimate` and `compare` means that a pilot may choose them."""


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions of the front door and of its namespaces, with their full names."""
    for name in aide.__all__:
        thing = getattr(aide, name)
        if inspect.isfunction(thing):
            yield f"aide.{name}", thing
        for inner in getattr(thing, "__all__", ()) if inspect.ismodule(thing) else ():
            if inspect.isfunction(getattr(thing, inner)):
                yield f"aide.{name}.{inner}", getattr(thing, inner)


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
        (name, parameter)
        for name, function in functions()
        for parameter in inspect.signature(function).parameters.values()
    ]
    assert len(parameters) > 200
    assert [name for name, p in parameters if p.kind == p.VAR_KEYWORD] == []
    untyped = [f"{name} {p.name}" for name, p in parameters if p.annotation in (p.empty, Any)]
    assert untyped == ["aide.gold_standards.load num_values"]


def test_a_key_may_be_an_integer_and_a_label_is_a_text():
    for name, function in functions():
        for word, parameter in inspect.signature(function).parameters.items():
            if word == "key":
                assert {int, *get_args(Key)} <= set(get_args(parameter.annotation)), name
            if word == "label":
                assert str in {parameter.annotation, *get_args(parameter.annotation)}, name
            assert word not in ("seed", "rng_key", "looseness", "budget"), name
