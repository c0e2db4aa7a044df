"""Gold standards made by `aide.gold_standard` with its defaults, against known answers.

    python benchmarks/run.py gold/standards                          # all problems
    python benchmarks/run.py gold/standards --problem funnel         # names that contain it
    taskset -c 0,1 python benchmarks/run.py gold/standards           # wall times on two cores

The problems are in `support.posteriors`. Where no exact log evidence is known, it is that of the
same algorithm with ten times the particles, and a second estimator's: a gold standard from another
start, heavy tails about the modes, made from a state alone.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
from support.posteriors import POSTERIORS, Posterior

import aide
from aide.gold_standards.testing import mean_evidence
from benchmarks.table import Row

TIMES, NUM_RUNS = 10, 20


def standards(
    problem: str = "",
    seed: int = 0,
    runs: int = 200,
    skip_truth: bool = False,
    skip_second: bool = False,
    keep: str = "",
) -> Iterator[Row]:
    """One row per problem: what was made, in how long, how close it is.

    `--keep` names a folder for gold standards: one that is there is not made again.
    """
    for name, build in POSTERIORS.items():
        if problem.lower() not in name.lower():
            continue
        known = build()
        begun = time.perf_counter()
        gold = _make(known, seed, Path(keep) / f"{name}.zip" if keep else None)
        seconds = time.perf_counter() - begun
        print(gold, flush=True)
        record = gold.record
        value, error = record.log_evidence
        row = {
            "problem": name,
            "temperatures": len(record.steps),
            "particles": gold.num_particles,
            "looseness": _pair(*record.looseness),
            "log evidence": _pair(value, error),
            "truth": "",
            "z": "",
            "AIDE(exact, gold)": "",
            "verdict": gold.verdict,
            "seconds": round(seconds),
        }
        if not skip_truth:
            row |= _truth(known, gold, value, error, runs, skip_second)
        yield row


def _make(known: Posterior, seed: int, file: Path | None) -> aide.gold_standards.GoldStandard:
    if file is not None and file.exists():
        return aide.gold_standards.load(file, known.log_joint, known.start)
    gold = aide.gold_standard(jax.random.key(seed), known.log_joint, known.start)
    if file is not None:
        gold.save(file)
    return gold


def _truth(known: Posterior, gold, value: float, error: float, runs: int, skip_second: bool) -> Row:
    """How far it is from what is known, or from what costs ten times as much."""
    key = jax.random.key(99)
    if known.log_evidence is not None:
        row = {
            "truth": f"{known.log_evidence:.3f}",
            "z": f"{(value - known.log_evidence) / error:.1f}",
        }
        if known.exact is not None:
            found = aide.estimate(key, known.exact, gold, num_gold=runs, num_target=runs)
            row["AIDE(exact, gold)"] = _pair(found.value, found.std_error)
        return row
    large = aide.diagnose(key, gold.with_budget(TIMES), num_runs=NUM_RUNS)
    assert large.log_evidence is not None
    first, first_error = mean_evidence(large.log_evidence)
    if skip_second:
        z = (value - first) / np.hypot(error, first_error)
        return {"truth": _pair(first, first_error), "z": f"{z:.1f}"}
    shape = jax.eval_shape(known.start.sample, key)
    other = aide.gold_standard(jax.random.key(7), known.log_joint, np.zeros(shape.shape))
    second, second_error = other.record.log_evidence
    return {
        "truth": f"{_pair(first, first_error)}; {_pair(second, second_error)}",
        "z": f"{(value - first) / np.hypot(error, first_error):.1f}; "
        f"{(value - second) / np.hypot(error, second_error):.1f}",
    }


def _pair(value: float, error: float) -> str:
    return f"{value:.3f} ± {error:.3f}"


TABLES = {"standards": standards}
