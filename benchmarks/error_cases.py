"""Errors of usual fits to well-known posteriors, beside truths from far more outputs.

Posteriors of posteriordb have reference draws; the filters of the Nile have the Kalman smoother.
Truths are plain differences of moments, without any density: of all reference draws, or as many
outputs of the smoother, and of `num_truth` outputs of the target.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import aide
from aide.estimation.errors.errors import Errors
from aide.estimation.errors.find import MEAN, SD, ErrorOf, find_table
from aide.estimation.errors.overlap import apart
from aide.estimation.errors.variables import posterior_of, variables_of
from benchmarks.table import Row

KEY = jax.random.key(30)
KIDIQ, SCHOOLS = "kidiq-kidscore_momhsiq", "eight_schools-eight_schools_noncentered"
Pair = tuple[Any, Any]


def error_cases(
    folder: str, num_runs: int, num_truth: int, num_steps: int, case: str
) -> Iterator[Row]:
    """One row per pair: the variables with the largest errors, and how many limits hold."""
    for name, build in _cases(folder, num_steps).items():
        if case not in name:
            continue
        if isinstance(build, str):
            print(f"{name}: {build}", flush=True)
            continue
        gold, target = build()
        begin = time.perf_counter()
        sizes = {"num_gold": num_runs, "num_target": num_runs}
        found = aide.estimate(KEY, gold, target, keep_values=True, **sizes)
        errors, seconds = found.errors(), time.perf_counter() - begin
        yield (
            {"case": name}
            | _row(errors, _truths(gold, target, num_truth))
            | {
                "headline": errors.headline,
                "seconds": f"{seconds:.1f}",
            }
        )


def _cases(folder: str, num_steps: int) -> dict[str, Callable[[], Pair] | str]:
    """What builds a pair, or a sentence that says why it cannot be built."""
    absent = f"skipped, because {folder} has no such data (--folder says where they are)."
    fits = {
        "kidiq, full rank": (KIDIQ, "full rank", False),
        "kidiq, mean field": (KIDIQ, "mean field", False),
        "eight schools, non-centred, mean field": (SCHOOLS, "mean field", False),
        "eight schools, centred, mean field": (SCHOOLS, "mean field", True),
    }
    found: dict[str, Callable[[], Pair] | str] = {}
    for name, (posterior, kind, is_centred) in fits.items():
        is_there = (Path(folder) / f"{posterior}.draws.json.zip").exists()
        build = partial(_fitted, folder, posterior, kind, is_centred, num_steps)
        found[name] = build if is_there else absent
    for num in (5, 20, 100):
        found[f"Nile, particle filter, {num} particles"] = partial(_filtered, num)
    return found


def _fitted(folder: str, name: str, kind: str, is_centred: bool, num_steps: int) -> Pair:
    import numpyro

    from benchmarks.adapters.posteriordb import KINDS, build, fit, peak
    from benchmarks.posteriors import CENTRED, POSTERIORS

    numpyro.enable_x64(True)
    post, draws = build(folder, name, CENTRED if is_centred else POSTERIORS[name])
    # A centred density is unbounded where tau is 0: there is no mode to start from.
    start = jnp.zeros(post.dimension) if is_centred else jnp.asarray(peak(post))
    with jax.enable_x64(True):
        values = dict(post.constrain(start))
    return post.from_draws(draws), fit(post, KINDS[kind], values, num_steps, kind)


def _filtered(num_particles: int) -> Pair:
    from aide.problems.linear_gaussian import nile

    model = nile()
    return model.posterior(), aide.ParticleFilter(model.state_space(), num_particles)


def _truths(gold: Any, target: Any, num_truth: int) -> dict[tuple[str, str], ErrorOf]:
    """Plain differences, by variable and quantity, with their own standard errors."""
    key = jax.random.fold_in(KEY, 1)
    num_gold = min(num_truth, getattr(gold, "num_draws", num_truth))
    draws = aide.draw(key, gold, target, num_gold=num_gold, num_target=num_truth, keep_values=True)
    variables = variables_of(draws, posterior_of(gold, target))
    table = find_table(apart(draws), variables, 0.95)
    return {(one.name, e.quantity): e for one in table.variables for e in one.errors}


def _row(errors: Errors, truths: dict[tuple[str, str], ErrorOf]) -> Row:
    """The largest error of a mean and of an sd, and of how many limits the truth is within.

    Truths are uncertain: their limits at 95%, taken alone, must meet those of the table.
    """
    row: Row = {}
    for quantity, title in ((MEAN, "mean, in sds"), (SD, "sd ratio")):
        worst = errors.worst(quantity)
        assert worst is not None
        name, error = worst
        truth = truths[name, quantity]
        row[f"worst {title}"] = f"{name}: {error.error:.3f} ({error.low:.3f}, {error.high:.3f})"
        row[f"truth, {title}"] = f"{truth.error:.3f} ± {_spread(truth):.3f}"
    pairs = [
        (e, truths[one.name, e.quantity]) for one in errors.table.variables for e in one.errors
    ]
    slack = [1.96 * _spread(truth) for _, truth in pairs]
    held = [
        e.low - s <= truth.error <= e.high + s for (e, truth), s in zip(pairs, slack, strict=True)
    ]
    return row | {"limits that hold": f"{int(np.sum(held))} of {len(held)}"}


def _spread(error: ErrorOf) -> float:
    """Standard error; that of a ratio of sds is on a logarithmic scale."""
    return error.std_error * (error.error if error.quantity == SD else 1.0)
