"""cuthbert: its filters as state-space models, its Gaussian smoothers as targets over paths.

model = aide.cuthbert.state_space_model(filter, model_inputs)
fit = aide.cuthbert.smoothed_paths(filter, smoother, model_inputs)
print(aide.estimate(key, aide.gold_standard(key, model), fit))
"""

from aide.adapters.cuthbert.model import state_space_model
from aide.adapters.cuthbert.smoothed import SmoothedPaths, smoothed_paths

__all__ = [
    "SmoothedPaths",
    "smoothed_paths",
    "state_space_model",
]
