"""Gold standards at traps, where some once passed and were wrong, and at healthy problems.

    python benchmarks/run.py gold/traps --only traps --jobs 16          # five seeds each
    python benchmarks/run.py gold/traps --only healthy --jobs 16        # two seeds each
    python benchmarks/run.py gold/traps --problem ridge --seeds 1       # names that contain it

A gold standard is *right* if its log evidence is within five standard errors (or 0.1 nats) of the
truth and AIDE between exact draws and it is below 0.3 nats, or 0.6 within its error; it is
*flagged* if it does not pass, with the reason. What is neither right nor flagged is WRONG. The
problems are in `support.traps`. Seeds that there was no time for are rows too.
"""

import multiprocessing
import time
import warnings
from collections.abc import Iterator
from typing import Any

import jax
from support.traps import HEALTHY, TRAPS

import aide
from benchmarks.table import Row

NUM_RUNS = 100
"""Of exact draws, and of the gold standard, to measure how far it is from them."""
MOST_SES, ENOUGH = 5.0, 0.1
"""Standard errors, or nats, by which a right log evidence is off at most."""
MOST_AIDE = 0.3
"""Nats between exact draws and a right gold standard."""


def traps(
    problem: str = "", seeds: int = 5, first_seed: int = 0, jobs: int = 1, minutes: float = 8.5
) -> Iterator[Row]:
    """One row per trap and seed: right, flagged with the reason, or wrong."""
    yield from _made("traps", problem, seeds, first_seed, jobs, minutes)


def healthy(
    problem: str = "",
    healthy_seeds: int = 2,
    first_seed: int = 0,
    jobs: int = 1,
    minutes: float = 8.5,
) -> Iterator[Row]:
    """One row per healthy problem and seed: all should be right and none flagged."""
    yield from _made("healthy", problem, healthy_seeds, first_seed, jobs, minutes)


def _made(
    kind: str, problem: str, seeds: int, first: int, jobs: int, minutes: float
) -> Iterator[Row]:
    """Each in a process of its own, which ends with it: compiled programs take memory."""
    names = [name for name in PROBLEMS[kind] if problem.lower() in name.lower()]
    asked = [(kind, name, seed) for seed in range(first, first + seeds) for name in names]
    end, missing = time.monotonic() + 60 * minutes, set(asked)
    context = multiprocessing.get_context("spawn")
    counts = dict.fromkeys(("right", "right, flagged", "wrong, flagged", "WRONG", "error"), 0)
    with context.Pool(min(jobs, len(asked)), maxtasksperchild=1) as pool:
        rows = pool.imap_unordered(_row, asked)
        while missing:
            try:
                row = rows.next(max(end - time.monotonic(), 0.0))
            except multiprocessing.TimeoutError:
                break
            missing.discard((kind, row["problem"], row["seed"]))
            counts[row["outcome"]] += 1
            yield row
        pool.terminate()
    for _, name, seed in sorted(missing):
        yield _blank(name, seed, "no time")
    told = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
    print(f"\n{told or 'nothing'}; {len(missing)} of {len(asked)} without time", flush=True)


def _row(asked: tuple[str, str, int]) -> Row:
    kind, name, seed = asked
    try:
        return _judged(name, seed, PROBLEMS[kind][name]())
    except Exception as error:  # a problem that fails is a row, not the end of the table
        words = " ".join(str(error).split())
        return _blank(name, seed, "error") | {"reason": f"{type(error).__name__}: {words}"[:300]}


def _blank(name: str, seed: int, outcome: str) -> Row:
    return {
        "problem": name,
        "seed": seed,
        "outcome": outcome,
        "log evidence": "",
        "off": "",
        "AIDE(exact, gold)": "",
        "seconds": None,
        "reason": "",
    }


def _judged(name: str, seed: int, known: Any) -> Row:
    warnings.simplefilter("ignore")
    begun = time.perf_counter()
    gold = aide.gold_standard(
        jax.random.key(seed), known.log_joint, known.start, progress=False, **known.options
    )
    seconds = time.perf_counter() - begun
    value, error = gold.record.log_evidence
    off = value - known.log_evidence
    found = aide.estimate(
        jax.random.key(1000 + seed),
        known.exact,
        gold,
        num_gold=NUM_RUNS,
        num_target=NUM_RUNS,
        progress=False,
    )
    near = abs(off) <= max(MOST_SES * error, ENOUGH) and error <= MOST_AIDE
    right = near and found.value <= MOST_AIDE + min(3 * found.std_error, MOST_AIDE)
    outcome = {
        (True, True): "right",
        (True, False): "right, flagged",
        (False, False): "wrong, flagged",
        (False, True): "WRONG",
    }[bool(right), gold.record.passed]
    return _blank(name, seed, outcome) | {
        "log evidence": f"{value:.3f} ± {error:.3f}",
        "off": f"{off:.3f}",
        "AIDE(exact, gold)": f"{found.value:.3f} ± {found.std_error:.3f}",
        "seconds": round(seconds),
        "reason": "; ".join(gold.record.doubts),
    }


PROBLEMS = {"traps": TRAPS, "healthy": HEALTHY}
TABLES = {"traps": traps, "healthy": healthy}
