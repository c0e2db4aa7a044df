"""Learned meta-inference for Markov chains against the truth.

    python benchmarks/learned_mcmc.py --only walk1d        (all sections without --only)

Bias is the mean difference, on the same draws, between AIDE's terms and the terms with log q from
a grid or a closed form: what meta-inference adds to the divergence. Every section prints its rows
and adds them to benchmarks/results/learned_mcmc.json; `--table` prints the file as Markdown.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from chain_truth import (
    Truth,
    independence_truth,
    langevin_truth,
    leapfrog_map,
    radial_truth,
    walk_truth,
)
from coupling import meeting_times, total_variation_bounds
from scipy import stats

import aide
from aide.problems import LinearRegression
from aide.problems.distributions import Normal

RESULTS = Path(__file__).parent / "results" / "learned_mcmc.json"
Row = dict[str, Any]
Sections = Mapping[str, Callable[[int], Iterator[Row]]]


class Shifted(eqx.Module):
    """A log density known up to a constant: what a user has."""

    density: Any
    shift: float = 3.7

    def __call__(self, x: Any) -> Any:
        """Evaluate it."""
        return self.density(x) + self.shift


class Problem(eqx.Module):
    """A chain and its exact posterior, or another gold standard."""

    start: Any
    posterior: Any
    log_joint: Any
    kernel: Any

    def learn(self, num_steps: int, **options: Any) -> aide.learned.ReverseFit:
        """Learn the reverse."""
        key = jax.random.key(1)
        chain = aide.mcmc(self.start, self.log_joint, kernel=self.kernel, num_steps=num_steps)
        return aide.refine(key, chain, **options).fit

    def run(
        self, num_steps: int, num_runs: int, **meta: Any
    ) -> tuple[Row, aide.estimation.Estimate]:
        """AIDE of the chain, as a row and with its draws."""
        begun = time.perf_counter()
        options = {
            name: meta.pop(name)
            for name in ("num_meta_target", "num_meta_gold", "share")
            if name in meta
        }
        chain = aide.mcmc(self.start, self.log_joint, kernel=self.kernel, num_steps=num_steps)
        chain = aide.refine(None, chain, **meta) if meta else chain
        result = aide.estimate(
            jax.random.key(2),
            self.posterior,
            chain,
            num_gold=num_runs,
            num_target=num_runs,
            keep_values=True,
            **options,
        )
        loose = result.looseness.target
        row = {
            "T": num_steps,
            "P": meta.get("num_reverse"),
            "M": result.draws.num_meta_target,
            "N": num_runs,
            "value": result.value,
            "std_error": result.std_error,
            "looseness": None if loose is None else loose.value,
            "seconds": time.perf_counter() - begun,
        }
        return row, result

    def measure(self, num_steps: int, num_runs: int, truth: Truth, **meta: Any) -> Row:
        """One row: AIDE of the chain against its exact posterior."""
        row, result = self.run(num_steps, num_runs, **meta)
        gold, target = outputs(result)
        bias = meta_bias(result, truth.log_q(gold), truth.log_q(target))
        return {**row, "truth": truth.divergence, **bias}


def outputs(result: aide.estimation.Estimate) -> tuple[np.ndarray, np.ndarray]:
    """What the gold standard and the chain returned."""
    draws = result.draws
    return np.asarray(draws.gold.values), np.asarray(draws.target.values)


def meta_bias(
    result: aide.estimation.Estimate, log_q_gold: np.ndarray, log_q_target: np.ndarray
) -> Row:
    """What the target's meta-inference adds, given its true log density at all outputs."""
    draws = result.draws
    num_meta = draws.num_meta_target
    missing = log_q_gold - draws.gold.scored(num_meta)
    excess = draws.target.kept(num_meta) - log_q_target
    error = np.hypot(missing.std() / len(missing) ** 0.5, excess.std() / len(excess) ** 0.5)
    return {"bias": float(missing.mean() + excess.mean()), "bias_error": float(error)}


def gaussian_problem(dimension: int, kernel: Any, start_mean: float = 1.0) -> Problem:
    """Start N(m, 3^2), posterior N(1, 0.3^2), in every coordinate."""
    centre, origin = (np.full(dimension, m) if dimension > 1 else m for m in (1.0, start_mean))
    posterior = Normal(centre, 0.3)
    return Problem(
        Normal(origin, 3.0), aide.Tractable.of(posterior), Shifted(posterior.log_prob), kernel
    )


