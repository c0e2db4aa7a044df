"""Fits of simulated data sets: parameters, draws of every fit, and densities where there are any.

A data set is `sample_joint(key) -> (x, y)`, its fit `fit(key, y)`. The fit is an algorithm, draws,
or, for all data sets at once, an object with `sample_batch` (see `aide.sbi`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import equinox as eqx
import jax
import numpy as np

from aide._core.algorithm import describe, log_z_of
from aide._core.numerics import as_log, flat_reals
from aide._core.random import derive_keys, run_key
from aide._core.types import Key, Value
from aide._core.validate import check_scalar
from aide.algorithms.reference import ReferenceDraws
from aide.auditing.simulated import Simulated
from aide.auditing.simulated_runs import (
    Given,
    Pieces,
    PlainPython,
    SimulatedStudy,
    one_data_set,
)
from aide.calibrating.ranks import stacked, thinned
from aide.engine.draw import draw
from aide.engine.outputs import check_algorithm
from aide.engine.programs.map_runs import in_double, map_runs
from aide.engine.programs.prepared import NotTraceable
from aide.engine.runners.choose import is_plain_python
from aide.estimation.errors.variables import apply_function

KEY_JOINT, KEY_FIT, KEY_DRAWS = 0, 4, 5
"""Purposes of a data set's keys; 0 to 3 are those of `aide.audit_simulated`."""


class FitsBatches(Protocol):
    """An amortised posterior, which draws for many observations in one call."""

    def sample_batch(self, key: Key, observations: Any, num: int, /) -> Any:
        """Draws, shape (observations, num, …)."""
        ...


class CalibrationStudy(eqx.Module):
    """A model that can be simulated, and the fit of each of its data sets."""

    sample_joint: Callable[[Key], tuple[Value, Any]]
    log_joint: Callable[[Value, Any], Any] | None
    fit: Any
    num_draws: int = eqx.field(static=True)
    num_meta: int = eqx.field(static=True)
    has_chains: bool | None = eqx.field(static=True)
    label: str = eqx.field(static=True)


@dataclass(frozen=True)
class Fits:
    """What all fits gave.

    Attributes:
        truth: Parameters of every data set, stacked.
        draws: Draws of all data sets, one after another.
        sizes: The number of draws of each data set, after thinning.
        given: The number of draws that each fit gave.
        log_joint: The log joint at `truth` and at `draws`; `None` if it was not given.
        nats: The divergence on the same data sets; `None` if the fits have no density.
        name: The fit.
        why_slow: The reason why data sets were run one by one; empty if they were compiled.
    """

    truth: Value
    draws: Value
    sizes: np.ndarray
    given: np.ndarray
    log_joint: tuple[np.ndarray, np.ndarray] | None
    nats: Simulated | None
    name: str
    why_slow: str = ""


def run_fits(study: CalibrationStudy, key: Key, num: int) -> Fits:
    """Simulate and fit all data sets: compiled if algorithms can be traced, or one by one."""
    if callable(getattr(study.fit, "sample_batch", None)):
        return _all_at_once(study, key, num)
    rows = (np.arange(num, dtype=np.uint32),)
    try:
        found = map_runs(_one_traced, study, key, rows, what="the study")
    except NotTraceable as error:
        return _one_by_one(study, key, num, error.reason)
    except PlainPython as error:
        return _one_by_one(study, key, num, str(error))
    truth, draws, log_joint, pieces = found
    draws = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), draws)
    sizes = np.full(num, study.num_draws)
    joint = None if log_joint is None else (log_joint[0], log_joint[1].ravel())
    algorithm = in_double(study.fit, *_first(study, key))
    nats = None
    if pieces is not None:
        nats = Simulated(pieces, log_z_of(algorithm), describe(algorithm))
    return Fits(truth, draws, sizes, sizes, joint, nats, describe(algorithm))


def is_algorithm(fit: Any) -> bool:
    """Whether a fit is an algorithm, not draws."""
    return callable(getattr(fit, "simulate", None)) and not isinstance(fit, ReferenceDraws)


def _first(study: CalibrationStudy, key: Key) -> tuple[Key, Any]:
    """The key of the first fit, and its data."""
    return run_key(key, 0, KEY_FIT), in_double(study.sample_joint, run_key(key, 0, KEY_JOINT))[1]


def _one_traced(study: CalibrationStudy, stream: Key, run: Any) -> tuple[Any, ...]:
    """Parameters, draws, log joints and the pieces of the divergence of one data set."""
    key_fit, key_draws = (run_key(stream, run, part) for part in (KEY_FIT, KEY_DRAWS))
    x, y = study.sample_joint(run_key(stream, run, KEY_JOINT))
    fit, log_joint = study.fit(key_fit, y), study.log_joint
    if not is_algorithm(fit) or is_plain_python(fit):
        raise PlainPython("the fit is no algorithm that JAX can trace, but plain Python or draws")
    draws = jax.vmap(lambda key: fit.simulate(key)[0])(derive_keys(key_draws, study.num_draws))
    if log_joint is None:
        return x, draws, None, None
    audited = SimulatedStudy(study.sample_joint, log_joint, lambda y: fit, study.num_meta)
    pieces = one_data_set(audited, stream, run)
    at_draws = jax.vmap(lambda one: as_log(log_joint(one, y)))(draws)
    return x, draws, (as_log(log_joint(x, y)), at_draws), pieces


