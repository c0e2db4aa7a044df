"""Resampling in a run that may be free: around the retained particle, or as if there were none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aide
from aide.engine.programs.programs import QUICK_OPTIONS
from aide.smc.policy import AbstractResampler
from aide.smc.resampling import NOBODY, SCHEMES

LOG_WEIGHTS = jnp.log(jnp.array([0.5, 3.0, 0.1, 1.0, 0.4]))
POLICIES = {
    **{name: aide.smc.EveryStep(name) for name in SCHEMES},
    "by ess": aide.smc.EssBelow(0.8, "systematic"),
    "by ess, never": aide.smc.EssBelow(0.1, "systematic"),
    "never": aide.smc.Never(),
}


def free_and_kept(resampler):
    """Resampled freely and with the twin, by the call and by `around`."""

    def run(key):
        kept, nobody = jnp.asarray(3, jnp.int32), jnp.asarray(NOBODY, jnp.int32)
        called = [resampler(key, LOG_WEIGHTS, retained) for retained in (None, kept)]
        return called, [resampler.around(key, LOG_WEIGHTS, slot) for slot in (nobody, kept)]

    keys = jax.random.split(jax.random.key(1), 20)
    return jax.jit(jax.vmap(run), compiler_options=QUICK_OPTIONS)(keys)


@pytest.mark.parametrize("name", POLICIES)
def test_nobody_is_a_free_run_and_somebody_the_twin(name):
    (free, kept), (maybe_free, maybe_kept) = free_and_kept(POLICIES[name])
    jax.tree.map(np.testing.assert_array_equal, maybe_kept, kept)
    jax.tree.map(np.testing.assert_array_equal, maybe_free._replace(retained=None), free)
    np.testing.assert_array_equal(maybe_free.retained, NOBODY)


class Every(AbstractResampler):
    """A user's policy, which knows nothing of `NOBODY`."""

    def __call__(self, key, log_weights, retained):
        return aide.smc.EveryStep("stratified")(key, log_weights, retained)


def test_a_policy_of_a_user_needs_no_more_than_the_call():
    _, own = free_and_kept(POLICIES["stratified"])
    _, theirs = free_and_kept(Every())
    jax.tree.map(np.testing.assert_array_equal, theirs, own)
