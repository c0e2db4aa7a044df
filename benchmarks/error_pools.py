"""Coverage of the limits of errors for algorithms of the library, with many replications.

One program makes a pool of runs of both algorithms; a replication is a part of the pool. Truths are
the errors of the whole pool, which has hundreds of times the runs of a replication.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

import aide
from aide.estimation.errors.find import BELOW, INTERVAL, MEAN, SD
from aide.estimation.errors.lines import find_lines
from aide.estimation.errors.overlap import Overlap, apart_in, bennett_constant
from aide.estimation.errors.simultaneous import limits_of, single_level
from aide.estimation.errors.variables import OutputVariable
from aide.estimation.terms import terms_of
from benchmarks.table import Row

LEVEL = 0.95
KEY = jax.random.key(30)
OverJobs = Callable[..., dict[str, float]]
"""Divides replications between processes and returns averages."""
Truths = dict[tuple[str, str], float]
"""By variable and quantity; for an sd the logarithm of the ratio."""
QUANTITIES = (MEAN, SD, INTERVAL, *BELOW)


class Pool(NamedTuple):
    """Outputs (run, coordinate) and log ratios at both algorithms' runs."""

    gold: np.ndarray
    target: np.ndarray
    at_gold: np.ndarray
    at_target: np.ndarray

    def part(self, begin: int, end: int) -> "Pool":
        """Some of the runs of either."""
        return Pool(*(array[begin:end] for array in self))


def _regression(target: str) -> tuple[Any, Any]:
    from aide.problems import LinearRegression

    model = LinearRegression(x=[-2.0, 0.5, 2.0], y=[-1.5, 1.0, 2.5])
    gold, prior, kernel = model.posterior(), model.prior(), aide.kernels.RandomWalk(0.5)
    if target == "SMC as gold standard":
        settings = {"kernel": kernel, "num_temperatures": 20, "num_particles": 100}
        smc = aide.tempered_smc(prior, model.log_joint, **settings)
        return smc, aide.sir(prior, model.log_joint, num_particles=10)
    if target == "AIS":
        return gold, aide.ais(prior, model.log_joint, kernel=kernel, num_temperatures=8)
    parameters = {"step_size": 0.3, "inverse_mass_matrix": np.ones(2)}
    nuts = aide.blackjax.nuts(parameters, max_depth=3)
    chain = aide.mcmc(prior, model.log_joint, kernel=nuts, num_steps=2)
    return gold, aide.refine(KEY, chain, num_reverse=20, num_pilots=500)


def _filter(num_particles: int) -> tuple[Any, Any]:
    from aide.problems import LocalLevelModel

    path = LocalLevelModel([1.0, 2.0, 0.5, -1.0, 1.5], level_std=1.0, noise_std=0.7)
    return path.posterior(), aide.ParticleFilter(path.state_space(), num_particles)


PAIRS: dict[str, Callable[[], tuple[Any, Any]]] = {
    f"particle filter, {num} particles": partial(_filter, num) for num in (2, 10, 100, 1000)
} | {
    "AIS, 8 temperatures": partial(_regression, "AIS"),
    "refined NUTS, 2 steps": partial(_regression, "NUTS"),
    "tempered SMC as gold standard": partial(_regression, "SMC as gold standard"),
}
META = (1, 10)


def pool_coverage(
    over_jobs: OverJobs, replications: int, jobs: int, runs: int, pairs: str
) -> Iterator[Row]:
    """Shares in which single limits, and all limits of a table, hold."""
    for name, build in PAIRS.items():
        if pairs not in name:
            continue
        gold, target = build()
        metas = META if name.startswith("particle filter") else (1,)
        for num_meta in metas:
            dear = 4 if name.endswith(("1000 particles", "NUTS, 2 steps")) else 1
            number = max(replications // dear // jobs, 1) * jobs
            pool = make_pool(gold, target, number * runs, num_meta)
            for known in (True, False):
                truths, gap = _truths(pool, known)
                work = partial(_count, pool, truths)
                found = over_jobs(work, (known, runs), number, jobs)
                row: Row = {"pair": f"{name}, M = {num_meta}", "Z": "known" if known else "?"}
                row |= {"replications": number, "largest z of truths": f"{gap:.1f}"}
                yield row | {key: f"{share:.1%}" for key, share in found.items()}


def make_pool(gold: Any, target: Any, size: int, num_meta: int) -> Pool:
    """So many runs of both."""
    found = aide.draw(
        KEY,
        gold,
        target,
        num_gold=size,
        num_target=size,
        num_meta_target=num_meta,
        measure_looseness=False,
        keep_values=True,
        progress=False,
    )
    terms = terms_of(found)
    at_gold, at_target = (np.asarray(side.values).reshape(size, -1) for side in found.sides)
    return Pool(at_gold, at_target, terms.gold, -terms.target)


def _overlap(pool: Pool, known: bool) -> tuple[Overlap, list[OutputVariable]]:
    ratio, num = np.concatenate([pool.at_gold, pool.at_target]), pool.at_gold.size
    if not known:
        ratio = ratio - bennett_constant(ratio, num, 0.5)
    columns = np.concatenate([pool.gold, pool.target])
    variables = [OutputVariable(f"x[{i}]", x) for i, x in enumerate(columns.T)]
    return Overlap(ratio, num, 0.5, known), variables


def _truths(pool: Pool, known: bool) -> tuple[Truths, float]:
    """Values by variable and quantity, and how far plain differences are, in their errors."""
    overlap, variables = _overlap(pool, known)
    plain = apart_in(overlap.num_runs, (None, None))
    tables = [find_lines(each, variables) for each in (overlap, plain)]
    found, other = (one.found for one in tables)
    gaps = np.abs(found.value - other.value) / np.maximum(other.std_error, 1e-12)
    places = zip(tables[0].variables, tables[0].quantities, strict=True)
    return dict(zip(places, found.value.tolist(), strict=True)), float(gaps.max())


def _count(
    pool: Pool, truths: Truths, known: bool, runs: int, num: int, seed: int
) -> dict[str, float]:
    """Of `num` replications: sums of limits that hold, and of whole tables."""
    found = dict.fromkeys((*QUANTITIES, "all"), 0.0)
    for index in range(seed * num, seed * num + num):
        part = pool.part(index * runs, (index + 1) * runs)
        for key, share in shares_that_hold(*_overlap(part, known), truths).items():
            found[key] += share
    return found


def shares_that_hold(
    overlap: Overlap, variables: list[OutputVariable], truths: Truths
) -> dict[str, float]:
    """Of single limits at 95%, by quantity; and whether all limits of the table hold."""
    lines = find_lines(overlap, variables)
    places = list(zip(lines.variables, lines.quantities, strict=True))
    wanted = np.array([truths[place] for place in places])
    holds = []
    for level in (LEVEL, single_level(overlap, lines.found, LEVEL)):
        low, high = limits_of(lines.found, level)
        holds.append((low <= wanted) & (wanted <= high))
    quantities = np.array(lines.quantities)
    shares = {quantity: float(holds[0][quantities == quantity].mean()) for quantity in QUANTITIES}
    return shares | {"all": float(holds[1].all())}
