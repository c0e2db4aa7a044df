r"""NPE of the package `sbi` on tasks of its benchmark whose posteriors are known.

    python benchmarks/run.py adapters/sbi_tasks             # needs sbi and PyTorch; minutes

`Gaussian linear`: ten parameters $N(0, 0.1 I)$, data $N(\theta, 0.1 I)$. `Gaussian mixture`: two
parameters uniform on $[-10, 10]^2$, data from $N(\theta, I)$ or $N(\theta, 0.01 I)$ with equal
probability. `Two moons`: two parameters uniform on $[-1, 1]^2$ and crescents of data, for which
posterior draws and densities are exact up to a quadrature of one normalising constant (Lueckmann et
al., 2021, AISTATS). Neural posterior estimation with its defaults is trained on `simulations` data
sets, and measured on others: in nats against the posterior for each observation, and by ranks.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from jaxtyping import Array

import aide
from aide.adapters.gaussian import Gaussian
from benchmarks.table import Row

BOX, SCALES = 10.0, np.array([1.0, 0.1])
"""Bounds and noise of the Gaussian mixture."""
RADIUS, RADIUS_SD, OFFSET = 0.1, 0.01, 0.25
"""Crescents of the two moons: mean and standard deviation of the radius, and the centre."""


class Task(NamedTuple):
    """A simulator with known posteriors.

    Attributes:
        sample_joint: Parameters and data from a key.
        log_joint: The log density of both, up to a constant.
        posterior: The posterior of one observation.
        bounds: Bounds of a uniform prior; `None` for the normal one.
    """

    sample_joint: Callable[[Array], tuple[Array, Array]]
    log_joint: Callable[[Any, Any], Any]
    posterior: Callable[[Any], aide.Tractable]
    bounds: float | None


def linear() -> Task:
    """Ten independent normals."""
    scale = 0.1**0.5

    def sample_joint(key: Array) -> tuple[Array, Array]:
        theta, noise = scale * jax.random.normal(key, (2, 10))
        return theta, theta + noise

    def log_joint(theta: Array, x: Array) -> Array:
        return norm.logpdf(theta, 0.0, scale).sum() + norm.logpdf(x, theta, scale).sum()

    posterior = lambda x: aide.Tractable.of(Gaussian(0.5 * x, jnp.full(10, 0.05**0.5)))
    return Task(sample_joint, log_joint, posterior, None)


def mixture() -> Task:
    """A wide and a narrow normal about the data, cut off by the bounds."""

    def sample_joint(key: Array) -> tuple[Array, Array]:
        key_theta, key_scale, key_x = jax.random.split(key, 3)
        theta = jax.random.uniform(key_theta, (2,), minval=-BOX, maxval=BOX)
        scale = jax.random.choice(key_scale, jnp.asarray(SCALES))
        return theta, theta + scale * jax.random.normal(key_x, (2,))

    def log_joint(theta: Array, x: Array) -> Array:
        parts = norm.logpdf(theta[:, None], x[:, None], jnp.asarray(SCALES)).sum(axis=0)
        return jnp.where(jnp.all(jnp.abs(theta) <= BOX), logsumexp(parts), -jnp.inf)

    def posterior(x: Array) -> aide.Tractable:
        ends = [(end - x[:, None]) / jnp.asarray(SCALES) for end in (-BOX, BOX)]
        masses = jnp.prod(norm.cdf(ends[1]) - norm.cdf(ends[0]), axis=0)

        def sample(key: Array) -> Array:
            key_scale, key_theta = jax.random.split(key)
            which = jax.random.categorical(key_scale, jnp.log(masses))
            low, high = ends[0][:, which], ends[1][:, which]
            return x + jnp.asarray(SCALES)[which] * jax.random.truncated_normal(
                key_theta, low, high
            )

        return aide.Tractable(sample, lambda t: log_joint(t, x) - jnp.log(masses.sum()))

    return Task(sample_joint, log_joint, posterior, BOX)


def moons() -> Task:
    """Two crescents, mirrored at a line."""

    def shift(theta: Array) -> Array:
        return jnp.stack([-jnp.abs(theta[0] + theta[1]), theta[1] - theta[0]]) / 2**0.5

    def crescent(angle: Array, radius: Array) -> Array:
        return jnp.stack([radius * jnp.cos(angle) + OFFSET, radius * jnp.sin(angle)])

    def sample_joint(key: Array) -> tuple[Array, Array]:
        key_theta, key_angle, key_radius = jax.random.split(key, 3)
        theta = jax.random.uniform(key_theta, (2,), minval=-1.0, maxval=1.0)
        angle = jnp.pi * (jax.random.uniform(key_angle) - 0.5)
        radius = RADIUS + RADIUS_SD * jax.random.normal(key_radius)
        return theta, shift(theta) + crescent(angle, radius)

    def log_joint(theta: Array, x: Array) -> Array:
        across, along = x - shift(theta) - jnp.array([OFFSET, 0.0])
        radius = jnp.sqrt(jnp.maximum(across**2 + along**2, 1e-12))
        log_density = norm.logpdf(radius, RADIUS, RADIUS_SD) - jnp.log(jnp.pi * radius)
        return jnp.where((across > 0) & jnp.all(jnp.abs(theta) <= 1), log_density, -jnp.inf)

    def back(x: Array, angle: Array, radius: Array, sign: Array) -> tuple[Array, Array]:
        """Parameters that moved this point of a crescent to the data, and whether there are any."""
        moved = x - crescent(angle, radius)
        total, gap = -(2**0.5) * sign * moved[0], 2**0.5 * moved[1]
        theta = jnp.stack([total - gap, total + gap]) / 2
        return theta, (moved[0] <= 0) & jnp.all(jnp.abs(theta) <= 1)

    def posterior(x: Array) -> aide.Tractable:
        angles = jnp.pi * ((jnp.arange(400) + 0.5) / 400 - 0.5)
        radii = RADIUS + RADIUS_SD * norm.ppf((jnp.arange(40) + 0.5) / 40)
        grid = jnp.meshgrid(angles, radii, jnp.array([-1.0, 1.0]))
        inside = jax.vmap(lambda *at: back(x, *at)[1])(*(part.ravel() for part in grid))

        def propose(key: Array) -> tuple[Array, Array]:
            key_angle, key_radius, key_sign = jax.random.split(key, 3)
            angle = jnp.pi * (jax.random.uniform(key_angle) - 0.5)
            radius = RADIUS + RADIUS_SD * jax.random.normal(key_radius)
            return back(x, angle, radius, jax.random.rademacher(key_sign, dtype=float))

        def sample(key: Array) -> Array:
            def again(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
                key, following = jax.random.split(state[0])
                return following, *propose(key)

            start = (key, jnp.zeros(2), jnp.zeros((), bool))
            return jax.lax.while_loop(lambda state: ~state[2], again, start)[1]

        constant = jnp.log(2 * inside.mean())
        return aide.Tractable(sample, lambda theta: log_joint(theta, x) - constant)

    return Task(sample_joint, log_joint, posterior, 1.0)


TASKS: dict[str, Callable[[], Task]] = {
    "Gaussian linear": linear,
    "Gaussian mixture": mixture,
    "two moons": moons,
}


def train(task: Task, theta: np.ndarray, x: np.ndarray) -> Any:
    """A posterior of NPE with the defaults of sbi."""
    import torch  # pyrefly: ignore[missing-import]
    from sbi.inference import NPE  # pyrefly: ignore[missing-import]
    from sbi.utils import BoxUniform  # pyrefly: ignore[missing-import]

    torch.set_num_threads(1)  # more wait for each other on a busy machine
    torch.manual_seed(0)
    size = theta.shape[1]
    if task.bounds is None:
        prior = torch.distributions.MultivariateNormal(torch.zeros(size), 0.1 * torch.eye(size))
    else:
        prior = BoxUniform(*(sign * task.bounds * torch.ones(size) for sign in (-1, 1)))
    inference = NPE(prior, show_progress_bars=False)
    inference.append_simulations(*(torch.as_tensor(a, dtype=torch.float32) for a in (theta, x)))
    inference.train()
    return inference.build_posterior()


def pairs(task: Task, seed: int, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and data from the joint distribution."""
    keys = jax.random.split(jax.random.key(seed), num)
    theta, x = jax.vmap(task.sample_joint)(keys)
    return np.asarray(theta), np.asarray(x)