def _one_by_one(study: CalibrationStudy, key: Key, num: int, why_slow: str) -> Fits:
    """Fit data sets in a loop: the fit may call any library."""
    truth, draws, sizes, given, joints, pieces = [], [], [], [], [], []
    fit: Any = None
    for run in range(num):
        x, y = in_double(study.sample_joint, run_key(key, run, KEY_JOINT))
        x, y = (jax.tree.map(np.asarray, part) for part in (x, y))
        # A copy: JAX 0.10 keeps the conversion to single precision of an array that a sampler used.
        fit = study.fit(run_key(key, run, KEY_FIT), jax.tree.map(np.array, y))
        if is_algorithm(fit):
            check_algorithm("the result of fit(key, y)", fit)
            values, piece = _of_algorithm(study, key, run, (x, y), fit)
            places = np.arange(study.num_draws)
            pieces.append(piece)
        else:
            values, places = thinned(*_chains_of(fit, study.has_chains))
        truth.append(_lifted(x))
        draws.append(_rows(values, places))
        sizes.append(places.size)
        given.append(len(jax.tree.leaves(values)[0]))
        if study.log_joint is not None:
            at_truth, at_draws = (_log_joints(study.log_joint, v, y) for v in (truth[-1], values))
            joints.append((at_truth, at_draws[places]))
    is_scored = is_algorithm(fit)
    name = describe(fit) if is_scored else study.label or "fit"
    nats = None
    if is_scored and study.log_joint is not None:
        table = Pieces(*(np.array(column) for column in zip(*pieces, strict=True)))
        nats = Simulated(table, log_z_of(fit), name, why_slow)
    columns = [np.concatenate(column) for column in zip(*joints, strict=True)]
    joint = (columns[0], columns[1]) if columns else None
    return Fits(
        *(stacked(truth), stacked(draws), np.array(sizes), np.array(given)),
        *(joint, nats, name, why_slow if is_scored else ""),
    )


def _of_algorithm(
    study: CalibrationStudy, key: Key, run: int, pair: tuple[Value, Any], fit: Any
) -> tuple[Value, Pieces | None]:
    """Outputs of an algorithm, and the pieces of the divergence if there is a log joint."""
    (x, y), num, log_joint = pair, study.num_draws, study.log_joint
    meta = {"num_meta_target": study.num_meta if log_joint is not None else 1}
    found = draw(
        *(run_key(key, run, 1), Given(x), fit),
        **{"num_gold": 1, "num_target": num, "keep_values": True, "progress": False, **meta},
    )
    values = found.target.values
    if log_joint is None:
        return values, None
    own = jax.tree.map(lambda leaf: leaf[0], values)
    at = [float(check_scalar("log_joint", log_joint(value, y))) for value in (x, own)]
    flat = (np.asarray(flat_reals(value)) for value in (x, own, y))
    return values, Pieces(at[0], found.gold.cross[0], at[1], found.target.own[0], *flat)


def _chains_of(fit: Any, has_chains: bool | None) -> tuple[Value, bool]:
    """Draws of a fit, and whether their leading axes are (chain, draw)."""
    if isinstance(fit, ReferenceDraws):
        return fit.draws, True
    leaves = jax.tree.leaves(fit)
    if has_chains is None:
        has_chains = len(leaves) == 1 and np.ndim(leaves[0]) == 3
    return fit, has_chains


def _log_joints(log_joint: Callable[[Value, Any], Any], values: Value, y: Any) -> np.ndarray:
    """The log joint at stacked values; the function is vectorised by JAX, or plain Python."""
    num = len(jax.tree.leaves(values)[0])
    return apply_function("log_joint", lambda x: log_joint(x, y), values, num)


def _all_at_once(study: CalibrationStudy, key: Key, num: int) -> Fits:
    """Draws of an amortised posterior for all data sets in one call, and its densities."""
    fit, log_joint = study.fit, study.log_joint
    pairs = [in_double(study.sample_joint, run_key(key, run, KEY_JOINT)) for run in range(num)]
    truth, data = (stacked([_lifted(pair[part]) for pair in pairs]) for part in (0, 1))
    draws = np.asarray(fit.sample_batch(run_key(key, 0, KEY_FIT), data, study.num_draws + 1))
    own, draws = draws[:, 0], draws[:, 1:]
    sizes, name = np.full(num, study.num_draws), describe(fit)
    flat = draws.reshape(-1, *draws.shape[2:])
    if log_joint is None:
        return Fits(truth, flat, sizes, sizes, None, None, name)
    at = lambda parts: np.concatenate(
        [_log_joints(log_joint, part, y) for part, y in zip(parts, data, strict=True)]
    )
    at_truth, at_draws, at_own = (at(parts) for parts in (truth[:, None], draws, own[:, None]))
    nats = None
    if callable(getattr(fit, "log_prob_batch", None)):
        log_q, own_log_q = (fit.log_prob_batch(part[:, None], data) for part in (truth, own))
        rows = (part.reshape(num, -1) for part in (truth, own, data))
        pieces = Pieces(at_truth, log_q, at_own, np.tile(own_log_q, (1, 2)), *rows)
        nats = Simulated(pieces, 0.0, name)
    return Fits(truth, flat, sizes, sizes, (at_truth, at_draws), nats, name)


def _lifted(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], tree)


def _rows(tree: Value, places: np.ndarray) -> Value:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[places], tree)
