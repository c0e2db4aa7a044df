"""Speed, side by side: the particle filter inside AIDE, the same in C, and the `particles` package.

    make bench                     # the speed section: about five minutes on 2 quiet cores

Every contender filters the same data with the same bootstrap filter: double precision, multinomial
resampling before every step. AIDE's rate counts all filter runs of an `aide.estimate` (simulate
with genealogy, conditional runs, the gold standard's share of the time included). C has as many
threads as AIDE has cores; `particles` runs on one core, and is left out where it cannot be
installed. Contenders take turns; rates are medians over the turns, and so are ratios, each within
one turn. The evidence estimates of all must agree with the Kalman filter before any figure is
written.
"""

import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import aide
from aide.problems import LocalLevelModel
from benchmarks.machine import ROOT, num_cores
from benchmarks.peers import filters
from benchmarks.table import Row

NUM_STEPS = 100
PARAMETERS = {"phi": 0.9, "sx": 0.5, "sy": 1.0, "s0": 1.0}
RUNS = {100: 4000, 1_000: 400, 10_000: 40}
"""Runs of the target and of the gold standard, per number of particles."""
C_RUNS = {100: 20_000, 1_000: 2_000, 10_000: 200}
PARTICLES_RUNS = {100: 100, 1_000: 60, 10_000: 20}
Z_MAX = 5.0


@dataclass
class Contender:
    """Rates (particle-steps per second) and evidence estimates of one program."""

    rates: list[float] = field(default_factory=list)
    log_evidence: list[float] = field(default_factory=list)

    def add(self, num: int, runs: int, seconds: float, log_evidence: list[float]) -> None:
        """One turn."""
        self.rates.append(num * NUM_STEPS * runs / seconds)
        self.log_evidence += list(log_evidence)

    @property
    def rate(self) -> float:
        """Median over the turns."""
        return statistics.median(self.rates)

    def over(self, other: "Contender") -> float:
        """Median over the turns of the ratio of both rates within a turn."""
        pairs = zip(self.rates, other.rates, strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)


def simulate_data() -> np.ndarray:
    """One series from the model."""
    rng, p = np.random.default_rng(1), PARAMETERS
    x, ys = p["s0"] * rng.normal(), []
    for _ in range(NUM_STEPS):
        ys.append(x + p["sy"] * rng.normal())
        x = p["phi"] * x + p["sx"] * rng.normal()
    return np.array(ys)


def run_aide(model: LocalLevelModel, num: int, seed: int) -> tuple[float, list[float], int]:
    """One estimate against the exact posterior: seconds, evidence estimates, filter runs."""
    states = model.state_space()
    target = aide.ParticleFilter(states, num)
    runs = RUNS[num]
    begun = time.perf_counter()
    draws = aide.draw(
        jax.random.key(seed),
        model.posterior(),
        target,
        num_gold=runs,
        num_target=runs,
        keep_values=True,
        progress=False,
    )
    seconds = time.perf_counter() - begun
    with jax.enable_x64(True):
        log_joint = np.asarray(jax.vmap(states.log_joint)(draws.target.values))
    return seconds, list(log_joint - draws.target.own[:, 0]), 3 * runs


def check_agreement(name: str, log_evidence: list[float], truth: float) -> None:
    """Stop unless the mean of p̂/p is 1, as it is for every correct filter."""
    ratio = np.exp(np.array(log_evidence) - truth)
    z = float((ratio.mean() - 1) / (ratio.std(ddof=1) / np.sqrt(ratio.size)))
    if abs(z) > Z_MAX:
        sys.exit(f"{name}: evidence estimates are wrong (z = {z:.1f}); no figures were written.")


def filter_speed(turns: int = 7, particles: tuple[int, ...] = tuple(RUNS)) -> Iterator[Row]:
    """Rates in million particle-steps per second, by number of particles."""
    folder, p = ROOT / "benchmarks" / "build", PARAMETERS
    program, python = filters.build_c(folder), filters.find_particles(ROOT)
    data, ys = folder / "data.txt", simulate_data()
    filters.write_input(data, p["phi"], p["sx"], p["sy"], p["s0"], ys)
    model = LocalLevelModel(ys, p["sx"], p["sy"], 0.0, p["s0"], p["phi"])
    for num in particles:
        yield measure_size(num, turns, model, Peers(program, python, data))


class Peers(NamedTuple):
    """The C program, the interpreter that has `particles` (if any), and the data of both."""

    program: Path
    python: Path | None
    data: Path

    def run(self, name: str, num: int, seed: int) -> tuple[float, list[float], int]:
        """One turn: seconds, evidence estimates, filter runs."""
        if name == "c":
            runs = C_RUNS[num]
            options = {"particles": num, "runs": runs, "seed": seed}
            found = filters.run_c(self.program, self.data, **options, threads=num_cores())
        else:
            runs = PARTICLES_RUNS[num]
            assert self.python is not None
            found = filters.run_particles(
                self.python, self.data, particles=num, runs=runs, seed=seed
            )
        return found.seconds, found.log_evidence, runs


def measure_size(num: int, turns: int, model: LocalLevelModel, peers: Peers) -> Row:
    """All contenders at one number of particles."""
    names = ("aide", "c", "particles") if peers.python is not None else ("aide", "c")
    contenders = {name: Contender() for name in names}
    first, _, _ = run_aide(model, num, 0)
    steady = first
    for turn in range(turns):
        for name, contender in contenders.items():
            if name == "aide":
                seconds, evidence, runs = run_aide(model, num, turn + 1)
                steady = min(steady, seconds)
            else:
                seconds, evidence, runs = peers.run(name, num, turn)
            contender.add(num, runs, seconds, evidence)
    with jax.enable_x64(True):
        truth = float(model.log_evidence())
    for name, contender in contenders.items():
        check_agreement(name, contender.log_evidence, truth)
    ours, c, other = (contenders.get(name) for name in ("aide", "c", "particles"))
    assert ours is not None
    return {
        "P": num,
        "aide, M/s": f"{ours.rate / 1e6:.2f}",
        f"C ({num_cores()} threads), M/s": c and f"{c.rate / 1e6:.2f}",
        "particles, M/s": other and f"{other.rate / 1e6:.2f}",
        "aide / C": c and f"{ours.over(c):.2f}",
        "aide / particles": other and f"{ours.over(other):.1f}",
        "compile, s": f"{first - steady:.1f}",
    }


TABLES = {"filter": filter_speed}
