"""`ReferenceDraws.score_check`: its stated rate of 1e-4 at right draws, and its power.

python benchmarks/run.py power/score_check --only rate           # 20,000 replications of every case
python benchmarks/run.py power/score_check --only temperature
"""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from support.score_laws import LAWS, moves_of

import aide
from aide.algorithms.score_check import Moves, balance_tests, smallest_seen
from aide.problems.distributions import Normal
from benchmarks.table import Row

STATED = 1e-4
"""False alarms of the check by default, over all of its tests together."""
TEMPERATURE = 1.1
"""Draws are of the density to the power 1/1.1: their standard deviation is 1.049 times as large."""
SIZE = 2
"""Coordinates of the normal draws whose temperature is wrong."""


def least_p(moves: Moves) -> float:
    """The p-value of the whole check: the smallest one, times the number of tests."""
    tests = balance_tests(moves, [f"x[{index}]" for index in range(moves.lengths.size)])
    return min(1.0, len(tests) * min(test.p_value for test in tests))


def highest_rate(alarms: int, replications: int) -> float:
    """Upper 95% limit of Clopper and Pearson."""
    return float(stats.beta.ppf(0.95, alarms + 1, replications - alarms))


def rate(replications: int = 20_000) -> Iterator[Row]:
    """False alarms at right draws: heavy tails, an edge, autocorrelation."""
    for name, law in LAWS.items():
        for num in (500, 2000):
            rng = np.random.default_rng(num)
            found = np.array(
                [
                    least_p(moves_of(law.sample(rng, (num,)), law.log_density))
                    for _ in range(replications)
                ]
            )
            alarms = int((found < STATED).sum())
            yield {
                "draws": f"{num:,} of {name}",
                f"alarms at 1e-4 of {replications:,}": alarms,
                "at 1%": f"{(found < 0.01).mean():.2%}",
                "expected at 1e-4": STATED * replications,
                "upper limit of the rate (95%)": f"{highest_rate(alarms, replications):.1e}",
                "least p": f"{found.min():.1e}",
            }


def temperature(replications: int = 500) -> Iterator[Row]:
    """How often a temperature of 1.1 is found, what a pass states, and what an estimate says."""
    log_joint = LAWS["normal"].log_density
    for num in (500, 2000, 8000):
        rng = np.random.default_rng(num)
        draws = np.sqrt(TEMPERATURE) * rng.normal(size=(replications, num, SIZE))
        found = np.array([least_p(moves_of(x, log_joint)) for x in draws])
        names = [f"x[{index}]" for index in range(SIZE)]
        moves = moves_of(draws[0], log_joint)
        stated = smallest_seen(moves, balance_tests(moves, names), STATED)
        yield {
            "normal draws": f"{num:,}",
            f"found of {replications}": int((found < STATED).sum()),
            "a pass would have seen a factor of": f"{stated.temperature:.3f}",
            **estimate_of(draws[0]),
        }


def estimate_of(draws: np.ndarray) -> Row:
    """AIDE of a normal fit, from draws of the wrong temperature, and the truth."""
    gold = aide.ReferenceDraws(draws, lambda x: -0.5 * jnp.sum(x**2), has_chains=False)
    narrow = Normal(np.zeros(SIZE), 0.7)
    estimate = aide.estimate(
        jax.random.key(1),
        gold,
        aide.Tractable.of(narrow),
        num_gold=len(draws),
        num_target=len(draws),
        progress=False,
    )
    ratio = 0.7**2
    return {
        "bound": f"{estimate.value:.3f} ± {estimate.std_error:.3f}",
        "truth": f"{0.5 * SIZE * (ratio + 1 / ratio - 2):.3f}",
        "notes on the gold standard": sum("score_check" in note for note in estimate.notes),
    }


TABLES = {"rate": rate, "temperature": temperature}
