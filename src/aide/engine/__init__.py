"""Runs of a gold standard and a target, scored by both, and their storage."""

from typing import NoReturn

from aide._core.keywords import former_name
from aide.engine.draw import draw_each
from aide.engine.draws import Draws, concatenate
from aide.engine.files import load, save
from aide.engine.programs.jobs import Jobs
from aide.engine.programs.places import Devices

_FORMER = {"draw_many": "draw_each"}
"""Former names of this package, with the names that replaced them."""


def __getattr__(name: str) -> NoReturn:
    raise former_name(__name__, name, _FORMER)


__all__ = [
    "Devices",
    "Draws",
    "Jobs",
    "concatenate",
    "draw_each",
    "load",
    "save",
]
