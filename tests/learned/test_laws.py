r"""Laws 1, 2 and 5 of chains with learned meta-inference, at 1, 2 and 3 reverse particles.

Models are stated by hand, badly (`WIDE`): means and branches far from the truth, covariances wide
enough for every mean the laws look at to have a finite variance. Any model must obey the laws.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX, keyed, laws
from support.learned import CHAIN_KERNELS, learned_chain
from support.registry import LINE, Entry

import aide


def scores(algorithm, num_runs=20_000):
    return laws.scores_of(Entry(algorithm, *LINE, num_runs=num_runs))


QUICK = [(name, keyed.NUM_REVERSE, laws.FEW) for name in CHAIN_KERNELS]
FULL = [(name, num, 20_000) for name in CHAIN_KERNELS for num in (1, 2, 3)]


@pytest.mark.parametrize(
    ("name", "num_reverse", "num_runs"),
    [*QUICK, *(pytest.param(*case, marks=pytest.mark.full) for case in FULL)],
)
def test_laws(name, num_reverse, num_runs):
    """And keyed results stay what they were: the same runs show it."""
    entry = Entry(learned_chain(name, num_reverse), *LINE, num_runs=num_runs)
    draws = laws.law_draws(entry, keyed.SEED, num_meta_target=keyed.NUM_META)
    assert laws.swap_information(laws.log_ratios(draws)) > 200
    broken = {law: z for law, z in laws.all_scores(entry, draws).items() if not abs(z) < Z_MAX}
    assert not broken
    if num_reverse == keyed.NUM_REVERSE:
        keyed.check_unchanged(f"learned-{name}", draws)


class WrongWalk(aide.kernels.RandomWalk):
    """Leaves out the normalising constant of its noise."""

    def log_noise(self, x, v):
        return jnp.zeros(())


def assert_rejected(wrong, num_runs=20_000):
    """Law 1 rejects it; the others have less power."""
    found = {law for law, z in scores(wrong, num_runs).items() if abs(z) > 2 * Z_MAX}
    assert "1, mass" in found


def test_a_wrong_reverse_density_is_rejected():
    """The density of the proposed noise lacks its constant; one particle has the most power."""
    right = learned_chain("walk", 1)
    where = lambda algorithm: algorithm.fit.models[0].log_scale_v
    assert_rejected(eqx.tree_at(where, right, np.zeros_like(where(right))), 2 * laws.FEW)


@pytest.mark.full
def test_an_unnormalised_noise_density_is_rejected():
    where = lambda algorithm: algorithm.chain.kernel
    assert_rejected(eqx.tree_at(where, learned_chain("walk", 1), WrongWalk(0.8)))


class WrongNuts(aide.kernels.Nuts):
    """Takes the chance of the step back for that of the step."""

    def retrace(self, log_density, y, log_density_y, noise):
        found = super().retrace(log_density, y, log_density_y, noise)
        return found._replace(log_forward=found.log_own)


class ShortNuts(aide.kernels.Nuts):
    """Undoes steps as if trees ended earlier: the laws of another chain."""

    def retrace(self, log_density, y, log_density_y, noise):
        short = aide.kernels.Nuts(self.step_size, 1)
        return short.retrace(log_density, y, log_density_y, noise)


@pytest.mark.full
@pytest.mark.parametrize("wrong", [WrongNuts, ShortNuts])
def test_a_wrong_way_back_of_nuts_is_rejected(wrong):
    where = lambda algorithm: algorithm.chain.kernel
    algorithm = eqx.tree_at(where, learned_chain("nuts", 1), wrong(0.6, 2))
    assert max(abs(z) for z in scores(algorithm).values()) > 2 * Z_MAX
