"""Gold standards of models as a NumPyro user writes them, with defaults, against long NUTS runs.

    python benchmarks/run.py gold/real_models --jobs 4
    python benchmarks/run.py gold/real_models --problem GP          # names that contain it
    python benchmarks/run.py gold/real_models --problem groups --max-seconds 60

Far from the posterior the log densities of most of these models overflow or have no value: a rate,
a population, a Cholesky factor. Each goes through `aide.numpyro.posterior(model, data).gold(key)`,
whose seconds are shown. 4,000 draws of NUTS (4 chains, every fifth draw) are what the result is
compared with, also where the gold standard is flagged: by AIDE, with `--runs` runs of either side,
and by the means of all unconstrained coordinates and of their squares, whose largest distance in
standard errors (Monte Carlo error of both sides, autocorrelation allowed for) is the largest |z|.
The column "NUTS fits" has the p-value of the score check of these draws. Every stage prints its
seconds; a stage that fails leaves its reason in the row. NUTS is given more than defaults, as a
careful user would: 2,000 steps of warm-up, a dense metric, `target_accept_prob=0.95`.
"""

import multiprocessing
import re
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size, gelman_rubin
from numpyro.distributions import constraints
from numpyro.infer import MCMC, NUTS

import aide
from benchmarks.table import Row

NUM_CHAINS, NUM_WARMUP, NUM_DRAWS, THINNING = 4, 2000, 1000, 5
"""Of NUTS: draws per chain that are kept, of which there are `THINNING` times as many."""
NAN_SHARE = re.compile(r"NaN or \+inf at (\S+%)")
"""How a record states the share of evaluations without a value."""


class Problem(NamedTuple):
    """A model and the arguments it is run with."""

    model: Callable[..., None]
    data: tuple[Any, ...]


def poisson_regression(group: Any, x: Any, counts: Any) -> None:
    """Intercepts of 12 groups and a slope: the rates overflow where the prior still has mass."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 5.0))
    spread = numpyro.sample("spread", dist.HalfCauchy(2.5))
    slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
    with numpyro.plate("groups", 12):
        intercept: Any = numpyro.sample("intercept", dist.Normal(mean, spread))
    rate = jnp.exp(intercept[group] + slope * x)
    numpyro.sample("counts", dist.Poisson(rate), obs=counts)


def _poisson_regression() -> Problem:
    rng = np.random.default_rng(1)
    group, x = np.repeat(np.arange(12), 5), rng.normal(size=60)
    rates = np.exp((1.0 + 0.6 * rng.normal(size=12))[group] + 0.5 * x)
    return Problem(poisson_regression, (group, x, rng.poisson(rates)))


def poisson_groups(group: Any, counts: Any) -> None:
    """The model of docs/how_to/numpyro.md."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 2.0))
    spread = numpyro.sample("spread", dist.HalfNormal(1.0))
    with numpyro.plate("groups", 6):
        rate: Any = numpyro.sample("rate", dist.Normal(mean, spread))
    numpyro.sample("counts", dist.Poisson(jnp.exp(rate[group])), obs=counts)


def _poisson_groups() -> Problem:
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(6), 5)
    counts = rng.poisson(np.exp(0.5 + 0.4 * rng.normal(size=6))[group])
    return Problem(poisson_groups, (group, counts))


def populations(begin: Any, theta: Any, years: int, steps: int = 10) -> Any:
    """Lotka-Volterra: prey and predators of every year, by Runge-Kutta steps of a tenth of one."""

    def slope(z: Any) -> Any:
        return jnp.stack([(theta[0] - theta[1] * z[1]) * z[0], (theta[3] * z[0] - theta[2]) * z[1]])

    def step(z: Any, _: Any) -> tuple[Any, Any]:
        h = 1.0 / steps
        one = slope(z)
        two = slope(z + h / 2 * one)
        three = slope(z + h / 2 * two)
        z = z + h / 6 * (one + 2 * two + 2 * three + slope(z + h * three))
        return z, z

    return jax.lax.scan(step, begin, None, length=years * steps)[1][steps - 1 :: steps]


