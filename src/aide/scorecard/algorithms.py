"""What the scorecard measures: usual algorithms with the settings that their libraries come with.

Fits by variational inference (NumPyro) and Pathfinder (BlackJAX) begin where their libraries begin.
Modes are those of SciPy's BFGS. Samplers begin at the Laplace approximation with doubled standard
deviations (`WIDENED`) and take their metric from it: what a careful user without a good start
would do. Where there is no Laplace approximation, they begin at a normal distribution about 0 with
standard deviation `WIDENED` in every direction, with the unit metric.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from numpyro import optim
from numpyro.infer import SVI, Trace_ELBO, autoguide
from scipy.optimize import minimize

from aide._core.algorithm import InferenceAlgorithm
from aide._core.chains import split_rhat
from aide._core.types import Key
from aide.adapters.blackjax import approximation
from aide.adapters.gaussian import Gaussian
from aide.adapters.numpyro.posterior import NumpyroPosterior
from aide.algorithms.annealed import ais, tempered_smc
from aide.algorithms.mcmc import mcmc
from aide.algorithms.tractable import Tractable
from aide.kernels.hamiltonian import Hmc
from aide.kernels.nuts import Nuts
from aide.learned.refine import refine

NUM_STEPS = 10_000
"""Steps of stochastic optimisation, one draw of the evidence bound each."""
LEARNING_RATE = 0.01
"""Of Adam, as in NumPyro's examples."""
INITIAL_RANGE = 2.0
"""Pathfinder and climbs start uniformly within this distance of 0, as Stan's algorithms do."""
NUM_CLIMBS = 5
"""Starts of the climbs that look for the mode."""
WIDENED = 2.0
"""Factor on the standard deviations of the Laplace approximation from which samplers start."""
NUM_PARTICLES, NUM_TEMPERATURES = 10, 10
"""Of tempered SMC: few."""
AIS_TEMPERATURES = 30
"""Of annealed importance sampling, which has one particle."""
STEP_SIZE, NUM_LEAPFROG = 0.4, 4
"""Of HMC between temperatures, in units of the posterior's standard deviations."""
NUTS_STEPS, NUTS_DEPTH, NUTS_STEP_SIZE = 3, 4, 0.5
"""A short run of NUTS: transitions, deepest tree, step size in units of the posterior's sds."""
NUM_REVERSE = 50
"""Reverse particles of the learned meta-inference of NUTS."""
NUM_CHAINS = 100
"""Short chains of NUTS whose R-hat stands beside the row."""


class ReadyAlgorithm(NamedTuple):
    """An algorithm that is ready to be measured.

    Attributes:
        target: The algorithm.
        num_gradients: Gradients that fitting evaluated, or that one run evaluates at most; `None`
            where the library does not tell.
        num_gradients_start: Gradients that the search for a sampler's start evaluated besides.
        rhat: R-hat of the chains that the algorithm makes; `None` where there is no chain.
    """

    target: InferenceAlgorithm
    num_gradients: int | None
    num_gradients_start: int | None = None
    rhat: float | None = None


Fit = Callable[[NumpyroPosterior, Key], ReadyAlgorithm]


class NoLaplace(ValueError):
    """Raised where the log joint is not curved downwards in every direction at its best point.

    Attributes:
        num_gradients: Gradients that the search took.
    """

    def __init__(self, words: str, num_gradients: int):
        super().__init__(words)
        self.num_gradients = num_gradients


class LaplaceMode(NamedTuple):
    """A mode, the covariance of the Laplace approximation there, and gradients it took."""

    centre: np.ndarray
    covariance: np.ndarray
    num_gradients: int


def find_mode(post: NumpyroPosterior, key: Key) -> LaplaceMode:
    """Return the best mode that SciPy's BFGS finds from a few uniform starts about 0.

    Raises:
        NoLaplace: If the log joint is not curved downwards in every direction there.
    """
    downhill = jax.jit(jax.value_and_grad(lambda x: -post.log_joint(x)))

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        height, slope = downhill(jnp.asarray(x))
        is_finite = bool(jnp.isfinite(height)) and bool(jnp.all(jnp.isfinite(slope)))
        return (float(height), np.asarray(slope)) if is_finite else (np.inf, np.zeros(x.size))

    shape = (NUM_CLIMBS, post.dimension)
    starts = np.asarray(jax.random.uniform(key, shape, float, -INITIAL_RANGE, INITIAL_RANGE))
    with np.errstate(all="ignore"):  # a climb that fails is not the best one
        climbs = [minimize(value, start, jac=True, method="BFGS") for start in starts]
    best = min(climbs, key=lambda climb: climb.fun if np.isfinite(climb.fun) else np.inf)
    num_gradients = sum(climb.njev for climb in climbs)
    curvature = np.asarray(jax.jit(jax.hessian(lambda x: -post.log_joint(x)))(jnp.asarray(best.x)))
    scale = np.sqrt(np.abs(np.diag(curvature)))
    if not np.all(scale > 0) or np.linalg.eigvalsh(curvature / np.outer(scale, scale))[0] <= 0:
        raise NoLaplace(
            f"no Laplace approximation: the best of {NUM_CLIMBS} climbs ended at a log joint of "
            f"{-best.fun:.6g}, where the log joint is not curved downwards in every direction.",
            num_gradients,
        )
    unit = np.linalg.inv(curvature / np.outer(scale, scale))
    unit = (unit + unit.T) / 2  # rounding leaves an inverse a little asymmetric
    return LaplaceMode(best.x, unit / np.outer(scale, scale), num_gradients)


