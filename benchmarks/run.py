"""Speed, side by side: the particle filter inside AIDE, the same in C, and the `particles` package.

    make bench                     # everything: about five minutes on 2 quiet cores

Every contender filters the same data with the same bootstrap filter: double precision, multinomial
resampling before every step. AIDE's rate counts all filter runs of an `aide.estimate` (simulate
with genealogy, conditional runs, the gold standard's share of the time included). Contenders take
turns; rates are medians over the turns. The evidence estimates of all three must agree with the
Kalman filter before any figure is written to `benchmarks/results/`.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import jax
import numpy as np
import peers

import aide
from aide.problems import LocalLevelModel

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


def check_agreement(name: str, log_evidence: list[float], truth: float) -> float:
    """The z of the mean of p̂/p, which is 1 for every correct filter."""
    ratio = np.exp(np.array(log_evidence) - truth)
    z = float((ratio.mean() - 1) / (ratio.std(ddof=1) / np.sqrt(ratio.size)))
    if abs(z) > Z_MAX:
        sys.exit(f"{name}: evidence estimates are wrong (z = {z:.1f}); no figures were written.")
    return z


def time_import() -> float:
    """Seconds of `import aide` beyond `import jax`, in fresh processes (median of 5)."""

    def once(module: str) -> float:
        code = (
            f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
        )
        command = [sys.executable, "-c", code]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    return statistics.median([once("aide") - once("jax") for _ in range(5)])


def bench_size(num: int, turns: int, model: LocalLevelModel, tools: dict[str, Path]) -> dict:
    """All contenders at one number of particles."""
    contenders = {"aide": Contender(), "c": Contender(), "particles": Contender()}
    first, _, _ = run_aide(model, num, 0)
    steady = first
    for turn in range(turns):
        seconds, evidence, runs = run_aide(model, num, turn + 1)
        contenders["aide"].add(num, runs, seconds, evidence)
        steady = min(steady, seconds)
        run = peers.run_c(tools["c"], tools["data"], particles=num, runs=C_RUNS[num], seed=turn)
        contenders["c"].add(num, C_RUNS[num], run.seconds, run.log_evidence)
        runs = PARTICLES_RUNS[num]
        run = peers.run_particles(
            tools["python"], tools["data"], particles=num, runs=runs, seed=turn
        )
        contenders["particles"].add(num, runs, run.seconds, run.log_evidence)
    with jax.enable_x64(True):
        truth = float(model.log_evidence())
    rate = contenders["aide"].rate
    return {
        "particles": num,
        "rates": {name: c.rates for name, c in contenders.items()},
        "median_rate": {name: c.rate for name, c in contenders.items()},
        "aide_over_c": rate / contenders["c"].rate,
        "aide_over_particles": rate / contenders["particles"].rate,
        "compile_seconds": first - steady,
        "z": {name: check_agreement(name, c.log_evidence, truth) for name, c in contenders.items()},
    }


def as_markdown(results: dict) -> str:
    """The table for people."""
    heads = ("P", "aide, M/s", "C (2 threads), M/s", "particles, M/s", "aide / C")
    heads = (*heads, "aide / particles", "compile, s")
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in results["sizes"]:
        rates = [f"{row['median_rate'][name] / 1e6:.2f}" for name in ("aide", "c", "particles")]
        ratios = f"{row['aide_over_c']:.2f} | {row['aide_over_particles']:.1f}"
        cells = " | ".join(rates)
        lines.append(
            f"| {row['particles']:,} | {cells} | {ratios} | {row['compile_seconds']:.1f} |"
        )
    imported = f"`import aide` adds {results['import_seconds']:.2f} s to `import jax`."
    lines += ["", f"{imported} {results['machine']}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Build the peers, take turns, write JSON and Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7, help="interleaved repeats")
    parser.add_argument("--particles", type=int, nargs="*", default=list(RUNS), help="sizes")
    options = parser.parse_args()
    here = Path(__file__).parent
    out = here / "results"
    out.mkdir(exist_ok=True)
    data, p = out / "data.txt", PARAMETERS
    ys = simulate_data()
    peers.write_input(data, p["phi"], p["sx"], p["sy"], p["s0"], ys)
    tools = {
        "c": peers.build_c(here / "build"),
        "python": peers.ensure_particles_env(here.parent),
        "data": data,
    }
    model = LocalLevelModel(ys, p["sx"], p["sy"], 0.0, p["s0"], p["phi"])
    sizes = []
    for num in options.particles:
        sizes.append(bench_size(num, options.turns, model, tools))
        print(
            json.dumps({k: v for k, v in sizes[-1].items() if k != "rates"}, indent=1), flush=True
        )
    machine = f"{platform.machine()}, Python {platform.python_version()}, JAX {jax.__version__}."
    results = {"sizes": sizes, "import_seconds": time_import(), "machine": machine}
    (out / "filter.json").write_text(json.dumps(results, indent=1))
    (out / "filter.md").write_text(as_markdown(results))
    print(as_markdown(results))


if __name__ == "__main__":
    main()
