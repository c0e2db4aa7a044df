r"""States of integers and reals, of several entries; noise that is not listed; divergences."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX
from support.pairs import KEY

import aide
from aide.kernels.retrace import NO_RECORD
from aide.problems.distributions import Categorical, Normal


class Pair(NamedTuple):
    """A state with names."""

    z: Any
    x: Any


def log_joint(state):
    """P(z = 0) = 0.1; x given z is normal."""
    z, x = state
    return jnp.log(jnp.array([0.1, 0.9]))[z] + Normal(1.5 * z, 1.0).log_prob(x)


MIXED = {"z": jnp.zeros((), int), "x": jnp.zeros(2)}
SGLD = aide.kernels.Sgld(0.1, lambda i, x: x, 1)
KERNELS = [
    aide.kernels.RandomWalk(0.3),
    aide.kernels.Mala(0.3),
    aide.kernels.Hmc(0.1, 3),
    aide.kernels.Ula(0.1),
    SGLD,
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_integers_and_reals_together_are_refused(kernel):
    log_density = lambda state: -0.5 * jnp.sum(state["x"] ** 2) - 0.1 * state["z"]
    with pytest.raises(TypeError, match=r"float32 and int32.*aide\.kernels\.OnEntry"):
        kernel.step(KEY, log_density, MIXED)


def test_a_proposal_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="draws float32 where the state is int32"):
        aide.kernels.Independence(Normal(0.0, 1.0)).step(KEY, lambda x: 0.0, jnp.zeros((), int))
    block = aide.kernels.GibbsBlock("z", lambda state: Normal(0.0, 1.0))
    with pytest.raises(TypeError, match="draws float32 where the state is int32"):
        block.step(KEY, lambda state: 0.0, MIXED)


@pytest.mark.parametrize("name", ["z", 0])
def test_a_block_of_a_named_tuple(name):
    block = aide.kernels.GibbsBlock(name, lambda state: Categorical(jnp.array([1e-6, 1.0])))
    before = Pair(jnp.zeros((), jnp.int32), jnp.asarray(0.3))
    after = block.step(KEY, lambda state: 50.0 * state.z, before)
    assert isinstance(after, Pair)
    assert after.z == 1


@pytest.mark.usefixtures("x64")
def test_a_kernel_for_each_entry_leaves_the_joint_density_invariant():
    """From exact draws, one sweep: the frequency of z = 1 and the means of x and z x stay."""
    sweep = aide.kernels.Cycle(
        aide.kernels.OnEntry("z", aide.kernels.GibbsSites([0], 2)),
        aide.kernels.OnEntry("x", aide.kernels.RandomWalk(1.5)),
    )

    def one(key, kernel):
        key_z, key_x, key_step = jax.random.split(key, 3)
        z = Categorical(jnp.array([0.1, 0.9])).sample(key_z)
        state = Pair(z[None], Normal(1.5 * z, 1.0).sample(key_x))
        after = kernel.step(key_step, lambda s: log_joint((s.z[0], s.x)), state)
        return after.z[0], after.x, after.z[0] * after.x

    num = 20_000
    truth = np.array([0.9, 1.35, 1.35])
    sd = np.sqrt([0.09, 1 + 2.25 * 0.09, 0.9 * 3.25 - 1.35**2])
    for kernel in (sweep, sweep.reversal()):
        keys = jax.random.split(KEY, num)
        found = np.stack(jax.jit(jax.vmap(lambda key, k=kernel: one(key, k)))(keys))
        z = (found.mean(axis=1) - truth) / sd * np.sqrt(num)
        assert np.abs(z).max() < Z_MAX
    # The control forgets that x depends on z: it holds the marginal of neither.
    wrong = aide.kernels.Cycle(
        aide.kernels.OnEntry("x", aide.kernels.Independence(Normal(0.0, 3.0)))
    )
    control = jax.jit(jax.vmap(lambda key: wrong_step(key, wrong)))(jax.random.split(KEY, num))
    assert abs((np.mean(control) - 1.35) / sd[1] * np.sqrt(num)) > 2 * Z_MAX


def wrong_step(key, kernel):
    """One step towards a density that forgets z."""
    key_z, key_x, key_step = jax.random.split(key, 3)
    z = Categorical(jnp.array([0.1, 0.9])).sample(key_z)
    state = {"z": z, "x": Normal(1.5 * z, 1.0).sample(key_x)}
    return kernel.step(key_step, lambda s: Normal(0.0, 1.0).log_prob(s["x"]), state)["x"]


class Jump(aide.kernels.AbstractMetropolis):
    """Up or down by one or two on the integers."""

    def noise(self, key, x):
        """A step."""
        return jax.random.choice(key, jnp.array([-2, -1, 1, 2]))

    def log_noise(self, x, v):
        """All alike."""
        return -jnp.log(4.0)

    def involution(self, log_density, x, v):
        """There and back."""
        return x + v, -v


def log_integer(x):
    """A bump on 0 to 5."""
    return jnp.where((x >= 0) & (x <= 5), -0.5 * (x - 2.0) ** 2, -jnp.inf)


def test_noise_that_is_not_listed_leaves_no_record():
    incomplete = aide.kernels.FiniteNoise(Jump(), np.array([-1, 1]))
    keys = jax.random.split(KEY, 50)
    both = lambda key: (
        incomplete.record(key, log_integer, jnp.asarray(2)).branch,
        Jump().record(key, log_integer, jnp.asarray(2)).noise,
    )
    branch, noise = jax.jit(jax.vmap(both))(keys)
    np.testing.assert_array_equal(branch == NO_RECORD, abs(noise) == 2)
    start = aide.Tractable(lambda key: jnp.asarray(2), lambda x: jnp.where(x == 2, 0.0, -jnp.inf))
    chain = aide.mcmc(start, log_integer, kernel=incomplete, num_steps=3)
    with pytest.raises(ValueError, match="not among the noises of FiniteNoise"):
        aide.refine(KEY, chain, num_pilots=50)


@pytest.mark.usefixtures("x64")
def test_nan_on_a_diverging_trajectory_is_a_rejection():
    """Far out exp(x**2) overflows and the density is inf - inf at a finite x."""
    fragile = lambda x: x**2 - jnp.exp(x**2) - x**2
    x = jnp.asarray(3.0)
    assert jnp.isnan(fragile(jnp.asarray(1e200)))
    for kernel in (aide.kernels.Mala(1.0), aide.kernels.Hmc(1.0, 5)):

        def there_and_back(kernel):
            recorded = kernel.record(KEY, fragile, x)
            return recorded, kernel.retrace(fragile, x, fragile(x), recorded.noise)

        recorded, back = eqx.filter_jit(there_and_back)(kernel)
        assert recorded.value == x
        assert recorded.branch == 0
        assert not np.isnan(np.asarray(back.log_forward)).any()


@pytest.mark.usefixtures("x64")
def test_nan_at_a_point_an_ordinary_step_reaches_is_an_error():
    holes = lambda x: jnp.where(jnp.abs(x) > 1.0, jnp.nan, -0.5 * x**2)
    for kernel in (aide.kernels.Mala(1.0), aide.kernels.Hmc(0.7, 5)):
        step = jax.jit(jax.vmap(lambda key, k=kernel: k.step(key, holes, jnp.asarray(0.9))))
        ends = step(jax.random.split(KEY, 50))
        assert (abs(ends) > 1.0).any()
