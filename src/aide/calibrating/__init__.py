"""Simulation-based calibration of a fit, beside its divergence in nats on the same data sets."""

from aide.calibrating.bands import Band, band_of_ranks, uniform_p_value
from aide.calibrating.replicate import replicate
from aide.calibrating.result import Calibration

__all__ = [
    "Band",
    "Calibration",
    "band_of_ranks",
    "replicate",
    "uniform_p_value",
]
