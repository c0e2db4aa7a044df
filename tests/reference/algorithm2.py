r"""Algorithm 2 of the paper and what is read off its draws, in plain NumPy, run by run.

$\hat D = \frac1N\sum_n \log\frac{\frac1M\sum_m\xi_{gold}^{n,m}}{\frac1M\sum_m\xi_{target}^{n,m}}$
at outputs of the gold standard, plus the mirror image at outputs of the target. The first $\xi$ of
the algorithm that made the output belongs to the trace it really used.
"""

import math

import numpy as np


def log_mean(log_values):
    r"""$\log\frac1M\sum_m e^{l_m}$ of one run."""
    total = math.fsum(math.exp(value - max(log_values)) for value in log_values)
    return max(log_values) + math.log(total / len(log_values))


def terms(side, num_own, num_cross):
    """Per run, log ratio of the algorithm that made the output to the other one."""
    return np.array(
        [
            log_mean(own[:num_own]) - log_mean(cross[:num_cross])
            for own, cross in zip(side.own, side.cross, strict=True)
        ]
    )


def mean_and_error(samples):
    """Mean and standard error."""
    mean = math.fsum(samples) / len(samples)
    variance = math.fsum((sample - mean) ** 2 for sample in samples) / (len(samples) - 1)
    return mean, math.sqrt(variance / len(samples))


def directions(draws, num_gold, num_target):
    """(mean, standard error) of gold to target and of target to gold, for given M."""
    gold = terms(draws.gold, num_gold, num_target)
    target = terms(draws.target, num_target, num_gold)
    return mean_and_error(gold), mean_and_error(target)


def value_and_error(draws, num_gold, num_target):
    r"""$\hat D$ and its standard error, for given M."""
    first, second = directions(draws, num_gold, num_target)
    return first[0] + second[0], math.hypot(first[1], second[1])


def looseness(side, num_meta):
    """Mean gap between scores with the run's own trace and scores without it."""
    gaps = [log_mean(own[:num_meta]) - log_mean(own[1 : num_meta + 1]) for own in side.own]
    return mean_and_error(gaps)