def laplace(post: NumpyroPosterior, key: Key) -> ReadyAlgorithm:
    """The Laplace approximation: a normal distribution with the mode and the curvature there."""
    mode = find_mode(post, key)
    fit = Gaussian(mode.centre, np.linalg.cholesky(mode.covariance))
    return ReadyAlgorithm(Tractable.of(fit, "Laplace"), mode.num_gradients)


def _variational(kind: type[autoguide.AutoGuide], label: str) -> Fit:
    def fit(post: NumpyroPosterior, key: Key) -> ReadyAlgorithm:
        guide = kind(post.model)
        svi = SVI(post.model, guide, optim.Adam(LEARNING_RATE), Trace_ELBO())
        found = svi.run(key, NUM_STEPS, *post.args, progress_bar=False, **post.kwargs)
        return ReadyAlgorithm(post.guide(guide, found, label), NUM_STEPS)

    return fit


def pathfinder(post: NumpyroPosterior, key: Key) -> ReadyAlgorithm:
    """BlackJAX's Pathfinder, a single path."""
    key_start, key_path = jax.random.split(key)

    start = jax.random.uniform(key_start, (post.dimension,), float, -INITIAL_RANGE, INITIAL_RANGE)
    run = jax.jit(lambda k, x: blackjax.pathfinder.approximate(k, post.log_joint, x)[0])
    return ReadyAlgorithm(approximation(run(key_path, start), "Pathfinder"), None)


def _start(post: NumpyroPosterior, key: Key) -> tuple[Tractable, LaplaceMode]:
    """Return the start of a sampler, and the mode with the covariance from which it was widened."""
    try:
        mode = find_mode(post, key)
    except NoLaplace as error:
        size = post.dimension
        mode = LaplaceMode(np.zeros(size), np.eye(size), error.num_gradients)
    factor = WIDENED * np.linalg.cholesky(mode.covariance)
    return Tractable.of(Gaussian(mode.centre, factor), "wide start"), mode


def smc(post: NumpyroPosterior, key: Key) -> ReadyAlgorithm:
    """Tempered SMC with few particles."""
    start, mode = _start(post, key)
    target = tempered_smc(
        start,
        post.log_joint,
        kernel=Hmc(STEP_SIZE, NUM_LEAPFROG, metric=mode.covariance),
        num_particles=NUM_PARTICLES,
        num_temperatures=NUM_TEMPERATURES,
    )
    of_a_run = NUM_PARTICLES * (NUM_TEMPERATURES - 1) * (NUM_LEAPFROG + 1)
    return ReadyAlgorithm(target, of_a_run, mode.num_gradients)


def annealed(post: NumpyroPosterior, key: Key) -> ReadyAlgorithm:
    """Annealed importance sampling."""
    start, mode = _start(post, key)
    kernel = Hmc(STEP_SIZE, NUM_LEAPFROG, metric=mode.covariance)
    target = ais(start, post.log_joint, kernel=kernel, num_temperatures=AIS_TEMPERATURES)
    return ReadyAlgorithm(target, (AIS_TEMPERATURES - 1) * (NUM_LEAPFROG + 1), mode.num_gradients)


def nuts(post: NumpyroPosterior, key: Key) -> ReadyAlgorithm:
    """A few transitions of NUTS with learned meta-inference."""
    start, mode = _start(post, key)
    kernel = Nuts(NUTS_STEP_SIZE, NUTS_DEPTH, mode.covariance, "numpyro")
    chain = mcmc(start, post.log_joint, kernel=kernel, num_steps=NUTS_STEPS)
    refined = refine(key, chain, num_reverse=NUM_REVERSE, progress=False)
    rhat = rhat_of_short_chains(jax.random.fold_in(key, 1), start, kernel, post.log_joint)
    return ReadyAlgorithm(refined, NUTS_STEPS * 2**NUTS_DEPTH, mode.num_gradients, rhat)


def rhat_of_short_chains(key: Key, start: Tractable, kernel: Nuts, log_joint: Any) -> float:
    """Return the largest R-hat of chains of `NUTS_STEPS` transitions, their starts included."""

    def states(key: Key) -> jax.Array:
        first, *keys = jax.random.split(key, 1 + NUTS_STEPS)
        found = [start.simulate(first).value]
        for one in keys:
            found.append(kernel.step(one, log_joint, found[-1]))
        return jnp.stack(found)

    chains = np.asarray(jax.jit(jax.vmap(states))(jax.random.split(key, NUM_CHAINS)))
    return max(split_rhat(list(chains[:, :, place])) for place in range(chains.shape[2]))


ALGORITHMS: dict[str, Fit] = {
    "Laplace": laplace,
    "mean field": _variational(autoguide.AutoNormal, "mean field"),
    "full rank": _variational(autoguide.AutoMultivariateNormal, "full rank"),
    "Pathfinder": pathfinder,
    f"SMC, {NUM_PARTICLES} particles": smc,
    f"AIS, {AIS_TEMPERATURES} temperatures": annealed,
    f"NUTS, {NUTS_STEPS} steps": nuts,
}
"""By name, in the order of the card."""
