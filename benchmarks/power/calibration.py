r"""What do simulation-based calibration and nats see of the same faulty fits?

    python benchmarks/run.py power/calibration          # two minutes on one core

$x \in R^2$ is standard normal, $y = x_1 + x_2 + s e$ with $s = 0.5$, in 2% of the data sets
$s = 5$, and the data say which. Every fit is a Gaussian whose divergence from the posterior is
known. Each replication is a study of its own, of 100 or 300 data sets: it *complains* by ranks if
they leave their 95% bands, of the two variables alone or of the log joint density besides, and by
nats if the lower end of the 95% interval is above 0. A right fit should complain in 5% by ranks;
its nats are exactly 0.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import aide
from aide.adapters.gaussian import Gaussian
from aide.auditing.simulated_runs import Pieces
from aide.calibrating import Calibration
from benchmarks.table import Row

RARE, USUAL_NOISE, RARE_NOISE = 0.02, 0.5, 5.0
"""The share of data sets with more noise, and both standard deviations."""
Moments = tuple[Array, Array]
"""Mean and lower triangular factor of a Gaussian."""


def sample_joint(key: Array) -> tuple[Array, dict[str, Array]]:
    """Parameters; a measurement of their sum, and its noise."""
    key_x, key_y, key_rare = jax.random.split(key, 3)
    x = jax.random.normal(key_x, (2,))
    noise = jnp.where(jax.random.uniform(key_rare) < RARE, RARE_NOISE, USUAL_NOISE)
    return x, {"y": x.sum() + noise * jax.random.normal(key_y), "noise": noise}


def log_joint(x: Array, data: dict[str, Array]) -> Array:
    """The log density of parameters and measurement, without constants and that of the noise."""
    error = (data["y"] - x.sum()) / data["noise"]
    return -0.5 * jnp.sum(x * x) - 0.5 * error**2 - jnp.log(data["noise"])


def posterior(data: dict[str, Array], noise: Array | None = None) -> Moments:
    """The posterior's mean and factor, if the noise is what the fit takes it to be."""
    weight = 1 / jnp.square(data["noise"] if noise is None else noise)
    covariance = jnp.linalg.inv(jnp.eye(2) + weight)
    return covariance @ (weight * data["y"] * jnp.ones(2)), jnp.linalg.cholesky(covariance)


def right(data: dict[str, Array]) -> Moments:
    """The posterior."""
    return posterior(data)


def narrow(data: dict[str, Array]) -> Moments:
    """All standard deviations 15% too small."""
    mean, factor = posterior(data)
    return mean, 0.85 * factor


def shifted(data: dict[str, Array]) -> Moments:
    """The mean of the first variable moved by 0.3 sds, that of the second as their correlation."""
    mean, factor = posterior(data)
    return mean + 0.3 * factor[:, 0], factor


def rarely_wrong(data: dict[str, Array]) -> Moments:
    """The usual noise taken for granted."""
    return posterior(data, jnp.asarray(USUAL_NOISE))


def uncorrelated(data: dict[str, Array]) -> Moments:
    """Both variables right, and their correlation missed."""
    mean, factor = posterior(data)
    return mean, jnp.diag(jnp.sqrt(jnp.diag(factor @ factor.T)))


def prior(data: dict[str, Array]) -> Moments:
    """The prior, whatever the data."""
    return jnp.zeros(2), jnp.eye(2)


FITS: dict[str, Callable[[dict[str, Array]], Moments]] = {
    "right": right,
    "15% too narrow": narrow,
    "shifted by 0.3 sd": shifted,
    "wrong for 2% of the data": rarely_wrong,
    "correlation missed": uncorrelated,
    "the prior returned": prior,
}


def divergence(data: dict[str, Array], moments: Moments) -> Array:
    """The symmetrised KL divergence of a Gaussian from the posterior, by its closed form."""
    (mean, factor), (other_mean, other_factor) = posterior(data), moments
    first, second = (jnp.linalg.inv(f @ f.T) for f in (factor, other_factor))
    gap = mean - other_mean
    product = jnp.trace(second @ factor @ factor.T) + jnp.trace(
        first @ other_factor @ other_factor.T
    )
    return 0.5 * (product + gap @ (first + second) @ gap) - mean.size


def study(name: str, num: int, num_draws: int) -> tuple[Calibration, float]:
    """One long study of a fit, and the mean of the true divergences over many data sets."""
    fit = FITS[name]
    found = aide.check_calibration(
        2026,
        sample_joint,
        lambda key, data: aide.Tractable.of(Gaussian(*fit(data))),
        log_joint=log_joint,
        names=("x1", "x2"),
        num_datasets=num,
        num_draws=num_draws,
    )
    keys = jax.random.split(jax.random.key(1), 200_000)
    with jax.enable_x64(True):
        truth = jax.vmap(lambda key: divergence(data := sample_joint(key)[1], fit(data)))(keys)
        return found, round(float(truth.mean()), 10) + 0.0


def part_of(whole: Calibration, rows: slice) -> Calibration:
    """The study of some of the data sets."""
    assert whole.nats is not None
    pieces = Pieces(*(column[rows] for column in whole.nats.pieces))
    sizes = whole.num_draws[rows]
    nats = replace(whole.nats, pieces=pieces)
    return replace(whole, ranks=whole.ranks[rows], num_draws=sizes, given=sizes, nats=nats)


def rates(replications: int = 200, num_draws: int = 100) -> Iterator[Row]:
    """Shares of replications in which ranks and nats complain."""
    for name in FITS:
        row: Row = {"fit": name}
        whole, row["true nats"] = study(name, 300 * replications, num_draws)
        for size in (100, 300):
            parts = [part_of(whole, slice(i, i + size)) for i in range(0, 300 * replications, 300)]
            variables = [replace(p, ranks=p.ranks[:, :2], functions=("x1", "x2")) for p in parts]
            intervals = np.array([part.nats.interval() for part in parts if part.nats])
            values = [part.nats.value for part in parts if part.nats]
            by_ranks, by_all = (
                np.mean([bool(part.outside) for part in which]) for which in (variables, parts)
            )
            inside = (intervals[:, 0] <= row["true nats"] + 1e-9) & (
                intervals[:, 1] >= row["true nats"] - 1e-9
            )
            row |= {
                f"ranks, {size}": f"{by_ranks:.0%}",
                f"with log joint, {size}": f"{by_all:.0%}",
                f"nats, {size}": f"{np.mean(intervals[:, 0] > 1e-9):.0%}",
                f"median nats, {size}": float(np.round(np.median(values), 10)) + 0.0,
                f"interval holds, {size}": f"{inside.mean():.0%}",
            }
        yield row


TABLES = {"rates": rates}
