"""Keyed results of every algorithm, recorded once: a change of the house changes no number.

`python -m support.keyed` (with `tests` on the path) writes the file; do that only for a change that
is meant to change numbers, and say so in the changelog.
"""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

import aide
from aide.engine.programs.programs import compile_quickly
from aide.problems.distributions import Normal
from support.learned import CHAIN_KERNELS, learned_chain
from support.registry import REGISTRY

FILE = Path(__file__).parents[1] / "reference" / "keyed_results.json"
KEY = jax.random.key(2017)
LINE = aide.Tractable.of(Normal(0.3, 2.0))


def log_bend(x):
    """Two dimensions, not Gaussian."""
    return -0.5 * (x[0] ** 2 + 4.0 * (x[1] - 0.3 * x[0] ** 2) ** 2)


def learned_by_pilots():
    """A chain with a fit of its own."""
    start = Normal(np.zeros(2), 1.5)
    chain: dict[str, Any] = {"kernel": aide.kernels.RandomWalk(0.8), "num_steps": 6}
    algorithm = aide.mcmc(start, log_bend, **chain)
    return aide.refine(
        KEY, algorithm, num_reverse=5, num_pilots=200, num_components=2, progress=False
    )


def refined_by_pilots():
    """Annealed importance sampling with a fit of its own."""
    start = Normal(np.zeros(2), 1.5)
    algorithm = aide.ais(start, log_bend, kernel=aide.kernels.Mala(0.5), num_temperatures=4)
    return aide.refine(
        KEY, algorithm, num_reverse=5, num_pilots=200, num_components=2, progress=False
    )


def pairs():
    """Name, gold standard, and a function that makes the target."""
    for name, entry in REGISTRY.items():
        yield name, entry.reference, lambda entry=entry: entry.algorithm
    for name in CHAIN_KERNELS:
        yield f"learned-{name}", LINE, lambda name=name: learned_chain(name, 3)
    plane = aide.Tractable.of(Normal(np.zeros(2), 1.5))
    yield "learned by pilots", plane, learned_by_pilots
    yield "refined by pilots", plane, refined_by_pilots


NAMES = {name: (gold, make) for name, gold, make in pairs()}


def result_of(name):
    """Three runs each way, scored by both, as plain numbers."""
    gold, make = NAMES[name]
    with compile_quickly():
        draws = aide.draw(KEY, gold, make(), num_gold=3, num_target=3, num_meta_target=2)
    sides = (draws.gold, draws.target)
    return {
        "own": [side.own.tolist() for side in sides],
        "cross": [side.cross.tolist() for side in sides],
    }


def main():
    """Record everything."""
    results = {}
    for name in NAMES:
        results[name] = result_of(name)
        print(name, flush=True)
    FILE.write_text(
        json.dumps(results, indent=0).replace("\n", " ").replace('], "', '],\n"') + "\n"
    )


if __name__ == "__main__":
    main()