def lotka_volterra(measured: Any) -> None:
    """Rates, beginnings and errors with lognormal priors; populations overflow or fall below 0."""
    centre = jnp.log(jnp.array([1.0, 0.05, 1.0, 0.05]))
    theta = numpyro.sample("theta", dist.LogNormal(centre, 0.5).to_event(1))
    begin = numpyro.sample("begin", dist.LogNormal(jnp.log(10.0), 1.0).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.LogNormal(-1.0, 1.0).expand([2]).to_event(1))
    z = populations(begin, theta, len(measured))
    numpyro.sample("measured", dist.LogNormal(jnp.log(z), sigma), obs=measured)


def _lotka_volterra() -> Problem:
    rng = np.random.default_rng(2)
    truth = np.array([0.55, 0.028, 0.80, 0.024])
    z = populations(jnp.array([34.0, 6.0]), jnp.asarray(truth), 20)
    return Problem(lotka_volterra, (np.asarray(z) * np.exp(0.25 * rng.normal(size=(20, 2))),))


def gaussian_process(x: Any, counts: Any) -> None:
    """A squared exponential kernel with a tiny jitter: no Cholesky factor for great lengths."""
    length: Any = numpyro.sample("length", dist.Gamma(25.0, 4.0))
    height: Any = numpyro.sample("height", dist.HalfNormal(2.0))
    unit: Any = numpyro.sample("unit", dist.Normal(0.0, 1.0).expand([len(x)]).to_event(1))
    apart = (x[:, None] - x[None, :]) / length
    cov = height**2 * jnp.exp(-0.5 * apart**2) + 1e-10 * jnp.eye(len(x))
    numpyro.sample("counts", dist.Poisson(jnp.exp(jnp.linalg.cholesky(cov) @ unit)), obs=counts)


def _gaussian_process() -> Problem:
    rng = np.random.default_rng(3)
    x = np.linspace(-10.0, 10.0, 11)
    return Problem(gaussian_process, (x, rng.poisson(np.exp(2.0 + 1.5 * np.sin(x / 3.0)))))


def earnings_on_height(height: Any, earnings: Any) -> None:
    """Dollars on inches, neither of them centred, priors flat."""
    flat = dist.ImproperUniform(constraints.real_vector, (), (2,))
    beta: Any = numpyro.sample("beta", flat)
    positive = dist.ImproperUniform(constraints.positive, (), ())
    sigma = numpyro.sample("sigma", positive)
    numpyro.sample("earnings", dist.Normal(beta[0] + beta[1] * height, sigma), obs=earnings)


def _earnings_on_height() -> Problem:
    rng = np.random.default_rng(4)
    height = rng.normal(66.6, 3.8, 1192)
    return Problem(
        earnings_on_height, (height, -84_000 + 1590 * height + rng.normal(0, 19e3, 1192))
    )


PROBLEMS = {
    "Poisson regression, 12 groups, 15-D": _poisson_regression,
    "Lotka-Volterra, 8-D": _lotka_volterra,
    "Poisson GP, 13-D": _gaussian_process,
    "earnings on height, raw units, 3-D": _earnings_on_height,
    "Poisson, 6 groups (adapters page), 8-D": _poisson_groups,
}


def models(
    problem: str = "", jobs: int = 1, seed: int = 0, runs: int = 1000, max_seconds: float = 0.0
) -> Iterator[Row]:
    """One row per model, each in a process of its own; 0 seconds stand for no limit."""
    asked = [
        (each, seed, runs, max_seconds) for each in PROBLEMS if problem.lower() in each.lower()
    ]
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(jobs, len(asked)), maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(_row, asked)


