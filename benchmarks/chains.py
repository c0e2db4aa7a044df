"""Markov chains whose output density is known, measured with learned meta-inference.

Bias is the mean difference, on the same draws, between AIDE's terms and the terms with log q from
a grid or a closed form: what meta-inference adds to the divergence.
"""

import time
from typing import Any

import equinox as eqx
import jax
import numpy as np
from reference.chain_truth import Truth

import aide
from aide.problems.distributions import Normal
from benchmarks.table import Row


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
            "M": result.draws.target.num_meta,
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
    """What the target's meta-inference adds, given its true log density at all outputs.

    `at gold` is the part at outputs of the gold standard, the rest at the target's own.
    """
    draws = result.draws
    num_meta = draws.target.num_meta
    missing = log_q_gold - draws.gold.scored(num_meta)
    excess = draws.target.kept(num_meta) - log_q_target
    error = np.hypot(missing.std() / len(missing) ** 0.5, excess.std() / len(excess) ** 0.5)
    return {
        "at gold": float(missing.mean()),
        "bias": float(missing.mean() + excess.mean()),
        "bias_error": float(error),
    }


def gaussian_problem(dimension: int, kernel: Any, start_mean: float = 1.0) -> Problem:
    """Start N(m, 3^2), posterior N(1, 0.3^2), in every coordinate."""
    centre, origin = (np.full(dimension, m) if dimension > 1 else m for m in (1.0, start_mean))
    posterior = Normal(centre, 0.3)
    return Problem(
        Normal(origin, 3.0), aide.Tractable.of(posterior), Shifted(posterior.log_prob), kernel
    )
