"""What statistical tests share."""

import numpy as np

Z_MAX = 5.0
"""Limit for |z| in every statistical test: 6e-7 false alarms per check. Never tuned."""


def z_score(samples, expected=0.0):
    """Distance of the sample mean from `expected` in standard errors; 0 spread needs equality."""
    samples = np.asarray(samples, np.float64)
    assert np.isfinite(samples).all()
    difference = samples.mean() - expected
    error = samples.std(ddof=1) / np.sqrt(samples.size)
    if error == 0.0:
        return 0.0 if abs(difference) < 1e-12 else np.inf * np.sign(difference)
    return difference / error
