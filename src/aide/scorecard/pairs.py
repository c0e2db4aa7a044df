"""One row of the card: an algorithm or a made gold standard on one posterior, as data."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide.adapters.numpyro.posterior import NumpyroPosterior, posterior
from aide.adapters.posteriordb import load
from aide.algorithms.reference import ReferenceDraws
from aide.comparing.compare import compare
from aide.estimation.errors.errors import Errors
from aide.estimation.errors.find import INTERVAL, MEAN, SD
from aide.estimation.summary import Estimate
from aide.scorecard.algorithms import Fit
from aide.scorecard.card import AGREE
from aide.scorecard.clock import Stopwatch, stopwatch
from aide.scorecard.models import MODELS

MADE_SECONDS = 300.0
"""Seconds that making one gold standard may take, unless stated."""
KEPT = frozenset(
    (
        *("value", "std_error", "low", "high", "means_off", "interval_low", "interval_high"),
        *("total_variation", "looseness", "k_hat", "lower", "upper", "verdict"),
    )
)
"""Entries of a record of `aide.compare` that a row keeps."""


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


def row_of(case: Case, fit: Fit, key: jax.Array, num_runs: int, tolerance: Any) -> dict[str, Any]:
    """Fit an algorithm and measure it against the reference draws."""
    key_fit, key_measure = jax.random.split(key)
    with stopwatch() as fitting, jax.enable_x64(True):
        fitted = fit(case.posterior, key_fit)
    with stopwatch() as measuring:
        _, record = _compared(key_measure, case, fitted.target, num_runs, tolerance)
    return {
        "key": key_words(key),
        **record,
        "rhat": fitted.rhat,
        "num_gradients": fitted.num_gradients,
        "num_gradients_start": fitted.num_gradients_start,
        **_seconds(fitting, measuring),
    }


def made_row(case: Case, key: jax.Array, num_runs: int, max_seconds: float) -> dict[str, Any]:
    """Make a gold standard with defaults, and measure it against the reference draws."""
    key_make, key_measure = jax.random.split(key)
    with stopwatch() as making:
        made = case.posterior.gold(key_make, max_seconds=max_seconds, progress=False)
    with stopwatch() as measuring:
        estimate, record = _compared(key_measure, case, made, num_runs, AGREE)
    looseness, looseness_error = made.record.looseness
    return {
        "key": key_words(key),
        **record,
        "rhat": case.reference.rhat,
        "num_gradients": None,
        **_seconds(making, measuring),
        "own_verdict": made.verdict,
        "own_words": made.provenance,
        "own_doubts": list(made.doubts),
        "own_looseness": looseness,
        "own_looseness_std_error": looseness_error,
        "largest_z": _largest_z(case, np.asarray(estimate.draws.target.values)),
    }


def key_words(key: jax.Array) -> str:
    """Return the numbers of a key, which make it again: `jax.random.wrap_key_data`."""
    return " ".join(str(number) for number in np.asarray(jax.random.key_data(key)))


def _seconds(fitting: Stopwatch, measuring: Stopwatch) -> dict[str, float]:
    """Return where the time of a row went; `compile` is a part of `fit` and of `measure`."""
    fit, measure = fitting.seconds, measuring.seconds
    return {
        "seconds_fit": fit.wall,
        "seconds_fit_compile": fit.compilation,
        "seconds_measure": measure.wall,
        "seconds_measure_compile": measure.compilation,
        "seconds_processor": fit.processor + measure.processor,
    }


def _compared(
    key: Any, case: Case, target: InferenceAlgorithm, num_runs: int, tolerance: Any
) -> tuple[Estimate, dict[str, Any]]:
    """Measure a target against the reference draws; return the estimate and its record."""
    name = "target"
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
    errors, closeness = found[name].errors(), found.closeness[name]
    record = {entry: value for entry, value in found.records()[0].items() if entry in KEPT}
    notes = [note.removeprefix(f"{name}: ") for note in found.notes]
    return found[name], {
        **record,
        **_worst(errors),
        "says": errors.headline,
        "because": closeness.limits,
        "notes": notes,
    }


def _worst(errors: Errors) -> dict[str, Any]:
    """Return the variables with the largest errors of means, sds and 90% intervals, by name."""
    found: dict[str, Any] = {}
    for title, quantity in (("mean", MEAN), ("sd", SD), ("interval", INTERVAL)):
        worst = errors.worst(quantity)
        if worst is not None:
            name, error = worst
            found |= {
                f"worst_{title}_of": name,
                f"worst_{title}": error.error,
                f"worst_{title}_low": error.low,
                f"worst_{title}_high": error.high,
            }
    return found


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
