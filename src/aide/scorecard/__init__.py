"""The scorecard: every posterior of posteriordb with reference draws, every usual algorithm."""

from aide.scorecard.algorithms import ALGORITHMS
from aide.scorecard.card import Scorecard, read_scorecard
from aide.scorecard.references import write_reference
from aide.scorecard.run import scorecard

__all__ = ["ALGORITHMS", "Scorecard", "read_scorecard", "scorecard", "write_reference"]
