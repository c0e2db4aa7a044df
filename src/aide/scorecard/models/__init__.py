"""Models of posteriordb in NumPyro: `MODELS` has them by the name of the Stan program.

A model is the density of the Stan program of that name, up to a constant. Where the database has
reference draws, the score check of `aide.ReferenceDraws` tests that; elsewhere a test compares the
model with a transcription of the program into NumPy.
"""

from aide.scorecard.models.counts import COUNTS
from aide.scorecard.models.model import Model
from aide.scorecard.models.regressions import REGRESSIONS
from aide.scorecard.models.series import SERIES
from aide.scorecard.models.structured import STRUCTURED

__all__ = ["MODELS", "Model"]

MODELS: dict[str, Model] = {**REGRESSIONS, **COUNTS, **SERIES, **STRUCTURED}
