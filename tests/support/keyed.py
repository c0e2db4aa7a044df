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
SEED = 2017
KEY = jax.random.key(SEED)
NUM_RUNS, NUM_META = 3, 2
"""Runs of each algorithm that are recorded, and regenerated traces of the target per output."""
NUM_REVERSE = 3
"""Reverse particles of chains with learned meta-inference."""
RECORDED = json.loads(FILE.read_text()) if FILE.exists() else {}
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
        yield f"learned-{name}", LINE, lambda name=name: learned_chain(name, NUM_REVERSE)
    plane = aide.Tractable.of(Normal(np.zeros(2), 1.5))
    yield "learned by pilots", plane, learned_by_pilots
    yield "refined by pilots", plane, refined_by_pilots


NAMES = {name: (gold, make) for name, gold, make in pairs()}
WITH_LAWS = {*REGISTRY, *(f"learned-{name}" for name in CHAIN_KERNELS)}
"""Algorithms whose keyed results are compared where their laws are tested, from the same runs."""


def draws_of(name):
    """Three runs each way, scored by both."""
    gold, make = NAMES[name]
    runs = {"num_gold": NUM_RUNS, "num_target": NUM_RUNS}
    with compile_quickly():
        return aide.draw(KEY, gold, make(), num_meta_target=NUM_META, **runs)


def numbers_of(draws):
    """The first runs, as plain numbers: how many others follow changes none of them."""
    sides = (draws.gold, draws.target)
    return {
        "own": [side.own[:NUM_RUNS].tolist() for side in sides],
        "cross": [side.cross[:NUM_RUNS].tolist() for side in sides],
    }


def check_unchanged(name, draws):
    """Compare the first runs with the recorded ones."""
    found = numbers_of(draws)
    for kind, sides in RECORDED[name].items():
        for now, before in zip(found[kind], sides, strict=True):
            np.testing.assert_allclose(now, before, rtol=1e-12, atol=1e-12, err_msg=name)


def main():
    """Record everything."""
    results = {}
    for name in NAMES:
        results[name] = numbers_of(draws_of(name))
        print(name, flush=True)
    FILE.write_text(
        json.dumps(results, indent=0).replace("\n", " ").replace('], "', '],\n"') + "\n"
    )


if __name__ == "__main__":
    main()
