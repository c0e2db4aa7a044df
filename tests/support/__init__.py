"""What statistical tests share. Where is what?

| Module | Holds |
|---|---|
| `registry`, `toys` | small instances of every algorithm, and the problems they are made of |
| `laws` | the laws of every pair as z-scores |
| `wrong`, `injected` | algorithms that are wrong on purpose |
| `hidden_ways` | ways in which data hide from a look at code |
| `correct` | correct algorithms that look wrong to a normal approximation |
| `keyed` | keyed results of every algorithm, recorded |
| `pairs`, `plain` | small algorithms with known answers, in JAX and in NumPy |
| `made`, `results` | draws, results and gold standards made by hand |
| `finite_laws`, `chains` | pairs of laws, and chains, whose numbers are known without Monte Carlo |
| `learned`, `clockwork` | learned meta-inference made by hand; NUTS on finitely many states |
| `posteriors`, `hard_posteriors`, `one_mode` | known posteriors; a missing mode |
| `traps` | posteriors at which gold standards once passed and were wrong |
| `score_laws` | draws for the score check of reference draws |
| `schools`, `numpyro_schools`, `pymc_here`, `particles_model` | models in other libraries |
| `kill_me`, `tiny_experiment` | programs that tests run and kill |
"""

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
