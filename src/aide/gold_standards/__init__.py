"""Gold standards that tune and test themselves."""

from aide.gold_standards.record import Agreement, Record
from aide.gold_standards.result import GoldStandard
from aide.gold_standards.storage import load

__all__ = [
    "Agreement",
    "GoldStandard",
    "Record",
    "load",
]
