r"""A study compiles once: new data, hyperparameters, schedules, labels and seeds trace nothing.

The user's own functions count how often JAX traces them. What does trace again, as documented:
another structure, shape or integer; another function object.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from support.pairs import NoisyGaussian, gaussian, run

import aide
from aide.problems.distributions import Normal


class Counter(list):
    """What is noted while tracing: no part of what the algorithms compute."""

    aide_identity = "a counter"


TRACES = Counter()


class Density(eqx.Module):
    """A log density that counts its traces."""

    mean: Any
    std: Any

    def __call__(self, x):
        TRACES.append("density")
        return Normal(self.mean, self.std).log_prob(x)


class Model(eqx.Module):
    """Transition and observation of a state-space model that count their traces."""

    slope: float
    noise: float

    def transition(self, x, t):
        TRACES.append("transition")
        return Normal(self.slope * x, 0.5)

    def observation(self, x, t):
        return Normal(x, self.noise)


class Counted(NoisyGaussian):
    """A user's own algorithm."""

    def simulate(self, key):
        TRACES.append("simulate")
        return super().simulate(key)


class CountedNormal(dist.Normal):
    """A NumPyro distribution."""

    def log_prob(self, value):
        TRACES.append("log_prob")
        return super().log_prob(value)


def _tempered(mean: Any = 0.5, std: Any = 0.7, scale=0.4, temperatures=(0.2, 0.6, 1.0), label=""):
    kernel = aide.kernels.RandomWalk(scale)
    settings: Any = {"kernel": kernel, "num_particles": 2, "temperatures": list(temperatures)}
    prior = gaussian(0.0, 1.5)
    return aide.tempered_smc(prior, Density(mean, std), label=label, **settings)


def _filter(observations=(0.1, -0.4, 0.9), slope=0.8, noise=0.6, first=1.0):
    model = Model(slope, noise)
    space = aide.StateSpaceModel(
        Normal(0.0, first), model.transition, model.observation, np.array(observations)
    )
    return aide.ParticleFilter(space, 2)


PATHS = aide.Tractable.of(Normal(np.zeros(3), 1.0))
SAME: dict[str, list[tuple[Any, Any]]] = {
    "tempered": [
        (_tempered, {}),
        (_tempered, {"mean": -1.5, "std": 2.0}),
        (_tempered, {"temperatures": (0.1, 0.5, 1.0)}),
        (_tempered, {"scale": 0.9}),
        (_tempered, {"mean": np.float64(0.3), "std": jnp.asarray(0.9)}),
        (_tempered, {"mean": np.float32(0.3)}),
        (_tempered, {"label": "another name"}),
    ],
    "filter": [
        (_filter, {}),
        (_filter, {"observations": (3.0, 2.0, 1.0)}),
        (_filter, {"slope": -0.3, "noise": 0.2, "first": 2.0}),
    ],
    "module": [(Counted, {"mean": m, "slope": s, "std": 1.0}) for m, s in ((0.1, 0.2), (3.0, 1.5))],
    "numpyro": [
        (lambda m, s: aide.Tractable.of(CountedNormal(m, s)), {"m": m, "s": s})
        for m, s in ((0.1, 0.2), (3.0, 1.5))
    ],
}


def _run(algorithm, **options):
    gold = PATHS if isinstance(algorithm, aide.ParticleFilter) else gaussian(0.1, 0.7)
    return run(gold, algorithm, **options)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full) if n != "filter" else n for n in SAME]
)
def test_new_numbers_trace_nothing(name):
    (build, first), *others = SAME[name]
    TRACES.clear()
    _run(build(**first))
    assert TRACES  # control: the counter works
    values = set()
    for build, settings in others:
        TRACES.clear()
        values.add(_run(build(**settings)).value)
        assert not TRACES, settings
    TRACES.clear()
    values.add(_run(build(**settings), key=jax.random.key(99)).value)
    assert not TRACES
    same_numbers = sum("label" in settings for _, settings in others)
    assert len(values) >= len(others) - same_numbers


@pytest.fixture
def compilations():
    """A list that grows by one with every program XLA compiles."""
    found = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event.endswith("backend_compile_duration"):
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)


def test_similar_numbers_of_runs_compile_nothing(compilations):
    """Chunks are powers of two, so 40 to 60 runs a side use the same programs."""
    algorithm = Counted(0.4, 0.3, 0.9)
    run(gaussian(0.1, 0.7), algorithm, 40, 40)
    TRACES.clear()
    compilations.clear()
    for num in (43, 52, 60):
        run(gaussian(0.1, 0.7), algorithm, num, num, key=jax.random.key(num))
    assert not compilations
    run(gaussian(0.1, 0.7), algorithm, 300, 300)
    assert compilations  # control: the listener works; larger chunks are other programs,
    assert not TRACES  # but nobody's code is traced again
