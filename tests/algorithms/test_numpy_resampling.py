"""Resampling in NumPy returns what the compiled schemes return from the same uniforms."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import aide
from aide._core.random import derive_keys, standard_uniform
from aide.algorithms.numpy_resampling import PlainResampled, resample
from aide.smc.policy import AbstractResampler, Resampled
from aide.smc.resampling import SCHEMES

PARTS_KEY = ("stratified", "residual")
"""Schemes whose twin draws the slot by a key of its own."""


class Replay:
    """The uniforms that the compiled scheme draws with a key, in the order in which NumPy asks."""

    def __init__(self, key: Array, in_parts: bool) -> None:
        self.keys = iter(derive_keys(key, 2)) if in_parts else iter([key])

    def __call__(self, num: int) -> np.ndarray:
        """The next ones; one number alone has no axis in the compiled scheme."""
        key = next(self.keys)
        shape = () if num == 1 else (num,)
        return np.atleast_1d(np.asarray(standard_uniform(key, shape)))


Parts = tuple[np.ndarray, np.ndarray, float, int]
"""Ancestors, weights, evidence and the slot, -1 for none."""


def parts_of(done: PlainResampled | Resampled) -> Parts:
    """What both kinds of result hold."""
    num = len(done.log_weights)
    ancestors = np.arange(num) if done.ancestors is None else np.asarray(done.ancestors)
    slot = -1 if done.retained is None else int(done.retained)
    return ancestors, np.asarray(done.log_weights), float(done.log_evidence), slot


def both(
    resampler: AbstractResampler, scheme: str, log_w: np.ndarray, slot: int | None, seed: int
) -> tuple[Parts, Parts]:
    """What NumPy returns, and what the compiled resampler returns."""
    key = jax.random.key(seed)
    replay = Replay(key, slot is not None and scheme in PARTS_KEY)
    plain = resample(resampler, replay, log_w, slot)
    retained = None if slot is None else jnp.int32(slot)
    compiled = resampler(key, jnp.asarray(log_w), retained)
    assert plain is not None
    return parts_of(plain), parts_of(compiled)


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    """As in a filter, everything is in double precision."""
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("num", [2, 5, 100])
def test_both_libraries_give_the_same(scheme: str, num: int) -> None:
    rng = np.random.default_rng(num)
    for seed in range(6):
        log_w = rng.normal(size=num) * 2
        log_w[rng.integers(num)] = -np.inf
        alive = int(rng.choice(np.flatnonzero(np.isfinite(log_w))))
        for resampler in (aide.smc.EveryStep(scheme), aide.smc.EssBelow(0.5, scheme)):
            for slot in (None, alive):
                plain, compiled = both(resampler, scheme, log_w, slot, seed)
                np.testing.assert_array_equal(plain[0], compiled[0])
                np.testing.assert_allclose(plain[1], compiled[1], rtol=1e-14)
                np.testing.assert_allclose(plain[2], compiled[2], rtol=1e-12)
                assert plain[3] == compiled[3]


def test_another_scheme_is_seen() -> None:
    """A control: what one scheme returns is not what another returns."""
    log_w = np.random.default_rng(0).normal(size=100)
    ours = resample(aide.smc.EveryStep("stratified"), Replay(jax.random.key(0), False), log_w, None)
    theirs = aide.smc.EveryStep("multinomial")(jax.random.key(0), jnp.asarray(log_w), None)
    assert ours is not None
    assert not np.array_equal(np.asarray(ours.ancestors), np.asarray(theirs.ancestors))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_weights_of_zero_and_nan_stay_what_they_are(scheme: str) -> None:
    rng = np.random.default_rng(0)
    for slot in (None, 1):
        dead = resample(aide.smc.EveryStep(scheme), rng.random, np.full(3, -np.inf), slot)
        assert dead is not None
        assert dead.log_evidence == -np.inf
        lost = resample(aide.smc.EveryStep(scheme), rng.random, np.array([0.0, np.nan, 1.0]), slot)
        assert lost is not None
        assert np.isnan(lost.log_evidence)


def test_resamplers_of_others_are_left_to_jax() -> None:
    class Own(aide.smc.EveryStep):
        """Somebody's own."""

    assert resample(Own("systematic"), np.random.default_rng(0).random, np.zeros(3), None) is None
