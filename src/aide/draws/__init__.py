"""Runs of a gold standard and a target, scored by both, and how they are kept."""

from aide.draws.draw_many import draw_each, draw_many
from aide.draws.draws import Draws, concatenate
from aide.draws.storage.files import load, save
from aide.running.devices import Devices

__all__ = [
    "Devices",
    "Draws",
    "concatenate",
    "draw_each",
    "draw_many",
    "load",
    "save",
]