def tasks(
    simulations: int = 5000, observations: int = 50, runs: int = 100, datasets: int = 200
) -> Iterator[Row]:
    """Nats of NPE against known posteriors, and what ranks say of the same fit."""
    for name, make in TASKS.items():
        task = make()
        begun = time.perf_counter()
        fit = aide.sbi.posterior(train(task, *pairs(task, 1, simulations)), f"NPE, {name}")
        trained = time.perf_counter()
        _, observed = pairs(task, 2, observations)
        found = aide.tuning.measure_amortized(
            *(0, fit, observed, task.posterior), num_gold=runs, num_target=runs, progress=False
        )
        measured = time.perf_counter()
        ranks = aide.check_calibration(
            *(0, task.sample_joint, fit),
            log_joint=task.log_joint,
            num_datasets=datasets,
            num_draws=100,
        )
        finite = np.isfinite(found.values)
        yield {
            "task": name,
            "parameters": observed.shape[1],
            "median nats": float(np.median(found.values)),
            "hardest, nats": float(found.values.max()),
            "infinite": f"{np.mean(~finite):.0%}",
            "standard error, median": float(np.median(found.std_errors[finite])),
            "training, s": round(trained - begun, 1),
            "measuring, s": round(measured - trained, 1),
            "ranks": "leave their bands" if ranks.outside else "stay in their bands",
            "p of the ranks": float(f"{ranks.p_value:.2g}"),
            "ranks, s": round(time.perf_counter() - measured, 1),
        }


TABLES = {"tasks": tasks}
