r"""A study compiles once: new data, hyperparameters, schedules, labels and seeds compile nothing.

What does compile again: another structure, shape or integer, or anything else that changes the
traced program. Tracing happens once per call.
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
from aide.engine.programs.programs import num_executables
from aide.problems.distributions import Normal


class Counter(list):
    """What is noted while tracing: no part of what the algorithms compute."""


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


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full) if n != "filter" else n for n in SAME]
)
def test_new_numbers_compile_nothing(name):
    (build, first), *others = SAME[name]
    _run(build(**first))
    known = num_executables()
    assert known > 0  # control: the count works
    values = {_run(build(**settings)).value for build, settings in others}
    build, settings = others[-1]
    values.add(_run(build(**settings), key=jax.random.key(99)).value)
    assert num_executables() == known
    same_numbers = sum("label" in settings for _, settings in others)
    assert len(values) >= len(others) - same_numbers


def test_similar_numbers_of_runs_compile_nothing(compilations):
    """Chunks are powers of two, so 40 to 60 runs a side use the same programs."""
    algorithm = Counted(0.4, 0.3, 0.9)
    run(gaussian(0.1, 0.7), algorithm, 40, 40)
    compilations.clear()
    for num in (43, 52, 60):
        run(gaussian(0.1, 0.7), algorithm, num, num, key=jax.random.key(num))
    assert not compilations
    run(gaussian(0.1, 0.7), algorithm, 300, 300)
    assert compilations  # control: the listener works; larger chunks are other programs


def test_a_call_traces_an_algorithm_once():
    """Not once per chunk, per number of runs or per target that shares it."""
    algorithm = Counted(0.4, 0.3, 0.9)
    TRACES.clear()
    run(algorithm, gaussian(0.1, 0.7), 300, 300, num_meta_gold=3, chunk_size=64)
    assert TRACES == ["simulate"]
    TRACES.clear()
    targets = {str(mean): gaussian(mean, 0.7) for mean in (0.1, 0.2, 0.3)}
    aide.compare(jax.random.key(1), algorithm, targets, num_gold=20, num_target=20)
    assert TRACES == ["simulate"]
    run(algorithm, gaussian(0.1, 0.7))
    assert TRACES == ["simulate"] * 2  # control: another call traces again
