"""Models of posteriordb in NumPyro: `MODELS` has them by the name of the Stan program.

A model is the density of the Stan program of that name, up to a constant. The score check of
`aide.ReferenceDraws` tests that, at the reference draws of the database.
"""

from aide.scorecard.models.model import Model
from aide.scorecard.models.regressions import REGRESSIONS
from aide.scorecard.models.series import SERIES
from aide.scorecard.models.structured import STRUCTURED

__all__ = ["MODELS", "Model"]

MODELS: dict[str, Model] = {**REGRESSIONS, **SERIES, **STRUCTURED}
