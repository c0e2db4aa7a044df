"""Small, asymmetric instances of every algorithm of the library; the laws run on all of them.

A new algorithm joins by one `add`. Weights are bounded above and below, or the reference dominates
the proposals, so that every mean the laws look at has a finite variance.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import aide
from aide.problems import HiddenMarkovModel, IsingModel, LocalLevelModel
from aide.problems.distributions import Categorical, Normal
from support import toys
from support.learned import refined, tempered


class Entry(NamedTuple):
    """An algorithm and what is known about it.

    Attributes:
        algorithm: The algorithm.
        reference: A normalised `Tractable` that covers the output density (law 1).
        log_h: A normalised log density inside the output density's support (law 5).
        log_z: The true log Z.
        determined: Whether the output determines the trace (law 3).
        log_q: The output density by an independent formula, where there is one (law 1).
        num_runs: Runs of every kind.
    """

    algorithm: Any
    reference: aide.Tractable
    log_h: Callable[[Any], Any]
    log_z: float = 0.0
    determined: bool = False
    log_q: Callable[[float], float] | None = None
    num_runs: int = 20_000


REGISTRY: dict[str, Entry] = {}
PARTICLES = (1, 2, 3)


def add(name, algorithm, space, **facts):
    """Register an algorithm whose outputs lie in `space`, a pair (reference, log_h)."""
    assert name not in REGISTRY
    REGISTRY[name] = Entry(algorithm, *space, **facts)


def uniform(shape, num_values):
    """The uniform distribution on integer arrays, as reference and as h."""
    log_density = lambda x: jnp.full((), -math.prod(shape) * math.log(num_values))
    sample = lambda key: jax.random.randint(key, shape, 0, num_values, jnp.int32)
    return aide.Tractable(sample, log_density), log_density


def normal(broad, narrow):
    """A broad normal as reference, a narrow one as h; each given by mean and std."""
    return aide.Tractable.of(Normal(*broad)), Normal(*narrow).log_prob


def product(*spaces):
    """Tuples with one component from each space."""
    joint = lambda parts: lambda x: sum(part(leaf) for part, leaf in zip(parts, x, strict=True))
    references, narrow = zip(*spaces, strict=True)

    def sample(key):
        keys = jax.random.split(key, len(references))
        return tuple(r.sample(k) for r, k in zip(references, keys, strict=True))

    return aide.Tractable(sample, joint([r.log_density for r in references])), joint(narrow)


LINE = normal((0.3, 2.0), (0.8, 0.5))
TRIPLE = normal((np.array([0.3, 0.3, 0.2]), 2.2), (np.array([0.4, 0.3, 0.5]), 0.4))


def add_tractable():
    """Densities that are known: normalised, shifted by a known or an unknown constant."""
    skewed = Normal(-0.4, 0.9)
    log_q = lambda x: -0.5 * ((x + 0.4) / 0.9) ** 2 - math.log(0.9 * math.sqrt(2 * math.pi))
    facts = {"determined": True, "log_q": log_q}
    shifted = lambda x: skewed.log_prob(x) + 0.7
    add("tractable", aide.Tractable.of(skewed), LINE, **facts)
    known = aide.Tractable(skewed.sample, shifted, 0.7)
    add("tractable-shifted", known, LINE, log_z=0.7, **facts)
    unknown = aide.Tractable(skewed.sample, shifted, None)
    add("tractable-unknown", unknown, LINE, log_z=0.7, **facts)
    encoder = lambda y: Normal(0.5 * y - 0.8, 0.7 + 0.25 * y)
    add("amortized", aide.Amortized(encoder, 0.8), LINE, **facts)
    log_z = toys.log_evidence()
    facts["log_q"] = lambda x: toys.log_sir_density(x, 1) + math.log(toys.weight(x)) - log_z
    rejection = aide.RejectionSampler(toys.PRIOR, toys.log_joint, 0.6)
    add("rejection", rejection, LINE, log_z=log_z, **facts)


def add_importance():
    """SIR in JAX and NumPy, AIS by hand."""
    for num in PARTICLES:
        algorithm = aide.sir(toys.PRIOR, toys.log_joint, num_particles=num)
        log_q = lambda x, num=num: toys.log_sir_density(x, num)
        add(f"sir-{num}", algorithm, LINE, determined=num == 1, log_q=log_q)
    python = aide.PythonAlgorithm(toys.NumpySir())
    add("python-sir", python, uniform((), 3), num_runs=2_000)
    add("forward-reverse", toys.forward_reverse_ais(), LINE)


def add_annealed():
    """Tempered SMC, AIS and MCMC with every kernel."""
    walk, independence = aide.kernels.RandomWalk(0.8), aide.kernels.Independence(Normal(0.5, 1.5))
    kernels = {
        "walk": walk,
        "mala": aide.kernels.Mala(0.7),
        "hmc": aide.kernels.Hmc(0.4, 3),
        "independence": independence,
        "cycle": aide.kernels.Cycle(walk, independence),
        "repeat": aide.kernels.Repeat(independence, 2),
    }
    for name, kernel in kernels.items():
        for num in PARTICLES:
            path: Any = {"kernel": kernel, "temperatures": [0.2, 0.6, 1.0]}
            algorithm = aide.tempered_smc(toys.PRIOR, toys.log_joint, num_particles=num, **path)
            add(f"tempered-{name}-{num}", algorithm, LINE)
    for num in (0, 1, 3):
        algorithm = aide.mcmc(toys.PRIOR, toys.log_joint, kernel=walk, num_steps=num)
        add(f"mcmc-{num}", algorithm, LINE, determined=num == 0)
    nuts = aide.kernels.Nuts(0.6, 2)
    algorithm = aide.mcmc(toys.PRIOR, toys.log_joint, kernel=nuts, num_steps=2)
    add("mcmc-nuts", algorithm, LINE)


def add_schedules():
    """Kernels that change along the path: scales far apart, leapfrog steps and metrics too."""
    hmc, walk = aide.kernels.Hmc, aide.kernels.RandomWalk
    kernels = {
        "walk": [walk(0.02), walk(1.6)],
        "hmc": [hmc(0.02, 2, [0.5]), hmc(0.3, 4, [2.0])],
    }
    for name, each in kernels.items():
        for num in PARTICLES:
            path: Any = {"kernel": each, "temperatures": [0.05, 0.95, 1.0]}
            algorithm = aide.tempered_smc(toys.PRIOR, toys.log_joint, num_particles=num, **path)
            add(f"schedule-{name}-{num}", algorithm, LINE)
    chain = aide.mcmc(toys.PRIOR, toys.log_joint, kernel=kernels["walk"], num_steps=2)
    add("schedule-mcmc", chain, LINE)


def add_ising():
    """AIS and tempered SMC with Gibbs sweeps on a grid of four spins."""
    ising = IsingModel(0.6, 0.3, (2, 2))
    spins = uniform((2, 2), 2)
    start, sweep = ising.uniform(), ising.gibbs()
    path = {"kernel": sweep, "num_temperatures": 3}
    add("ising-ais", aide.ais(start, ising.log_density, **path), spins)
    for num in (2, 3):
        algorithm = aide.tempered_smc(start, ising.log_density, num_particles=num, **path)
        add(f"ising-{num}", algorithm, spins)


def add_gibbs():
    """AIS with Gibbs sweeps on a table where the order of the sites matters."""
    path: Any = {"kernel": aide.kernels.GibbsSites(np.arange(2), 3), "temperatures": [0.8, 1.0]}
    add("gibbs-ais", aide.ais(toys.TABLE_START, toys.log_table, **path), uniform((2,), 3))


def add_smc():
    """SMC samplers whose spaces and kernels change from move to move."""
    rng = np.random.default_rng(3)
    gammas = [np.log(rng.uniform(0.2, 2.0, size)) for size in (3, 4, 2)]
    table = lambda rows, columns: rng.dirichlet(np.full(columns, 2.0), rows)
    moves = tuple(
        toys.TableMove(table(a, b), table(b, a), gammas[t], gammas[t + 1])
        for t, (a, b) in enumerate([(3, 4), (4, 2)])
    )
    first_weights: Any = np.array([0.5, 0.3, 0.2])
    initial = Categorical(first_weights)
    first, last = (lambda x, g=g: jnp.asarray(g)[x] for g in (gammas[0], gammas[-1]))
    switch = uniform((), 2)
    walk = aide.smc.Rejuvenate(aide.kernels.RandomWalk(0.7), toys.GROWING.log_density)
    growing = (toys.Grow(), aide.smc.Composition(walk, toys.Grow()))
    tuples = product(*(normal((0.3, 2.2), (mean, 0.5)) for mean in (0.3, 0.5, 0.6)))
    for num in PARTICLES:
        tables = aide.smc.Smc(initial, moves, last, num, first)
        add(f"smc-tables-{num}", tables, switch)
        algorithm = aide.smc.Smc(toys.GROWING, growing, toys.GROWING.log_density, num)
        add(f"smc-growing-{num}", algorithm, tuples)
    half = aide.algorithms.Tempered(toys.PRIOR.log_prob, toys.log_joint, 0.5)
    at = lambda betas: aide.algorithms.Tempered(
        toys.PRIOR.log_prob, toys.log_joint, np.array(betas)
    )
    pieces = (
        aide.smc.Reweight(toys.PRIOR.log_prob, half),
        aide.smc.stacked(aide.smc.Reweight(at([0.5, 0.8]), at([0.8, 1.0]))),
        aide.smc.Rejuvenate(aide.kernels.RandomWalk(0.4), toys.log_joint),
    )
    add("smc-pieces", aide.smc.Smc(toys.PRIOR, pieces, toys.log_joint, 2), LINE)


HMM = HiddenMarkovModel(
    [0.6, 0.3, 0.1],
    [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.1, 0.6]],
    [[0.8, 0.2], [0.3, 0.7], [0.1, 0.9]],
    [0, 1, 1],
)
HMM_GUESS = aide.Proposal(
    lambda y: Categorical(jnp.array([[0.7, 0.2, 0.1], [0.2, 0.4, 0.4]])[y]),
    lambda x, y, t: Categorical(
        jnp.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.4, 0.2, 0.4]])[(x + y) % 3]
    ),
)
HMM_PATHS = uniform((3,), 3)


def add_filters():
    """Particle filters: proposals, resampling schemes and policies, real and mixed states."""
    model = HMM.state_space()
    proposals = {"prior": None, "optimal": HMM.optimal_proposal(), "user": HMM_GUESS}
    for name, proposal in proposals.items():
        for num in PARTICLES:
            filtered = aide.ParticleFilter(model, num, proposal)
            add(f"filter-{name}-{num}", filtered, HMM_PATHS, determined=num == 1)
    schemes = (aide.smc.Stratified(), aide.smc.Systematic(), aide.smc.Residual())
    policies: dict[str, Any] = {type(s).__name__.lower(): aide.smc.EveryStep(s) for s in schemes}
    paths = uniform((3,), 2)
    policies["ess"] = aide.smc.EssBelow(0.9)
    policies["ess-systematic"] = aide.smc.EssBelow(0.9, aide.smc.Systematic())
    policies["never"] = aide.smc.Never()
    for name, resampler in policies.items():
        for num in (2, 3):
            filtered = aide.ParticleFilter(toys.STICKY.state_space(), num, None, resampler)
            add(f"filter-{name}-{num}", filtered, paths)
    level = LocalLevelModel([0.5, -0.3, 1.2], 0.8, 1.0, 0.3, 1.0, 0.9)
    optimal = aide.ParticleFilter(level.state_space(), 2, level.optimal_proposal())
    add("filter-level-optimal-2", optimal, TRIPLE)
    add("filter-level-prior-3", aide.ParticleFilter(level.state_space(), 3), TRIPLE)
    pairs, log_h = product(TRIPLE, uniform((3,), 2))
    named = lambda x: {"level": x[0], "mode": x[1]}
    plain = lambda density: lambda x: density((x["level"], x["mode"]))
    reference = aide.Tractable(lambda key: named(pairs.sample(key)), plain(pairs.log_density))
    mixed = reference, plain(log_h)
    add("filter-dict-2", aide.ParticleFilter(toys.DICT_MODEL, 2), mixed)


def add_refined():
    """Tempered SMC with a made-up walk back; two reverse particles, two populations."""
    for num in PARTICLES:
        add(f"refined-{num}", refined(tempered("walk", num), 2, 2), LINE)


add_tractable()
add_importance()
add_annealed()
add_schedules()
add_ising()
add_gibbs()
add_smc()
add_filters()
add_refined()
