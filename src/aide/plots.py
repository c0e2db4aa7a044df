"""Single plots: functions that take matplotlib axes, draw into them and return them.

`plot()` of a result makes a whole figure; these are for figures of your own.
"""

from aide.estimation.plot import plot_directions, plot_meta_curve, plot_sandwich, plot_terms
from aide.tuning.point import plot_points

__all__ = [
    "plot_directions",
    "plot_meta_curve",
    "plot_points",
    "plot_sandwich",
    "plot_terms",
]
