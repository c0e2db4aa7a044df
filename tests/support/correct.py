r"""Correct algorithms, kernels and studies that look wrong to a normal approximation, in NumPy.

Each is a truth of its own: a sampler and its exact log densities, written out without the library.
Rare states, rare traces, atoms and tails without a variance are where means look too small until
the one run comes that makes up for it. What must hold: the tests raise an alarm at their stated
rate at most. `wrong` makes each of them wrong on purpose.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from aide.auditing.simulated_runs import Pieces, exchange_p_value
from aide.checking.algorithm.laws import (
    DensityRuns,
    density_evidence,
    exchange_evidence,
    self_evidence,
    swap_evidence,
)
from aide.checking.algorithm.region import ProbeFeatures, repeated
from aide.checking.kernel.check import judge_runs
from aide.checking.kernel.runs import Points, StepRuns

Rng = np.random.Generator
NUM_STATES = 10


class Trace(NamedTuple):
    r"""Log factors $\log q(u|x)/r(u;x)$ of a trace: its own, and of `regenerate`."""

    own: Callable[[Rng, int], np.ndarray]
    fresh: Callable[[Rng, int], np.ndarray]


class Output(NamedTuple):
    """A law of outputs with its log density, and a region with its own."""

    sample: Callable[[Rng, int], np.ndarray]
    log_density: Callable[[np.ndarray], np.ndarray]
    sample_region: Callable[[Rng, int], np.ndarray]
    log_region: Callable[[np.ndarray], np.ndarray]
    is_real: bool = True


NO_TRACE = Trace(lambda rng, n: np.zeros(n), lambda rng, n: np.zeros(n))


def finite_trace(own: Any, fresh: Any) -> Trace:
    """A trace with finitely many values and these probabilities."""
    own, fresh = np.asarray(own), np.asarray(fresh)
    factor = np.log(own / fresh)
    return Trace(
        lambda rng, n: factor[rng.choice(own.size, n, p=own)],
        lambda rng, n: factor[rng.choice(own.size, n, p=fresh)],
    )


def lognormal_trace(std: float) -> Trace:
    """Factors without a useful variance for a large `std`."""
    half = std**2 / 2
    return Trace(
        lambda rng, n: std * rng.normal(std, 1, n) - half,
        lambda rng, n: std * rng.normal(0, 1, n) - half,
    )


def pareto_trace(shape: float) -> Trace:
    """Factors without a variance; their own trace is the size-biased one."""
    shift = np.log((shape - 1) / shape)
    return Trace(
        lambda rng, n: rng.exponential(1 / (shape - 1), n) + shift,
        lambda rng, n: rng.exponential(1 / shape, n) + shift,
    )


def rare(mass: float) -> np.ndarray:
    """One common state and nine rare ones."""
    return np.append(1 - (NUM_STATES - 1) * mass, np.full(NUM_STATES - 1, mass))


def normal(std: float = 1.0, atom: float = 0.0) -> Output:
    """A normal law with an atom at 0, and the interval that holds three quarters of it."""
    edge = 1.15 * std

    def sample(rng: Rng, n: int) -> np.ndarray:
        return np.where(rng.random(n) < atom, 0.0, std * rng.normal(size=n))

    def log_density(x: np.ndarray) -> np.ndarray:
        real = stats.norm.logpdf(x, 0, std) + np.log1p(-atom)
        return np.where((x == 0) & (atom > 0), np.log(max(atom, 1e-300)), real)

    inside = lambda x: np.where(np.abs(x) <= edge, -np.log(2 * edge), -np.inf)
    return Output(sample, log_density, lambda rng, n: rng.uniform(-edge, edge, n), inside)


def states(mass: float) -> Output:
    """A finite law with rare states; the region is its common state."""
    chances = rare(mass)
    return Output(
        lambda rng, n: rng.choice(NUM_STATES, n, p=chances),
        lambda x: np.log(chances[x]),
        lambda rng, n: np.zeros(n, int),
        lambda x: np.where(x == 0, 0.0, -np.inf),
        is_real=False,
    )


HALVES = np.array([0.5, 0.5])
RARE_TRACES = [1e-4, 1e-3, 1e-2]
RARE_MASSES = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]
PAIRS: dict[str, tuple[Output, Trace]] = {
    "normal": (normal(), NO_TRACE),
    "two traces": (normal(), finite_trace(HALVES, [0.7, 0.3])),
    **{f"rare trace {e:g}": (normal(), finite_trace(HALVES, [1 - e, e])) for e in RARE_TRACES},
    **{
        f"Gibbs chain, rare states {m:g}": (states(m), finite_trace(rare(0.1), rare(m)))
        for m in RARE_MASSES
    },
    **{f"atom {a:g}": (normal(0.01, a), NO_TRACE) for a in (1e-4, 1e-3, 9e-3)},
    **{f"lognormal {s:g}": (normal(), lognormal_trace(s)) for s in (1.0, 3.0, 6.0)},
    **{f"Pareto {a:g}": (normal(), pareto_trace(a)) for a in (1.05, 1.5, 2.5)},
}


def pair_p_values(name: str, rng: Rng, num: int = 1000, wrong: bool = False) -> dict[str, float]:
    r"""Every test of `aide.check` on one pair; in a `wrong` one $\xi$ is 1.6 times too large.

    In `regenerate` it is too small by as much for negative outputs.
    """
    output, trace = PAIRS[name]
    error = 0.5 * wrong
    x, z = output.sample(rng, num), output.sample_region(rng, num)
    log_own = output.log_density(x) + trace.own(rng, num) + error
    log_fresh = output.log_density(x) + trace.fresh(rng, num) + error * np.sign(x + 1e-9)
    features = ProbeFeatures(output.sample(rng, 200))
    columns = features(x)
    ratio = log_fresh - log_own
    found = {"law 2": swap_evidence(ratio, columns, "")}
    if np.abs(ratio).max() > 0:
        found["law 2, one number"] = exchange_evidence(ratio, "")
        found["law 4"] = self_evidence(ratio, "")
    runs = DensityRuns(
        log_weight=output.log_density(z) + trace.fresh(rng, num) + error - output.log_region(z),
        log_inverse=output.log_region(x) - log_own,
        is_atom=repeated(x[:, None]) if output.is_real else np.zeros(num, bool),
        at_region=features(z),
        at_outputs=columns,
    )
    for item in density_evidence(runs, 0.0, ""):
        found[f"law {item.law}"] = item
    found["laws 1 and 5, Z unknown"] = density_evidence(runs, None, "")[0]
    return {law: item.p_value for law, item in found.items() if item.p_value is not None}


class Kernel(NamedTuple):
    """A density and a start with their logs, a step, its reversal, and the claim."""

    log_density: Callable[[np.ndarray], np.ndarray]
    sample_start: Callable[[Rng, int], np.ndarray]
    log_start: Callable[[np.ndarray], np.ndarray]
    step: Callable[[Rng, np.ndarray], np.ndarray]
    reversal: Callable[[Rng, np.ndarray], np.ndarray] | None
    law: str | None
    is_real: bool = True


def two_modes(mass: float, law: str | None) -> Kernel:
    """An independence kernel on two far modes, from a start that hardly knows the smaller one."""

    def step(rng: Rng, x: np.ndarray) -> np.ndarray:
        return rng.normal(np.where(rng.random(x.shape) < mass, 10.0, 0.0), 1.0)

    def log_density(x: np.ndarray) -> np.ndarray:
        parts = [np.log1p(-mass) + stats.norm.logpdf(x), np.log(mass) + stats.norm.logpdf(x, 10)]
        return np.logaddexp(*parts)[:, 0]

    log_start = lambda x: stats.norm.logpdf(x, 0, 3)[:, 0]
    return Kernel(log_density, lambda rng, n: rng.normal(0, 3, (n, 1)), log_start, step, None, law)


def heavy(law: str | None) -> Kernel:
    """An independence kernel for the Cauchy law, from a normal start."""
    return Kernel(
        lambda x: stats.cauchy.logpdf(x)[:, 0],
        lambda rng, n: rng.normal(0, 1.5, (n, 1)),
        lambda x: stats.norm.logpdf(x, 0, 1.5)[:, 0],
        lambda rng, x: rng.standard_cauchy(x.shape),
        None,
        law,
    )


def table(mass: float, law: str | None, start_mass: float) -> Kernel:
    """Two binary sites with three rare states; a Gibbs sweep and its reversal."""
    joint = np.array([[1 - 6 * mass, mass], [2 * mass, 3 * mass]])
    start = np.array([[1 - 3 * start_mass, start_mass], [start_mass, start_mass]])

    def sites(order: tuple[int, int]) -> Callable[[Rng, np.ndarray], np.ndarray]:
        def step(rng: Rng, x: np.ndarray) -> np.ndarray:
            x = x.copy()
            for site in order:
                others = x[:, 1 - site].astype(int)
                given = joint[:, others].T if site == 0 else joint[others]
                x[:, site] = rng.random(len(x)) < given[:, 1] / given.sum(axis=1)
            return x

        return step

    def at(logs: np.ndarray, x: np.ndarray) -> np.ndarray:
        return logs[x[:, 0].astype(int), x[:, 1].astype(int)]

    def sample(rng: Rng, n: int) -> np.ndarray:
        return np.column_stack(np.divmod(rng.choice(4, n, p=start.ravel()), 2)).astype(float)

    log_joint, log_start = np.log(joint), np.log(start)
    backward = sites((1, 0)) if law == "reversal" else None
    density, begin = (lambda x: at(log_joint, x)), (lambda x: at(log_start, x))
    return Kernel(density, sample, begin, sites((0, 1)), backward, law, is_real=False)


KERNEL_CASES = {
    **{f"two modes {m:g}, reversible": two_modes(m, "reversible") for m in (1e-4, 1e-3, 1e-2)},
    "two modes 0.01, invariance": two_modes(0.01, None),
    "Cauchy from a normal, reversible": heavy("reversible"),
    "Cauchy from a normal, invariance": heavy(None),
    **{f"sweep, rare states {m:g}": table(m, "reversal", 0.25) for m in (1e-5, 1e-3, 1e-2)},
    "sweep, rare starts 0.001": table(0.2 / 2, "reversal", 1e-3),
    "sweep, rare starts 0.001, invariance": table(0.2 / 2, None, 1e-3),
}


def kernel_p_values(name: str, rng: Rng, num: int = 800, wrong: bool = False) -> dict[str, float]:
    """Both laws of `aide.check_kernel`; a `wrong` kernel moves on upwards after its step."""
    case = KERNEL_CASES[name]

    def look(x: np.ndarray) -> Points:
        log_density = case.log_density(x)
        return Points(x, log_density, log_density - case.log_start(x))

    def run(n: int) -> StepRuns:
        x = case.sample_start(rng, n)
        y = case.step(rng, x)
        if wrong:
            y = y + 0.5 if case.is_real else np.where(rng.random(y.shape) < 0.2, 1.0, y)
        z = None if case.reversal is None else look(case.reversal(rng, x))
        return StepRuns(look(x), look(y), z)

    tests, _ = judge_runs(run(400), [run(num)], case.law, num, rng)
    return {test.law: test.p_value for test in tests}


class Study(NamedTuple):
    """A model `x ~ prior, y | x` and an algorithm with its traces, all on whole columns."""

    sample: Callable[[Rng, int], tuple[np.ndarray, np.ndarray]]
    log_joint: Callable[[np.ndarray, np.ndarray], np.ndarray]
    output: Callable[[Rng, np.ndarray], np.ndarray]
    log_output: Callable[[np.ndarray, np.ndarray], np.ndarray]
    trace: Trace = NO_TRACE


def normal_study(shift: float, stretch: float, trace: Trace = NO_TRACE) -> Study:
    """The model x ~ N(0, 2^2), y ~ N(x, 0.5^2), and its posterior moved and stretched."""
    std = (1 / 4 + 4) ** -0.5

    def sample(rng: Rng, n: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.normal(0, 2, n)
        return x, rng.normal(x, 0.5)

    mean = lambda y: 4 * y * std**2 + shift * std
    return Study(
        sample,
        lambda x, y: stats.norm.logpdf(x, 0, 2) + stats.norm.logpdf(y, x, 0.5),
        lambda rng, y: rng.normal(mean(y), stretch * std),
        lambda x, y: stats.norm.logpdf(x, mean(y), stretch * std),
        trace,
    )


def discrete_study(mass: float) -> Study:
    """Ten states, nine of them rare, data that say little, and an algorithm that knows nothing."""
    chances = rare(mass)

    def sample(rng: Rng, n: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.choice(NUM_STATES, n, p=chances)
        return x, rng.normal(0.1 * x, 1)

    return Study(
        sample,
        lambda x, y: np.log(chances[x]) + stats.norm.logpdf(y, 0.1 * x),
        lambda rng, y: rng.integers(0, NUM_STATES, y.size),
        lambda x, y: np.full(y.size, -np.log(NUM_STATES)),
    )


STUDIES = {
    "posterior": normal_study(0.0, 1.0),
    **{f"fit off by {s:g} sd": normal_study(s, 1.0) for s in (1.0, 3.0, 5.0)},
    "fit too narrow": normal_study(0.0, 0.3),
    "fit with rare traces": normal_study(0.5, 1.0, finite_trace(HALVES, [1 - 1e-3, 1e-3])),
    "fit with heavy tails": normal_study(0.5, 1.0, pareto_trace(1.05)),
    **{f"states of mass {m:g}": discrete_study(m) for m in (1e-5, 1e-3, 1e-2)},
}


def study_p_values(name: str, rng: Rng, num: int = 500, wrong: bool = False) -> dict[str, float]:
    """`simulated(...).consistency`; a `wrong` model has twice the noise in its density."""
    study = STUDIES[name]
    x, y = study.sample(rng, num)
    own = study.output(rng, y)
    heat = 0.25 if wrong else 1.0
    traces = [study.trace.fresh(rng, num), study.trace.own(rng, num), study.trace.fresh(rng, num)]
    pieces = Pieces(
        exact_log_joint=heat * study.log_joint(x, y),
        exact_log_xi=(study.log_output(x, y) + traces[0])[:, None],
        own_log_joint=heat * study.log_joint(own, y),
        own_log_xi=np.column_stack([study.log_output(own, y) + t for t in traces[1:]]),
        exact_value=x[:, None].astype(float),
        own_value=own[:, None].astype(float),
        data=y[:, None],
    )
    p_value = exchange_p_value(pieces)
    assert p_value is not None
    return {"consistency": p_value}


LEVELS = (0.05, 1e-4)
GRID: dict[str, tuple[Any, Callable[..., dict[str, float]]]] = {
    "check": (PAIRS, pair_p_values),
    "check_kernel": (KERNEL_CASES, kernel_p_values),
    "simulated": (STUDIES, study_p_values),
}


def alarm_counts(kind: str, name: str, seed: int, num: int) -> dict[str, tuple[int, int, float]]:
    """Per test: alarms at both levels over `num` replications, and the smallest p-value."""
    found: dict[str, list[float]] = {}
    for replication in range(num):
        rng = np.random.default_rng([seed, replication])
        for law, p_value in GRID[kind][1](name, rng).items():
            found.setdefault(law, []).append(p_value)
    return {
        law: (sum(p <= LEVELS[0] for p in ps), sum(p <= LEVELS[1] for p in ps), min(ps))
        for law, ps in found.items()
    }
