r"""Settings of algorithms and models are checked at construction; the message names the fix."""

from typing import Any

import numpy as np
import pytest
from support.pairs import gaussian

import aide
from aide.problems import HiddenMarkovModel

GOLD = gaussian(0.1, 0.7)


ALGORITHMS = {
    "num_particles": lambda n: aide.sir(GOLD, GOLD.log_density, num_particles=n),
    "num_temperatures": lambda n: aide.ais(
        GOLD, GOLD.log_density, kernel=aide.kernels.RandomWalk(0.5), num_temperatures=n
    ),
    "max_tries": lambda n: aide.RejectionSampler(GOLD, GOLD.log_density, 0.0, n),
    "num_leapfrog": lambda n: aide.kernels.Hmc(0.1, n),
}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("count", [0, -3, 2.0, True])
def test_counts_of_algorithms(name, count):
    with pytest.raises(
        ValueError, match=rf"{name} must be an integer of at least 1, got {count!r}"
    ):
        ALGORITHMS[name](count)


@pytest.mark.parametrize("count", [-1, 1.5, True])
def test_number_of_mcmc_steps(count):
    with pytest.raises(ValueError, match=rf"num_steps must be .* at least 0, got {count}"):
        aide.mcmc(GOLD, GOLD.log_density, kernel=aide.kernels.RandomWalk(0.5), num_steps=count)


def test_kernel_without_reversal():
    step = lambda key, log_density, x: x
    with pytest.raises(ValueError, match=r"reversible=False and backward=None.*reversible=True"):
        aide.kernels.Kernel(step)

    class Foreign:
        def step(self, key, log_density, x):
            return x

    kernel: Any = Foreign()
    with pytest.raises(ValueError, match=r"Foreign has no reversal.*aide\.kernels\.Kernel"):
        aide.mcmc(GOLD, GOLD.log_density, kernel=kernel, num_steps=2).canonical()


@pytest.mark.parametrize(
    "temperatures", [[0.5, 0.4, 1.0], [0.0, 1.0], [0.5, 0.9], [0.5, 0.5, 1.0], [], [[0.5, 1.0]]]
)
def test_temperatures(temperatures):
    with pytest.raises(
        ValueError, match=r"temperatures must increase from above 0 to exactly 1, got"
    ):
        aide.ais(
            GOLD, GOLD.log_density, kernel=aide.kernels.RandomWalk(0.5), temperatures=temperatures
        )


def test_temperatures_given_twice_or_not_at_all():
    both: Any = {"num_temperatures": 2, "temperatures": [0.5, 1.0]}
    for settings in ({}, both):
        with pytest.raises(ValueError, match="either num_temperatures or temperatures"):
            aide.ais(GOLD, GOLD.log_density, kernel=aide.kernels.RandomWalk(0.5), **settings)


HMM = {
    "initial": [0.7, 0.3],
    "transition": [[0.9, 0.1], [0.3, 0.7]],
    "emission": [[0.8, 0.2], [0.1, 0.9]],
    "observations": [0, 1, 1],
}
WRONG_HMM = [
    ("initial", [0.7, 0.4], r"initial.*row 0.*sum 1\.1"),
    ("transition", [[0.9, 0.1], [0.3, 0.6]], r"transition.*row 1.*sum 0\.9"),
    ("emission", [[1.2, -0.2], [0.1, 0.9]], r"emission.*row 0"),
    ("transition", [[0.9, 0.1], [np.nan, 0.7]], r"transition.*row 1.*nan"),
    ("emission", [[0.8, 0.2], [0.1, 0.9], [0.5, 0.5]], "emission.*3"),
    ("observations", [0, 2, 1], "symbols from 0 to 1; observation 1 is 2"),
    ("observations", [0, -1], "symbols from 0 to 1; observation 1 is -1"),
    ("observations", [0, 0.7], r"observations.*0\.7"),
    ("observations", [], "observations"),
]


@pytest.mark.parametrize(("field", "value", "words"), WRONG_HMM)
def test_hidden_markov_model(field, value, words):
    with pytest.raises(ValueError, match=words):
        HiddenMarkovModel(**{**HMM, field: value})
