r"""The collapsed Dirichlet process mixture in plain NumPy, by other formulas than the library's.

Data of a cluster are jointly multivariate Student t: given the precision they are normal with mean
$m$ and covariance $(I + J/r)/\tau$, and $\tau s \sim \chi^2_\nu$. The restaurant seats data one by
one. Gibbs conditionals are ratios of joint densities over all partitions.
"""

import numpy as np
from scipy import stats

NAMES = ("alpha", "m", "r", "nu", "s")


def log_marginal(y, hyper):
    """Log density of the data of one cluster."""
    shape = hyper["s"] / hyper["nu"] * (np.eye(len(y)) + 1.0 / hyper["r"])
    mean = np.full(len(y), hyper["m"])
    return float(stats.multivariate_t.logpdf(y, mean, shape, hyper["nu"]))


def log_crp(labels, alpha):
    """Log probability of a partition, datum by datum."""
    total = 0.0
    for i, label in enumerate(labels):
        before = list(labels[:i]).count(label)
        total += np.log(before if before else alpha) - np.log(alpha + i)
    return total


def log_prior(hyper):
    """Log density of the hyperparameters: four Gamma(1, 1) and a standard normal."""
    rest = sum(stats.gamma.logpdf(hyper[name], 1.0) for name in NAMES if name != "m")
    return float(rest + stats.norm.logpdf(hyper["m"]))


def log_partition_joint(y, labels, hyper):
    """Log joint density of partition and data, hyperparameters given."""
    y, labels = np.asarray(y), np.asarray(labels)
    clusters = sum(log_marginal(y[labels == label], hyper) for label in np.unique(labels))
    return log_crp(tuple(labels), hyper["alpha"]) + clusters


def log_joint(y, value):
    """Log joint density of everything."""
    hyper = {name: float(value[name]) for name in NAMES}
    return log_prior(hyper) + log_partition_joint(y, value["labels"], hyper)


def canonical(labels):
    """Labels by order of first appearance."""
    seen = {}
    return tuple(seen.setdefault(label, len(seen)) for label in labels)


def partitions(num):
    """All partitions of `num` data as canonical labels; 1, 2, 5, 15, 52, … of them."""
    found = [()]
    for _ in range(num):
        found = [z + (label,) for z in found for label in range(max(z, default=-1) + 2)]
    return found


def posterior(y, hyper):
    """Probabilities of all partitions given the data and the hyperparameters."""
    logs = np.array([log_partition_joint(y, z, hyper) for z in partitions(len(y))])
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def gibbs_matrix(y, hyper, i):
    """Transition matrix of the Gibbs step for datum i, over `partitions`."""
    states = partitions(len(y))
    index = {z: k for k, z in enumerate(states)}
    pi = posterior(y, hyper)
    matrix = np.zeros((len(states), len(states)))
    for row, z in enumerate(states):
        options = {index[canonical(z[:i] + (k,) + z[i + 1 :])] for k in range(len(y) + 1)}
        for column in options:
            matrix[row, column] = pi[column] / sum(pi[k] for k in options)
    return matrix


def sweep_matrix(y, hyper, order):
    """Gibbs steps in the given order, one after another."""
    matrix = np.eye(len(partitions(len(y))))
    for i in order:
        matrix = matrix @ gibbs_matrix(y, hyper, i)
    return matrix


def random_value(rng, num):
    """A partition from the restaurant and hyperparameters of order 1."""
    labels = []
    for i in range(num):
        sizes = np.bincount(labels, minlength=0) if labels else np.zeros(0)
        weights = np.append(sizes, 1.0) / (i + 1.0)
        labels.append(int(rng.choice(len(weights), p=weights)))
    value = {name: float(rng.gamma(2.0, 0.7)) for name in NAMES}
    value["m"] = float(rng.normal())
    return {"labels": np.array(labels, np.int32), **value}
