"""What AIDE, R-hat, ESS, k-hat, SBC, TARP, KSD, C2ST and the ELBO say of the same faulty fits.

    python benchmarks/run.py power/diagnostics --replications 4             # a few minutes
    python benchmarks/run.py power/diagnostics --replications 100 --jobs 6

`complaints`: in how many replications each of them complains at its usual threshold. `values`: the
medians of what each of them reports. AIDE has exact draws for a gold standard and 200 runs each
way; it complains if its lower limit is above 0.05 nats. Two-sample tests and the kernel Stein
discrepancy have 500 draws, R-hat, ESS and k-hat 4 times 1,000 (chains: 4 times 60 steps),
calibration 300 simulated data sets with 63 draws each.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import aide
from aide.estimation.interval import importance_shape
from benchmarks.faulty_fits import PRIOR_STD, Case, all_cases, refined_chain
from benchmarks.peers.diagnostics import (
    COMPLAINTS,
    bulk_ess,
    rank_p_value,
    rank_rhat,
    stein_p_value,
    tarp_p_value,
)
from benchmarks.peers.two_samples import network
from benchmarks.table import Row

RUNS, DRAWS, CHAINS, LENGTH = 200, 500, 4, 1000
DATA_SETS, RANKED = 300, 63
TOLERANCE = 0.05
"""Nats: AIDE complains if the divergence is shown to be above."""
DIGITS = 5
"""Of numbers that are 0 but for rounding."""
KEY_DRAWS, KEY_GOLD, KEY_CHAINS, KEY_DATA, KEY_POINTS = range(5)
KINDS = {
    "AIDE": "AIDE",
    "compare_draws": "AIDE",
    "C2ST": "p-value",
    "KSD": "p-value",
    "R-hat": "R-hat",
    "ESS": "ESS",
    "k-hat": "k-hat",
    "SBC": "p-value",
    "SBC, joint": "p-value",
    "TARP": "p-value",
}
"""Whose threshold decides; the ELBO has none."""
NAMES = [*KINDS, "log Z - ELBO"]


def measure(case: Case, target: Any, seed: int) -> dict[str, float]:
    """What everybody reports in one replication; NaN where a method does not apply."""
    with jax.enable_x64(True):
        posterior, fit = case.posterior(case.observed), case.fit(case.observed)
        found = dict.fromkeys(NAMES, np.nan)
        key = jax.random.key(seed)
        found |= calibration(case, key, np.random.default_rng(seed))
        draws = sampled(fit, jax.random.fold_in(key, KEY_DRAWS), CHAINS * LENGTH)
        exact = sampled(posterior, jax.random.fold_in(key, KEY_GOLD), DRAWS)
        found |= of_draws(posterior, draws[:DRAWS], exact, np.random.default_rng(seed))
        if case.is_chain:
            keys = jax.random.split(jax.random.fold_in(key, KEY_CHAINS), CHAINS)
            chains = np.asarray(jax.vmap(fit.path)(keys))
        else:
            chains = draws.reshape(CHAINS, LENGTH, -1)
            log_weights = logs(posterior, draws) - logs(fit, draws)
            found["k-hat"] = importance_shape(log_weights)
            found["log Z - ELBO"] = -log_weights.mean()
        found["R-hat"], found["ESS"] = rank_rhat(chains), bulk_ess(chains)
    gold = aide.Tractable.of(posterior)
    sizes = {"num_gold": RUNS, "num_target": RUNS, "num_meta_target": 2, "keep_values": True}
    estimate = aide.estimate(seed, gold, target, **sizes)
    return {**found, "AIDE": estimate.sandwich().lower, "AIDE, estimate": estimate.value}


def sampled(distribution: Any, key: Any, number: int) -> np.ndarray:
    """Independent draws."""
    return np.asarray(jax.vmap(distribution.sample)(jax.random.split(key, number)))


def logs(distribution: Any, draws: np.ndarray) -> np.ndarray:
    """Log densities of draws."""
    return np.asarray(jax.vmap(distribution.log_prob)(jnp.asarray(draws)))


def of_draws(
    posterior: Any, draws: np.ndarray, exact: np.ndarray, rng: np.random.Generator
) -> dict[str, float]:
    """What needs draws of the fit, and exact draws or the score of the posterior."""
    scores = np.asarray(jax.vmap(jax.grad(posterior.log_prob))(jnp.asarray(draws)))
    return {
        "compare_draws": aide.compare_draws(exact, draws).lower,
        "C2ST": network(exact, draws, rng),
        "KSD": stein_p_value(draws, scores, rng),
    }


def calibration(case: Case, key: Any, rng: np.random.Generator) -> dict[str, float]:
    """What needs data simulated from the model."""

    def one(key: Any) -> tuple[Any, ...]:
        key_model, key_draws = jax.random.split(key)
        x, y = case.simulate(key_model)
        draws = jax.vmap(case.fit(y).sample)(jax.random.split(key_draws, RANKED))
        log_joint = case.posterior(y).log_prob
        return x, draws, log_joint(x), jax.vmap(log_joint)(draws)

    keys = jax.random.split(jax.random.fold_in(key, KEY_DATA), DATA_SETS)
    x, draws, log_x, log_draws = map(np.asarray, jax.jit(jax.vmap(one))(keys))
    points = PRIOR_STD * rng.normal(size=x.shape)
    return {
        "SBC": rank_p_value(x, draws, rng),
        "SBC, joint": rank_p_value(log_x[:, None], log_draws[..., None], rng),
        "TARP": tarp_p_value(x, draws, points),
    }


def complains(name: str, value: float) -> bool:
    """Whether a method complains at its usual threshold."""
    return value > TOLERANCE if KINDS[name] == "AIDE" else COMPLAINTS[KINDS[name]](value)


def replicate(index: int, seeds: list[int]) -> list[dict[str, float]]:
    """Some replications of one case, in a process of its own."""
    case = all_cases()[index]
    fit = case.fit(case.observed)
    target = refined_chain(case) if case.is_chain else aide.Tractable.of(fit)
    return [measure(case, target, seed) for seed in seeds]


def measured(replications: int, jobs: int) -> Iterator[tuple[Case, list[dict[str, float]]]]:
    """All replications of every case."""
    parts = [part.tolist() for part in np.array_split(np.arange(replications), jobs)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting = [
            (case, [pool.submit(replicate, index, part) for part in parts if part])
            for index, case in enumerate(all_cases())
        ]
        for case, futures in waiting:
            yield case, [found for future in futures for found in future.result()]


def complaints(replications: int = 4, jobs: int = 1) -> Iterator[Row]:
    """Shares of replications in which each method complains, with the medians of the values."""
    for case, found in measured(replications, jobs):
        row: Row = {"fit": case.name, "true nats": round(case.divergence, DIGITS)}
        estimates = [each["AIDE, estimate"] for each in found]
        row["AIDE, nats"] = round(float(np.median(estimates)), DIGITS)
        for name in NAMES:
            values = np.array([each[name] for each in found])
            known = not np.isnan(values).all()
            row[f"{name}, median"] = float(np.median(values)) if known else None
            if name in KINDS:
                share = np.mean([complains(name, value) for value in values])
                row[name] = f"{share:.0%}" if known else None
        yield row


TABLES = {"complaints": complaints}
