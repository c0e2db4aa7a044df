"""One row of the card: an algorithm or a made gold standard on one posterior, as data."""

import hashlib
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide.adapters.numpyro.posterior import NumpyroPosterior, posterior
from aide.adapters.posteriordb import load
from aide.algorithms.reference import ReferenceDraws
from aide.comparing.compare import compare
from aide.estimation.summary import Estimate
from aide.scorecard.algorithms import ALGORITHMS, timed
from aide.scorecard.card import MADE
from aide.scorecard.models import MODELS

MADE_SECONDS = 300.0
"""Seconds that making one gold standard may take, unless stated."""
AGREE = 0.1
"""Nats to which a made gold standard shall agree with the reference draws."""


class Case(NamedTuple):
    """A posterior of the database with its draws.

    Attributes:
        name: `DATA-MODEL`.
        posterior: The posterior of the NumPyro model.
        reference: The reference draws.
    """

    name: str
    posterior: NumpyroPosterior
    reference: ReferenceDraws


class CannotRun(ValueError):
    """A posterior that cannot be run at all, with the reason in words."""


def model_of(folder: Path, name: str) -> str:
    """Return the name of a posterior's Stan program."""
    about = folder / "posteriors" / f"{name}.json"
    if about.is_file():
        return json.loads(about.read_text())["model_name"]
    return name.partition("-")[2]


def load_case(folder: Path, name: str) -> Case:
    """Load a posterior with its reference draws, which its score check must accept.

    Raises:
        CannotRun: The reason why there is no row.
    """
    program = model_of(folder, name)
    if program not in MODELS:
        raise CannotRun(f"There is no NumPyro model of the Stan program {program}.")
    model = MODELS[program]
    try:
        entry = load(folder, name)
    except ValueError as error:
        raise CannotRun(str(error)) from error
    post = posterior(model.model, *model.arguments(entry.data))
    stored = model.draws(entry.draws, entry.data)
    draws = {name: stored[name] for name in post.names}
    try:
        reference = post.from_draws(draws)
    except ValueError as error:
        raise CannotRun(f"The reference draws do not fit the model: {error}") from error
    return Case(name, post, reference)


def key_of(seed: int, *names: str) -> jax.Array:
    """Return the key of a row: a function of the seed and of names, whatever else is run."""
    digest = hashlib.sha256("/".join(names).encode()).digest()
    return jax.random.fold_in(jax.random.key(seed), int.from_bytes(digest[:4], "big") >> 1)


def row_of(case: Case, algorithm: str, seed: int, num_runs: int, tolerance: Any) -> dict[str, Any]:
    """Fit an algorithm and measure it against the reference draws."""
    key_fit, key_measure = jax.random.split(key_of(seed, case.name, algorithm))
    fitted, seconds_fit = timed(ALGORITHMS[algorithm], case.posterior, key_fit)
    begun = time.perf_counter()
    _, record = _compared(key_measure, case, algorithm, fitted.target, num_runs, tolerance)
    return {
        **record,
        "num_gradients": fitted.num_gradients,
        "seconds_fit": seconds_fit,
        "seconds_measure": time.perf_counter() - begun,
    }


def made_row(case: Case, seed: int, num_runs: int, max_seconds: float) -> dict[str, Any]:
    """Make a gold standard with defaults, and measure it against the reference draws."""
    key_make, key_measure = jax.random.split(key_of(seed, case.name, MADE))
    begun = time.perf_counter()
    made = case.posterior.gold(key_make, max_seconds=max_seconds, progress=False)
    seconds_fit, begun = time.perf_counter() - begun, time.perf_counter()
    estimate, record = _compared(key_measure, case, MADE, made, num_runs, AGREE)
    looseness, looseness_error = made.record.looseness
    return {
        **record,
        "num_gradients": None,
        "seconds_fit": seconds_fit,
        "seconds_measure": time.perf_counter() - begun,
        "own_verdict": made.verdict,
        "own_doubts": list(made.doubts),
        "own_looseness": looseness,
        "own_looseness_std_error": looseness_error,
        "largest_z": _largest_z(case, np.asarray(estimate.draws.target.values)),
    }


def _compared(
    key: Any, case: Case, name: str, target: InferenceAlgorithm, num_runs: int, tolerance: Any
) -> tuple[Estimate, dict[str, Any]]:
    """Measure a target against the reference draws; return the estimate and its record."""
    found = compare(
        key,
        case.reference,
        {name: target},
        tolerance=tolerance,
        num_gold=num_runs,
        num_target=num_runs,
        keep_values=True,
        progress=False,
    )
    says = found[name].errors().headline
    return found[name], {**found.records()[0], "says": says, "notes": list(found.notes)}


def _largest_z(case: Case, ours: np.ndarray) -> float:
    """Return the largest difference of means of coordinates and of their squares.

    The unit is the standard error of the difference, in which the reference draws count with
    their effective number. All reference draws take part, not only those of the estimate.
    """
    theirs = np.asarray(case.reference.draws).reshape(-1, ours.shape[-1])
    effective = min(case.reference.effective_size, len(theirs))
    worst = 0.0
    for power in (1, 2):
        one, other = ours**power, theirs**power
        error = np.hypot(one.std(axis=0) / len(one) ** 0.5, other.std(axis=0) / effective**0.5)
        worst = max(worst, float(np.max(np.abs(one.mean(axis=0) - other.mean(axis=0)) / error)))
    return worst