def walk1d(runs: int) -> Iterator[Row]:
    """A random walk: start N(0, 3^2), posterior N(1, 0.3^2), step 0.5."""
    problem = gaussian_problem(1, aide.kernels.RandomWalk(0.5), 0.0)
    logs = [lambda x, m=m, s=s: stats.norm.logpdf(x, m, s) for m, s in ((0.0, 3.0), (1.0, 0.3))]
    truths = walk_truth([20, 50, 100, 1000], logs[0], logs[1], 0.5, (-18.0, 18.0))
    for steps, particles in ((20, 100), (50, 100), (50, 1000), (100, 100), (1000, 100)):
        fit = problem.learn(steps)
        yield problem.measure(steps, runs, truths[steps], fit=fit, num_reverse=particles)
    yield problem.measure(50, min(runs, 200), truths[50], num_meta_target=100)


def walk5d(runs: int) -> Iterator[Row]:
    """A random walk in five dimensions, step 0.32."""
    problem = gaussian_problem(5, aide.kernels.RandomWalk(0.32))
    truths = radial_truth([100], 5, 3.0, 0.3, 1.0, (1.0, 0.32))
    fit = problem.learn(100)
    for particles in (100, 500, 1000):
        yield problem.measure(100, runs, truths[100], fit=fit, num_reverse=particles)


def mala10d(runs: int) -> Iterator[Row]:
    """MALA in ten dimensions."""
    problem = gaussian_problem(10, aide.kernels.Mala(0.25))
    truths = radial_truth([5, 10, 50], 10, 3.0, 0.3, 1.0, leapfrog_map(0.25, 1, 0.3))
    fit = problem.learn(50)
    for steps, particles in ((5, 500), (10, 500), (50, 100), (50, 500)):
        yield problem.measure(steps, runs, truths[steps], fit=fit, num_reverse=particles)


def hmc10d(runs: int) -> Iterator[Row]:
    """HMC with 8 leapfrog steps of 0.05 in ten dimensions."""
    problem = gaussian_problem(10, aide.kernels.Hmc(0.05, 8))
    truths = radial_truth([2, 5, 20], 10, 3.0, 0.3, 1.0, leapfrog_map(0.05, 8, 0.3))
    fit = problem.learn(20)
    for steps, particles in ((2, 500), (5, 100), (5, 500), (20, 100)):
        yield problem.measure(steps, runs, truths[steps], fit=fit, num_reverse=particles)


def ula(runs: int) -> Iterator[Row]:
    """Unadjusted Langevin in three dimensions: it never reaches the posterior."""
    for step_size, lengths in ((0.1, (30, 50)), (0.2, (10, 200)), (0.3, (5, 50)), (0.4, (20,))):
        problem = gaussian_problem(3, aide.kernels.Ula(step_size), 0.0)
        truths = langevin_truth(lengths, 3, (0.0, 3.0), 1.0, 0.3, step_size)
        fit = problem.learn(max(lengths))
        for steps in lengths:
            row = problem.measure(steps, runs, truths[steps], fit=fit, num_reverse=100)
            yield {"step size": step_size, **row}


def independence(runs: int) -> Iterator[Row]:
    """The paper's chain: independence MH on a regression, proposals from the prior."""
    model = LinearRegression()
    problem = Problem(
        model.prior(), model.posterior(), model.log_joint, aide.kernels.Independence(model.prior())
    )

    def log_likelihood(nodes: np.ndarray) -> np.ndarray:
        errors = np.asarray(model.y) - (nodes[:, :1] + nodes[:, 1:] * np.asarray(model.x))
        return stats.norm.logpdf(errors).sum(axis=1)

    steps = [1, 2, 4, 8, 16, 32, 64, 128]
    log_prior = lambda x: stats.norm.logpdf(x).sum(axis=1)
    truths = independence_truth(steps, log_likelihood, log_prior)
    fit = problem.learn(128)
    for num_steps in steps:
        yield problem.measure(num_steps, runs, truths[num_steps], fit=fit, num_reverse=300)


class TwoModes(eqx.Module):
    """Half of N(-8, 1) and half of N(8, 1)."""

    def log_prob(self, x: Any) -> Any:
        """The log density."""
        return jnp.logaddexp(Normal(-8.0, 1.0).log_prob(x), Normal(8.0, 1.0).log_prob(x)) - jnp.log(
            2.0
        )

    def sample(self, key: Any) -> Any:
        """An exact draw."""
        key_side, key_x = jax.random.split(key)
        side = jnp.where(jax.random.bernoulli(key_side), 8.0, -8.0)
        return side + jax.random.normal(key_x, dtype=side.dtype)