def _row(asked: tuple[str, int, int, float]) -> Row:
    name, seed, runs, max_seconds = asked
    warnings.simplefilter("ignore")
    row = dict.fromkeys(COLUMNS, "") | {"model": name, "seed": seed}
    post = aide.numpyro.posterior((given := PROBLEMS[name]()).model, *given.data)
    wall, cpu = time.perf_counter(), time.process_time()
    limit = {"max_seconds": max_seconds} if max_seconds else {}
    try:
        gold = post.gold(jax.random.key(seed), progress=False, **limit)
    except Exception as error:  # a model that fails is a row, not the end of the table
        row["verdict"] = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return row | _spent(wall, cpu)
    row |= _spent(wall, cpu)
    print(f"{name}\n{gold}\n{gold.record.remarks}", flush=True)
    row["verdict"] = "; ".join((gold.verdict, *gold.record.doubts))
    found = NAN_SHARE.search(" ".join(gold.record.remarks))
    row["NaN"] = found.group(1) if found else "0%"
    try:
        return row | _against_nuts(post, gold, given, seed, runs)
    except Exception as error:  # likewise
        return row | {"AIDE to NUTS": f"{type(error).__name__}: {' '.join(str(error).split())}"}


def _spent(wall: float, cpu: float) -> Row:
    return {
        "seconds": round(time.perf_counter() - wall),
        "CPU seconds": round(time.process_time() - cpu),
    }


def _against_nuts(post: Any, gold: Any, given: Problem, seed: int, runs: int) -> Row:
    """How far it is from NUTS, whatever its tests said."""
    begun = time.perf_counter()
    with jax.enable_x64(True):
        kernel = NUTS(given.model, target_accept_prob=0.95, dense_mass=True)
        mcmc = MCMC(
            kernel,
            num_warmup=NUM_WARMUP,
            num_samples=NUM_DRAWS * THINNING,
            thinning=THINNING,
            num_chains=NUM_CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(jax.random.key(1000 + seed), *given.data)
        chains = mcmc.get_samples(group_by_chain=True)
    flat = np.stack([[np.asarray(x) for x in chain] for chain in _unconstrained(post, chains)])
    r_hat = max(float(gelman_rubin(flat[..., i])) for i in range(flat.shape[-1]))
    print(f"NUTS: {time.perf_counter() - begun:.0f} s, R-hat {r_hat:.3f}", flush=True)
    draws = post.from_mcmc(mcmc, check_score=False)
    sizes = {"num_gold": runs, "num_target": runs, "progress": False}
    found = aide.estimate(jax.random.key(2000 + seed), draws, gold, keep_values=True, **sizes)
    z, where = _largest_z(flat, np.asarray(found.draws.target.values), post.layout.coordinates)
    print(f"AIDE: {time.perf_counter() - begun:.0f} s\n{found}", flush=True)
    return {
        "AIDE to NUTS": f"{found.value:.3f} ± {found.std_error:.3f}",
        "looseness": "{:.3f} ± {:.3f}".format(*gold.record.looseness),
        "largest abs. z": f"{z:.1f} ({where})",
        "R-hat of NUTS": f"{r_hat:.3f}",
        "NUTS fits": f"p = {draws.score_check().p_value:.2g}",
    }


def _unconstrained(post: Any, chains: dict[str, Any]) -> np.ndarray:
    """Vectors by chain and draw."""
    with jax.enable_x64(True):
        both = jax.vmap(jax.vmap(post.unconstrain))
        return np.asarray(both({name: jnp.asarray(chains[name]) for name in post.names}))


def _largest_z(chains: np.ndarray, outputs: np.ndarray, names: Any) -> tuple[float, str]:
    """Of means of coordinates, and of their squares about the mean of NUTS."""
    centre, worst = chains.mean(axis=(0, 1)), (0.0, "")
    for power, what in ((1, "mean"), (2, "square")):
        known, seen = (chains - centre) ** power, (outputs - centre) ** power
        for i, name in enumerate(names):
            size = float(effective_sample_size(known[..., i]))
            error = np.sqrt(known[..., i].var() / size + seen[:, i].var() / len(seen))
            off = abs(seen[:, i].mean() - known[..., i].mean()) / error
            worst = max(worst, (float(off), f"{what} of {name}"))
    return worst


COLUMNS = (
    "model",
    "seed",
    "seconds",
    "CPU seconds",
    "verdict",
    "NaN",
    "looseness",
    "AIDE to NUTS",
    "largest abs. z",
    "R-hat of NUTS",
    "NUTS fits",
)
TABLES = {"models": models}
