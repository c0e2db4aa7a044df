"""Suites of posteriors whose moments or log evidence others published."""

from aide.scorecard.suites.evidence import EVIDENCE, EvidenceSuite
from aide.scorecard.suites.inference_gym import GymSuite
from aide.scorecard.suites.suite import PublishedCase, Suite

__all__ = ["EVIDENCE", "EvidenceSuite", "GymSuite", "PublishedCase", "Suite", "suite_at"]


def suite_at(folder: str) -> Suite | None:
    """Return the suite of a folder, or of the word `evidence`; `None` if there is none."""
    if folder == EVIDENCE:
        return EvidenceSuite()
    return GymSuite.at(folder)