def bimodal(runs: int) -> Iterator[Row]:
    """Modes at -8 and 8 that the chain never crosses between, from three starts.

    From the third one it sits in one mode: the bound stays large, as it must.
    """
    modes = TwoModes()
    for mean, std in ((2.0, 6.0), (8.0, 2.0), (8.0, 1.0)):
        start = Normal(mean, std)
        problem = Problem(
            start, aide.Tractable.of(modes), modes.log_prob, aide.kernels.RandomWalk(1.5)
        )
        log_start = lambda x, m=mean, s=std: stats.norm.logpdf(x, m, s)
        truths = walk_truth([200], log_start, _log_modes, 1.5, (-30.0, 30.0), 0.02)
        fit = problem.learn(200)
        row = problem.measure(200, runs, truths[200], fit=fit, num_reverse=100)
        yield {"start": f"N({mean:g}, {std:g}²)", **row}


def coupling(runs: int) -> Iterator[Row]:
    """Total variation of the random walk of `walk1d`: L-lag couplings, our reading, the truth.

    `evaluations` counts log densities in millions: of all couplings, and of all runs, meta-runs and
    pilots. Couplings with L = 100 and as many pairs as we have runs.
    """
    steps, lag = [20, 50, 100, 200], 100
    problem = gaussian_problem(1, aide.kernels.RandomWalk(0.5), 0.0)
    logs = [lambda x, m=m, s=s: stats.norm.logpdf(x, m, s) for m, s in ((0.0, 3.0), (1.0, 0.3))]
    truths = walk_truth(steps, logs[0], logs[1], 0.5, (-18.0, 18.0))
    rng = np.random.default_rng(0)
    begun = time.perf_counter()
    times, count = meeting_times(
        rng,
        lambda n: rng.normal(0.0, 3.0, (n, 1)),
        lambda x: stats.norm.logpdf(x[:, 0], 1.0, 0.3),
        0.5,
        lag,
        runs,
    )
    seconds = time.perf_counter() - begun
    bounds = total_variation_bounds(times, lag, steps)
    fit = problem.learn(max(steps))
    grid = np.linspace(-18.0, 18.0, 20_001)
    for num_steps, (bound, error) in zip(steps, bounds, strict=True):
        row = problem.measure(num_steps, runs, truths[num_steps], fit=fit, num_reverse=100)
        gap = np.exp(truths[num_steps].log_q(grid)) - stats.norm.pdf(grid, 1.0, 0.3)
        yield {
            "T": num_steps,
            "true TV": float(0.5 * np.trapezoid(np.abs(gap), grid)),
            "coupling bound": bound,
            "its error": error,
            "our TV": aide.estimation.total_variation_bound(
                row["value"] + 1.645 * row["std_error"]
            ),
            "coupling evaluations": count / 1e6,
            "our evaluations": (3 * runs * 100 * num_steps + 2000 * max(steps)) / 1e6,
            "coupling seconds": seconds,
            "our seconds": row["seconds"],
        }


def _log_modes(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(stats.norm.logpdf(x, -8.0), stats.norm.logpdf(x, 8.0)) - np.log(2.0)


SECTIONS: Sections = {
    "independence": independence,
    "walk1d": walk1d,
    "walk5d": walk5d,
    "mala10d": mala10d,
    "hmc10d": hmc10d,
    "ula": ula,
    "bimodal": bimodal,
    "coupling": coupling,
}


def show(name: str, rows: list[Row]) -> None:
    """Rows as a Markdown table."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    print(f"\n{name}\n")
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        cells = [row.get(column, "") for column in columns]
        text = [f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells]
        print("| " + " | ".join(text) + " |")


def main(sections: Sections, description: str | None) -> None:
    """Run sections or print what they left."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", choices=sections, action="append")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in options.only or sections:
        if options.table:
            show(name, known.get(name, []))
            continue
        begun = time.perf_counter()
        rows = []
        for row in sections[name](options.runs):
            rows.append(row)
            print(name, json.dumps(row), flush=True)
        print(f"{name}: {time.perf_counter() - begun:.0f} s with learning, on {jax.devices()[0]}")
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({**known, name: rows}, indent=1))


if __name__ == "__main__":
    main(SECTIONS, __doc__)
