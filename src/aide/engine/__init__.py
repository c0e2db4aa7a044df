"""Runs of a gold standard and a target, scored by both, and how they are kept."""

from aide.engine.draw import draw_each, draw_many
from aide.engine.draws import Draws, concatenate
from aide.engine.programs.places import Devices
from aide.engine.storage.files import load, save

__all__ = [
    "Devices",
    "Draws",
    "concatenate",
    "draw_each",
    "draw_many",
    "load",
    "save",
]
