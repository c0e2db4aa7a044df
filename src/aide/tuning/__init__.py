"""One target at many settings, or on many data sets; and the cheapest sufficient setting."""

from aide.tuning.amortized import AmortizedFit, measure_amortized
from aide.tuning.data_sets import DataSweep, sweep_data
from aide.tuning.sweep import Sweep
from aide.tuning.tuned import Tuned

__all__ = [
    "AmortizedFit",
    "DataSweep",
    "Sweep",
    "Tuned",
    "measure_amortized",
    "sweep_data",
]
