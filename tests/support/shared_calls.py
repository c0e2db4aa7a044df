"""Calls that share their work out, with every number of their results, for any executor."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import aide
from aide.problems.distributions import Normal
from support.pairs import arrays

PRIOR = Normal(0.0, 3.0)
KERNEL = aide.kernels.RandomWalk(0.9)
SIZES: dict[str, Any] = {"num_gold": 60, "num_target": 60}


def log_joint(x):
    return PRIOR.log_prob(x) - 0.5 * ((x - 1.0) / 0.5) ** 2


def log_joint_with(x, y):
    return PRIOR.log_prob(x) + Normal(x, 0.5).log_prob(y)


def sample_joint(key):
    key_x, key_y = jax.random.split(key)
    x = PRIOR.sample(key_x)
    return x, x + 0.5 * jax.random.normal(key_y)


def exact(y=1.0):
    return aide.Tractable.of(Normal(y * 9 / 9.25, (9 * 0.25 / 9.25) ** 0.5))


def wide(y):
    return aide.Tractable.of(Normal(y * 9 / 9.25, 0.7))


def by_importance(y):
    return aide.sir(PRIOR, LogJoint(y), num_particles=20)


def shifted(shift):
    return aide.Tractable.of(Normal(1.0 + shift, 0.5))


class LogJoint:
    """The log joint at fixed data; data of a tracer are no problem."""

    def __init__(self, y):
        self.y = y

    def __call__(self, x):
        return log_joint_with(x, self.y)


def numbers_of(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def chain() -> Any:
    return aide.mcmc(PRIOR, log_joint, kernel=KERNEL, num_steps=4)


def of_gold_standard(executor: Any) -> list[np.ndarray]:
    gold = aide.gold_standard(
        0, log_joint, PRIOR, num_pilots=100, max_looseness=0.3, executor=executor
    )
    record = gold.making.content.record
    shown = [record.looseness, record.log_evidence, record.scatter]
    agreements = [(one.value, one.std_error, one.upper) for one in record.agreements]
    return [*numbers_of(gold), *map(np.asarray, (*shown, *agreements))]


def of_refine(executor: Any) -> list[np.ndarray]:
    return numbers_of(aide.refine(0, chain(), num_pilots=300, num_reverse=10, executor=executor))


def of_audit(executor: Any) -> list[np.ndarray]:
    found = aide.audit(0, by_importance(1.0), num_runs=40, executor=executor)
    return [part for test in found.tests for part in arrays(test.estimate.draws)]


def of_audit_simulated(executor: Any) -> list[np.ndarray]:
    study = sample_joint, log_joint_with, by_importance
    found = aide.audit_simulated(0, *study, num_datasets=200, executor=executor)
    return numbers_of(found.pieces)


def of_convergence(executor: Any) -> list[np.ndarray]:
    found = aide.measure_convergence(
        0, exact(), chain(), steps=[1, 4], num_chains=4, executor=executor, **SIZES
    )
    curves = [np.asarray(column) for column in (found.rhat, found.ess, found.lower)]
    return [*curves, *(part for one in found.estimates for part in arrays(one.draws))]


def of_amortized(executor: Any) -> list[np.ndarray]:
    ys = jnp.linspace(-2.0, 2.0, 40)
    found = aide.tuning.measure_amortized(0, wide, ys, by_importance, executor=executor, **SIZES)
    return [found.gold_terms, found.target_terms]


def of_sweep(executor: Any) -> list[np.ndarray]:
    settings = {"shift": [0.0, 0.3, 0.6]}
    found = aide.sweep(0, exact(), shifted, settings, executor=executor, **SIZES)
    return [np.asarray((one.value, one.low, one.high)) for one in found.points]


def of_sweep_data(executor: Any) -> list[np.ndarray]:
    data = {"near": np.float64(0.5), "far": np.float64(4.0)}
    found = aide.tuning.sweep_data(0, data, exact, wide, executor=executor, **SIZES)
    return [np.asarray((one.value, one.low, one.high)) for one in found.points]


QUICK: dict[str, Callable[[Any], list[np.ndarray]]] = {
    "audit_simulated": of_audit_simulated,
    "sweep_data": of_sweep_data,
}
"""Calls that take a second or two."""
CALLS: dict[str, Callable[[Any], list[np.ndarray]]] = {
    **QUICK,
    "measure_amortized": of_amortized,
    "sweep": of_sweep,
    "audit": of_audit,
    "measure_convergence": of_convergence,
    "refine": of_refine,
    "gold_standard": of_gold_standard,
}
"""Every call that runs many fits or pilots."""


def same_bits(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    """Whether all numbers of two results are the same bits."""
    return len(one) == len(other) and all(
        a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True)
    )
