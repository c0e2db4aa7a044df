"""The scorecard: every posterior of posteriordb with reference draws, every usual algorithm."""

from aide.scorecard.algorithms import ALGORITHMS
from aide.scorecard.card import Scorecard, read_scorecard
from aide.scorecard.made import References
from aide.scorecard.making import read_references, references
from aide.scorecard.published import PublishedCard, published, read_published
from aide.scorecard.references import write_reference
from aide.scorecard.run import scorecard
from aide.scorecard.suites import suite_at

__all__ = [
    "ALGORITHMS",
    "PublishedCard",
    "References",
    "Scorecard",
    "published",
    "read_published",
    "read_references",
    "read_scorecard",
    "references",
    "scorecard",
    "suite_at",
    "write_reference",
]
