"""How often do limits of errors hold, and how many runs do bounded weights save?

    python benchmarks/run.py coverage/errors --replications 1000 --jobs 16
    python benchmarks/run.py coverage/errors --only efficiency --replications 1000 --jobs 16
    python benchmarks/run.py coverage/errors --only cases --folder POSTERIORDB
    python benchmarks/run.py coverage/errors --only library --pool-replications 400 --jobs 16

Truths are closed forms, sums over a grid, or means over many more draws. `coverage`: shares of
replications in which single limits at 95% hold (per quantity, all variables together), and in which
all limits of a table hold. `efficiency`: mean squared error of the error of a mean, an sd and a
probability, over that of the plain difference at equal runs. `total_variation`: the upper limit
beside the truth and beside what the divergence alone allows. `library`: algorithms of the library
whose runs are made once and cut into replications. `rare`: a mode of 0.3% that the target misses.
`cases`: usual fits to well-known posteriors.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from aide.estimation.errors.find import BELOW, INTERVAL, MEAN, PROBABILITY, SD, find_table
from aide.estimation.errors.overlap import Overlap, bennett_constant
from aide.estimation.errors.total_variation import (
    _limit,
    _unknown_constant,
    total_variation_sizes,
)
from aide.estimation.errors.variables import OutputVariable
from aide.estimation.interval import confidence_limit, total_variation_bound
from benchmarks.error_pools import QUANTITIES, pool_coverage, shares_that_hold
from benchmarks.table import Row

LEVELS = (0.05, 0.5, 0.95)
DEAR = ("50-D", "1000 particles")
"""Pairs of which a quarter of the replications is made."""


class Sample(NamedTuple):
    """Outputs (run, coordinate) of both algorithms, log ratios there, rows of dependent runs."""

    gold: np.ndarray
    target: np.ndarray
    at_gold: np.ndarray
    at_target: np.ndarray
    rows: Any = (None, None)
    share: float = 0.5


class Case(NamedTuple):
    """A pair: what draws one replication, and the truth of every coordinate, by quantity."""

    draw: Callable[[np.random.Generator, int], Sample]
    truths: Callable[[], list[dict[str, float]]]
    divergence: float = np.nan


def _gaussian_truth(mean: float, sd: float) -> dict[str, float]:
    quantiles = stats.norm.ppf(LEVELS)
    ends = mean + sd * quantiles[[0, 2]]
    found = {MEAN: mean, SD: sd, INTERVAL: float(np.diff(stats.norm.cdf(ends))[0])}
    return found | dict(zip(BELOW, stats.norm.cdf((quantiles - mean) / sd), strict=True))


def _grid_truth(x: np.ndarray, p: np.ndarray, q: np.ndarray) -> dict[str, float]:
    """Of two densities on a fine grid."""
    p, q = p / p.sum(), q / q.sum()
    means, cdfs = [float(w @ x) for w in (p, q)], [np.cumsum(w) - 0.5 * w for w in (p, q)]
    sds = [float(np.sqrt(w @ (x - m) ** 2)) for w, m in zip((p, q), means, strict=True)]
    quantile = lambda k, level: np.interp(level, cdfs[k], x)  # noqa: E731
    below = lambda k, at: np.interp(at, x, cdfs[k])  # noqa: E731
    content = below(0, quantile(1, 0.95)) - below(0, quantile(1, 0.05))
    found = {MEAN: (means[1] - means[0]) / sds[0], SD: sds[1] / sds[0], INTERVAL: float(content)}
    shares = (float(below(1, quantile(0, level))) for level in LEVELS)
    return found | dict(zip(BELOW, shares, strict=True))


def _gaussians(mean: float, sd: float, dimension: int) -> Case:
    """The first three coordinates differ; all others are equal."""
    means = np.where(np.arange(dimension) < 3, mean, 0.0)
    sds = np.where(np.arange(dimension) < 3, sd, 1.0)

    def draw(rng: np.random.Generator, num: int) -> Sample:
        x, y = rng.normal(size=(2, num, dimension))
        y = means + sds * y
        ratio = lambda z: np.sum(  # noqa: E731
            0.5 * ((z - means) / sds) ** 2 + np.log(sds) - 0.5 * z**2, axis=1
        )
        return Sample(x, y, ratio(x), ratio(y))

    one = 0.5 * (sd**2 + mean**2 + (1 + mean**2) / sd**2 - 2)
    truths = lambda: [_gaussian_truth(m, s) for m, s in zip(means, sds, strict=True)]  # noqa: E731
    return Case(draw, truths, one * min(dimension, 3))


def _on_grid(log_p: Any, log_q: Any, sample_p: Any, sample_q: Any, ends: Any) -> Case:
    def draw(rng: np.random.Generator, num: int) -> Sample:
        x, y = sample_p(rng, num), sample_q(rng, num)
        return Sample(x[:, None], y[:, None], log_p(x) - log_q(x), log_p(y) - log_q(y))

    grid = np.linspace(ends[0], ends[1], 200_001)
    p, q = np.exp(log_p(grid)), np.exp(log_q(grid))
    truths = lambda: [_grid_truth(grid, p, q)]  # noqa: E731
    with np.errstate(invalid="ignore"):
        terms = np.nan_to_num((p - q) * (log_p(grid) - log_q(grid)))
    return Case(draw, truths, float(terms.sum() * (grid[1] - grid[0])))


def _modes(x: np.ndarray, weight: float) -> np.ndarray:
    each = np.stack([stats.norm.logpdf(x, -2, 1), stats.norm.logpdf(x, 3, 0.7)])
    return special.logsumexp(each, axis=0, b=np.array([[1 - weight], [weight]]))


def _from_modes(rng: np.random.Generator, num: int, weight: float) -> np.ndarray:
    upper = rng.random(num) < weight
    return np.where(upper, rng.normal(3, 0.7, num), rng.normal(-2, 1, num))


def _sir(particles: int, metas: int) -> Case:
    """SIR from N(0, 3²) for the posterior N(1, 0.3²), against the exact posterior."""
    log_w = lambda x: stats.norm.logpdf(x, 1, 0.3) - stats.norm.logpdf(x, 0, 3)  # noqa: E731
    log_p = lambda x: stats.norm.logpdf(x, 1, 0.3)  # noqa: E731

    def log_xi(rng: np.random.Generator, x: np.ndarray, own: np.ndarray | None) -> np.ndarray:
        """Averaged over M traces; `own`: log weights of the other particles really used."""
        others = log_w(rng.normal(0, 3, size=(x.size, metas, particles - 1)))
        if own is not None:
            others[:, 0] = own
        total = np.logaddexp(log_w(x)[:, None], special.logsumexp(others, axis=2))
        return log_p(x) + special.logsumexp(-total, axis=1) + np.log(particles / metas)

    def draw(rng: np.random.Generator, num: int) -> Sample:
        x = rng.normal(1, 0.3, num)
        particle = rng.normal(0, 3, size=(num, particles))
        log_weight = log_w(particle)
        chosen = np.argmax(log_weight + rng.gumbel(size=log_weight.shape), axis=1)
        y, others = particle[np.arange(num), chosen], np.ones(log_weight.shape, bool)
        others[np.arange(num), chosen] = False
        rest = log_weight[others].reshape(num, particles - 1)
        at_gold, at_target = log_p(x) - log_xi(rng, x, None), log_p(y) - log_xi(rng, y, rest)
        return Sample(x[:, None], y[:, None], at_gold, at_target)

    def truths() -> list[dict[str, float]]:
        rng, grid = np.random.default_rng(0), np.linspace(-12, 12, 24_001)
        others = log_w(rng.normal(0, 3, size=(4_000, particles - 1)))
        log_sum = special.logsumexp(others, axis=1)
        share = np.array([special.expit(one - log_sum).mean() for one in log_w(grid)])
        return [_grid_truth(grid, np.exp(log_p(grid)), stats.norm.pdf(grid, 0, 3) * share)]

    return Case(draw, truths)


def _reference(phi: float) -> Case:
    """An AR(1) chain of standard normals, four times as long, against independent runs."""

    def draw(rng: np.random.Generator, num: int) -> Sample:
        size = 4 * num
        noise = rng.normal(size=size) * np.sqrt(1 - phi**2)
        noise[0] = rng.normal()
        x = np.empty(size)
        x[0] = noise[0]
        for i in range(1, size):
            x[i] = phi * x[i - 1] + noise[i]
        y = 0.4 + 1.2 * rng.normal(size=num)
        ratio = lambda z: stats.norm.logpdf(z) - stats.norm.logpdf(z, 0.4, 1.2)  # noqa: E731
        worth = size * (1 - phi) / (1 + phi)
        share = worth / (worth + num)
        return Sample(x[:, None], y[:, None], ratio(x), ratio(y), ((np.arange(size),), None), share)

    return Case(draw, lambda: [_gaussian_truth(0.4, 1.2)], np.nan)


@cache
def cases() -> dict[str, Case]:
    """All pairs by name."""
    found = {}
    for dimension in (1, 10, 50):
        for mean, sd in ((0.03, 1.0), (0.2, 1.0), (0.5, 1.2), (1.0, 1.5), (3.0, 1.0)):
            name = f"Gaussians in {dimension}-D, {mean} and {sd}"
            found[name] = _gaussians(mean, sd, dimension)
    gamma = lambda a: partial(stats.gamma.logpdf, a=a)  # noqa: E731
    drawn = lambda a: lambda rng, num: rng.gamma(a, size=num)  # noqa: E731
    found["gammas 2 and 3"] = _on_grid(gamma(2), gamma(3), drawn(2), drawn(3), (1e-9, 40))
    found["two modes, 0.3 and 0.5"] = _on_grid(
        partial(_modes, weight=0.3),
        partial(_modes, weight=0.5),
        partial(_from_modes, weight=0.3),
        partial(_from_modes, weight=0.5),
        (-9, 9),
    )
    for particles in (2, 10, 30, 200, 1000):
        for metas in (1, 10):
            found[f"SIR, {particles} particles, M = {metas}"] = _sir(particles, metas)
    found["AR(1) 0.9 as gold standard"] = _reference(0.9)
    return found


def _overlap(sample: Sample, known: bool) -> tuple[Overlap, np.ndarray]:
    ratio = np.concatenate([sample.at_gold, sample.at_target])
    num = sample.at_gold.size
    if not known:
        ratio = ratio + 3.0
        ratio = ratio - bennett_constant(ratio, num, sample.share)
    overlap = Overlap(ratio, num, sample.share, known, sample.rows)
    return overlap, np.concatenate([sample.gold, sample.target])


def _counts(name: str, known: bool, num_runs: int, num: int, seed: int) -> dict[str, float]:
    """Of `num` replications: sums of single limits that hold, and of whole tables."""
    case, rng = cases()[name], np.random.default_rng([seed, 7])
    truths = {
        (str(i), quantity): float(np.log(value)) if quantity == SD else value
        for i, one in enumerate(case.truths())
        for quantity, value in one.items()
    }
    found = dict.fromkeys((*QUANTITIES, "all"), 0.0)
    for _ in range(num):
        overlap, columns = _overlap(case.draw(rng, num_runs), known)
        variables = [OutputVariable(str(i), x) for i, x in enumerate(columns.T)]
        for key, share in shares_that_hold(overlap, variables, truths).items():
            found[key] += share
    return found


def _squares(name: str, known: bool, num_runs: int, num: int, seed: int) -> dict[str, float]:
    """Squared errors of bounded estimates and of plain differences, summed."""
    case, rng = cases()[name], np.random.default_rng([seed, 8])
    kinds = (MEAN, SD, PROBABILITY)
    names = [prefix + kind for prefix in ("", "plain ") for kind in kinds]
    truth, found = case.truths()[0], dict.fromkeys(names, 0.0)
    at = 1.0
    for _ in range(num):
        sample = case.draw(rng, num_runs)
        overlap, columns = _overlap(sample, known)
        plain = Overlap(
            np.repeat([np.inf, -np.inf], overlap.num_runs), overlap.num_gold, 0.5, True, sample.rows
        )
        x = columns[:, 0]
        event = OutputVariable("event", (x <= at).astype(float), True)
        for weights, prefix in ((overlap, ""), (plain, "plain ")):
            for one in find_table(weights, [OutputVariable("x", x), event], 0.95).variables:
                for error in one.errors:
                    if error.quantity == MEAN:
                        found[f"{prefix}mean"] += (error.error - truth[MEAN]) ** 2
                    elif error.quantity == SD:
                        found[f"{prefix}sd"] += np.log(error.error / truth[SD]).item() ** 2
                    elif error.quantity == PROBABILITY:
                        wanted = stats.norm.cdf((at - truth[MEAN]) / truth[SD]) - stats.norm.cdf(at)
                        found[f"{prefix}{PROBABILITY}"] += float(error.error - wanted) ** 2
    return found


def _limits(name: str, known: bool, num_runs: int, num: int, seed: int) -> dict[str, float]:
    """Upper limits of total variation: by bounded terms, and by the divergence."""
    case, rng = cases()[name], np.random.default_rng([seed, 9])
    many_rng, parts = np.random.default_rng(1), []
    for _ in range(20 if name.startswith("SIR") else 100):  # in parts, for memory
        many = case.draw(many_rng, 2_000)
        each = (many.at_gold, many.at_target)
        parts.append(0.5 * sum(total_variation_sizes(one).mean() for one in each))
    truth = float(np.mean(parts))
    found = {"truth": truth * num, "holds": 0.0, "limit": 0.0, "by divergence": 0.0}
    for _ in range(num):
        sample = case.draw(rng, num_runs)
        parts = sample.at_gold, sample.at_target
        nothing: Any = None
        if known:
            limit = _limit(nothing, [total_variation_sizes(part) for part in parts], 0.95)
        else:
            limit = _unknown_constant(nothing, parts, 0.95, False).upper
        old = total_variation_bound(confidence_limit([parts[0], -parts[1]], 0.975))
        found["limit"] += limit
        found["holds"] += limit >= truth
        found["by divergence"] += min(old + 1 - 0.025 ** (1 / num_runs), 1.0)
    return found


def _is_asked(name: str, pairs: str) -> bool:
    """Whether a name contains one of the parts that `;` separates."""
    return any(part in name for part in pairs.split(";"))


def _over_jobs(
    work: Callable[..., dict[str, float]], first: tuple[Any, ...], replications: int, jobs: int
) -> dict[str, float]:
    """The average over all replications, divided between processes."""
    sizes = [replications // jobs + (i < replications % jobs) for i in range(jobs)]
    calls = [(*first, size, seed) for seed, size in enumerate(sizes) if size]
    if jobs == 1:
        parts = [work(*call) for call in calls]
    else:
        parts = list(_pool(jobs).map(work, *zip(*calls, strict=True)))
    return {name: sum(part[name] for part in parts) / replications for name in parts[0]}


@cache
def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))


def coverage(
    replications: int = 1000, jobs: int = 1, runs: int = 500, pairs: str = ""
) -> Iterator[Row]:
    """Shares in which limits hold, for pairs whose names contain a part of `pairs` (a;b;c)."""
    for name, case in cases().items():
        number = max(replications // (4 if any(one in name for one in DEAR) else 1), 1)
        for known in (True, False):
            if not _is_asked(name, pairs):
                continue
            found = _over_jobs(_counts, (name, known, runs), number, jobs)
            divergence = None if np.isnan(case.divergence) else case.divergence
            row: Row = {"pair": name, "D": divergence, "Z": "known" if known else "?"}
            row["replications"] = number
            yield row | {key: f"{share:.1%}" for key, share in found.items()}


def efficiency(replications: int = 1000, jobs: int = 1, runs: int = 500) -> Iterator[Row]:
    """Mean squared error over that of the plain difference, Gaussian pairs in 1-D."""
    pairs = [(0.03, 1.0), (0.1, 1.0), (0.2, 1.0), (0.5, 1.2), (1.0, 1.5), (2.0, 1.0), (4.0, 1.0)]
    for mean, sd in [*pairs, (7.0, 1.0)]:
        name = f"Gaussians in 1-D, {mean} and {sd}"
        cases()[name] = _gaussians(mean, sd, 1)
        for known in (True, False):
            work = partial(_squares_of, mean, sd)
            found = _over_jobs(work, (known, runs), replications, jobs)
            row: Row = {"D": f"{cases()[name].divergence:.4g}", "Z": "known" if known else "?"}
            for key in (MEAN, SD, PROBABILITY):
                row[key] = f"{found[key] / found[f'plain {key}']:.4f}"
            yield row


def _squares_of(mean: float, sd: float, *rest: Any) -> dict[str, float]:
    name = f"Gaussians in 1-D, {mean} and {sd}"
    cases().setdefault(name, _gaussians(mean, sd, 1))
    return _squares(name, *rest)


def total_variation(
    replications: int = 1000, jobs: int = 1, runs: int = 500, pairs: str = ""
) -> Iterator[Row]:
    """Upper limits at 95% beside the extended truth."""
    for name in cases():
        if "AR(1)" in name or "50-D" in name or not _is_asked(name, pairs):
            continue
        for known in (True, False):
            found = _over_jobs(_limits, (name, known, runs), replications, jobs)
            yield {
                "pair": name,
                "Z": "known" if known else "?",
                "extended truth": f"{found['truth']:.4f}",
                "limit": f"{found['limit']:.4f}",
                "limit / truth": f"{found['limit'] / found['truth']:.2f}",
                "holds": f"{found['holds']:.1%}",
                "by the divergence": f"{found['by divergence']:.4f}",
            }


def rare(replications: int = 1000, jobs: int = 1, runs: int = 500) -> Iterator[Row]:
    """A gold standard with a mode of 0.3% far out, which the target misses."""
    for share in (0.001, 0.003, 0.01):
        found = _over_jobs(partial(_rare, share), (runs,), replications, jobs)
        yield {"mode": f"{share:.1%}"} | {key: f"{value:.1%}" for key, value in found.items()}


def _rare(share: float, num_runs: int, num: int, seed: int) -> dict[str, float]:
    """Truth: total variation is the share of the mode; limits of a probability, unseen added."""
    rng, held, widened = np.random.default_rng([seed, 10]), 0, 0
    unseen = 1 - 0.025 ** (1 / num_runs)
    for _ in range(num):
        far = rng.random(num_runs) < share
        x = np.where(far, 30.0, rng.normal(size=num_runs))
        y = rng.normal(size=num_runs)
        at_gold = np.where(far, np.inf, np.log1p(-share))
        at_target = np.full(num_runs, np.log1p(-share))
        nothing: Any = None
        sizes = [total_variation_sizes(at_gold), total_variation_sizes(at_target)]
        held += _limit(nothing, sizes, 0.95) >= share
        overlap = Overlap(np.concatenate([at_gold, at_target]), num_runs, 0.5, True)
        event = OutputVariable("x > 10", (np.concatenate([x, y]) > 10).astype(float), True)
        table = find_table(overlap, [event], 0.95).variables
        low, high = (table[0].errors[0].low, table[0].errors[0].high) if table else (0.0, 0.0)
        widened += low - unseen <= -share <= high + unseen
    return {"total variation holds": held, "probability holds, unseen added": widened}


def library(
    pool_replications: int = 400, jobs: int = 1, pool_runs: int = 200, pairs: str = ""
) -> Iterator[Row]:
    """Algorithms of the library: replications are parts of one pool of runs."""
    yield from pool_coverage(_over_jobs, pool_replications, jobs, pool_runs, pairs)


def cases_of_posteriors(
    folder: str = "posteriordb",
    case_runs: int = 500,
    num_truth: int = 10_000,
    num_steps: int = 10_000,
    case: str = "",
) -> Iterator[Row]:
    """Errors of fits to posteriors of posteriordb in `folder`, and of filters of the Nile."""
    from benchmarks.error_cases import error_cases

    yield from error_cases(folder, case_runs, num_truth, num_steps, case)


TABLES = {
    "coverage": coverage,
    "efficiency": efficiency,
    "total_variation": total_variation,
    "rare": rare,
    "library": library,
    "cases": cases_of_posteriors,
}
