"""The scorecard: every posterior of posteriordb with reference draws, every usual algorithm."""

from aide.scorecard.algorithms import ALGORITHMS
from aide.scorecard.card import Scorecard, read_scorecard
from aide.scorecard.made import References
from aide.scorecard.making import read_references, references
from aide.scorecard.references import write_reference
from aide.scorecard.run import scorecard

__all__ = [
    "ALGORITHMS",
    "References",
    "Scorecard",
    "read_references",
    "read_scorecard",
    "references",
    "scorecard",
    "write_reference",
]
