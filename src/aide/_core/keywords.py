"""Arguments of public functions: unknown ones are errors that name the argument that was meant.

Names that earlier versions used are errors too: a keyword by the decorator `keywords`, an attribute
by the descriptor `Former`. Both say what the name is now.
"""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


FORMER = {
    "budget": ("max_runs", "with_budget"),
    "initial": ("start",),
    "looseness": ("measure_looseness", "max_looseness"),
    "most_meta": ("max_meta",),
    "most_reverse": ("max_reverse",),
    "prior": ("start",),
    "proposal": ("start",),
}
"""Keywords of earlier versions, and what they are called now, depending on the function."""


def keywords(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a public function so that keywords that it does not have are explained.

    Args:
        name: The public name of the function, such as `aide.mcmc`.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = keywords_of(function)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if not kwargs.keys() <= set(known):
                _refuse(name, kwargs, known)
            return function(*args, **kwargs)

        return checked

    return decorate


def fields(name: str, **former: str) -> Callable[[type[R]], type[R]]:
    """Decorate a public class likewise; `former` attributes are errors with their names of now."""

    def decorate(cls: type[R]) -> type[R]:
        cls.__init__ = keywords(name)(cls.__init__)
        for word, now in former.items():
            attribute = Former(now)
            attribute.__set_name__(cls, word)
            setattr(cls, word, attribute)
        return cls

    return decorate


def keywords_of(function: Callable[..., Any]) -> list[str]:
    """The keywords of a function."""
    return [name for name in inspect.signature(function).parameters if name != "self"]


def _refuse(name: str, given: Iterable[str], known: list[str]) -> NoReturn:
    """Raise for the first keyword that is not known, with the word that was meant."""
    word = next(word for word in given if word not in known)
    raise TypeError(f"{name} has no argument {word}=: {_meant(word, known)}")


def _meant(word: str, known: list[str]) -> str:
    now = [present for present in FORMER.get(word, ()) if present in known]
    if now:
        return f"it is called {now[0]}= now."
    hints = [hint for needed, words, hint in _HINTS if word in words and needed in known]
    if hints:
        return hints[0]
    close = difflib.get_close_matches(word, known, 1)
    return f"did you mean {close[0]}=?" if close else f"It takes {', '.join(known)}."


_HINTS = (
    (
        "until",
        {"tolerance"},
        "aide.compare(key, gold, target, tolerance=...) judges against a tolerance, and "
        "until=aide.estimation.Decided(tolerance) adds runs until a verdict is reached.",
    ),
    (
        "num_gold",
        {"num_samples", "num_draws", "num_runs", "samples", "n", "N"},
        "num_gold= and num_target= say how many runs there are of either algorithm.",
    ),
    (
        "num_meta_gold",
        {"num_meta", "M"},
        "num_meta_gold= and num_meta_target= say how many there are.",
    ),
    ("key", {"seed", "rng_key", "rng", "random_state"}, "the key or seed comes first."),
    (
        "num_gold",
        {"num_particles"},
        "particles belong to the algorithm, as in aide.sir(..., num_particles=100).",
    ),
    ("progress", {"verbose"}, "progress=True shows progress bars."),
)
"""An argument that a function must have for the hint to fit, words that people write, the hint."""


class Former:
    """An attribute of a class by its name of an earlier version: using it is an error.

    Args:
        now: The name, or the sentence, to use now.
    """

    def __init__(self, now: str):
        self.now = now

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        now = f"it is called {self.now} now." if self.now.isidentifier() else self.now
        raise AttributeError(f"{owner.__name__} has no attribute {self.name}: {now}")


def former_name(module: str, name: str, former: Mapping[str, str]) -> AttributeError:
    """The error for a name that a module does not have, for its `__getattr__`."""
    hint = f" It is called {former[name]} now." if name in former else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}.{hint}")
