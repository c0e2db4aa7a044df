"""Errors for keywords, attributes and names that do not exist; each names the one that was meant.

Names of earlier versions are errors too: a keyword by the decorators `keywords` and `fields`, an
attribute by the descriptor `Former`, a name of a module by `former_name`. The error states the
name of now.
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
    "name": ("label",),
    "prior": ("start",),
    "proposal": ("start",),
}
"""Keywords of earlier versions, and their names of now, of which a function has one at most."""


def keywords(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a public function so that the error for an unknown keyword names the one meant.

    Args:
        name: The public name of the function, such as `aide.mcmc`.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = keywords_of(function)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if not kwargs.keys() <= set(known):
                _refuse(name, kwargs, known)
            if known[0] == "key" and args and hasattr(args[0], "regenerate"):
                raise TypeError(
                    f"{name}: a key or seed comes first, as in {name}(0, ...); got an algorithm."
                )
            return function(*args, **kwargs)

        return checked

    return decorate


def fields(name: str, **former: str) -> Callable[[type[R]], type[R]]:
    """Decorate a public class as `keywords` decorates a function.

    Args:
        name: The public name of the class, such as `aide.Tractable`.
        **former: Attributes of earlier versions, with their names of now.
    """

    def decorate(cls: type[R]) -> type[R]:
        cls.__init__ = keywords(name)(cls.__init__)
        for word, now in former.items():
            attribute = Former(now)
            attribute.__set_name__(cls, word)
            setattr(cls, word, attribute)
        return cls

    return decorate


def keywords_of(function: Callable[..., Any]) -> list[str]:
    """Return the keywords of a function."""
    return [name for name in inspect.signature(function).parameters if name != "self"]


def _refuse(name: str, given: Iterable[str], known: list[str]) -> NoReturn:
    """Raise for the first unknown keyword, with a sentence on the keyword that was meant."""
    word = next(word for word in given if word not in known)
    raise TypeError(f"{name} has no argument {word}=: {_advice(word, known)}")


def _advice(word: str, known: list[str]) -> str:
    """Return the sentence that says which of the `known` keywords was meant by `word`."""
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
        "num_gold= and num_target= are the numbers of runs of the two algorithms.",
    ),
    (
        "num_meta_gold",
        {"num_meta", "M"},
        "num_meta_gold= and num_meta_target= are the numbers of meta-inference runs per output.",
    ),
    ("key", {"seed", "rng_key", "rng", "random_state"}, "the key or seed comes first."),
    (
        "num_gold",
        {"num_particles"},
        "particles belong to the algorithm, as in aide.sir(..., num_particles=100).",
    ),
    ("progress", {"verbose"}, "progress=True shows progress bars."),
    (
        "max_looseness",
        {"tolerance", "tol"},
        "max_looseness= is how many nats of looseness will do.",
    ),
)
"""Each hint: an argument that the function must have, words that people write, the sentence."""


class Former:
    """An attribute of a class by its name of an earlier version: using it is an error.

    Args:
        now: The name of now, or a sentence that says what to use instead.
    """

    def __init__(self, now: str):
        self.now = now

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        now = f"it is called {self.now} now." if self.now.isidentifier() else self.now
        raise AttributeError(f"{owner.__name__} has no attribute {self.name}: {now}")


def former_name(module: str, name: str, former: Mapping[str, str]) -> AttributeError:
    """Return the error for a name that a module does not have, for the module's `__getattr__`.

    Args:
        module: The name of the module.
        name: The name that somebody looked up.
        former: Names of earlier versions, with their names of now.
    """
    hint = f" It is called {former[name]} now." if name in former else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}.{hint}")
