"""What a suite is: names, and for each a posterior with published numbers."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from aide.adapters.numpyro.posterior import NumpyroPosterior
from aide.scorecard.moments import MeanAndSd

Values = Mapping[str, np.ndarray]
"""Arrays by name whose leading axis counts draws."""


class PublishedCase(NamedTuple):
    """A posterior some of whose numbers are published.

    Attributes:
        posterior: The posterior of our NumPyro model.
        source: Who published the numbers, and how they were computed.
        moments: Published means and standard deviations with errors, by coordinate.
        log_evidence: The published log evidence with its error.
        quantities: Published quantities, computed from draws of the model's variables.
    """

    posterior: NumpyroPosterior
    source: str
    moments: Mapping[str, MeanAndSd] = {}
    log_evidence: tuple[float, float] | None = None
    quantities: Callable[[Values], Values] = lambda values: values


class Suite(Protocol):
    """A suite of posteriors."""

    @property
    def title(self) -> str:
        """The name of the suite."""

    def names(self) -> list[str]:
        """Return the names of its posteriors, also of those that cannot be run."""

    def refusal(self, name: str) -> str:
        """Return why a posterior cannot be run; empty if it can."""

    def load(self, name: str) -> PublishedCase:
        """Return a posterior with its published numbers."""
