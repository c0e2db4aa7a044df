"""Several devices of one process: who runs which block changes nothing."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from aide.engine import Devices
from aide.engine.programs.places import OWN_DEVICE
from aide.engine.stage import num_parts_for

ROOT = Path(__file__).parents[3]
ON_TWO = """
import time
import jax, numpy as np
from support.pairs import KEY, arrays
import aide
from aide.engine.programs import programs

model = aide.problems.LocalLevelModel([0.3, -1.0, 0.5], 0.8, 0.5)
pair = model.posterior(), aide.ParticleFilter(model.state_space(), 7)
first, second = jax.local_devices()
sizes = {"num_gold": 200, "num_target": 200, "num_meta_target": 2}


def used():
    return {name[2].device for name in programs._slots}


for chosen in ((), (second,)):
    programs.forget_executables()
    with aide.engine.Devices(chosen or None) as devices:
        found = aide.draw(KEY, *pair, executor=devices, chunk_size=20, **sizes)
        free = aide.draw(KEY, *pair, executor=devices, **sizes)
        both = aide.compare(KEY, pair[0], {"a": pair[1]}, executor=devices, chunk_size=20, **sizes)
    assert used() == (set(chosen) or {first, second})
    one = aide.draw(KEY, *pair, chunk_size=20, **sizes)
    for a, b, c in zip(arrays(one), arrays(found), arrays(both["a"].draws), strict=True):
        assert a.tobytes() == b.tobytes() == c.tobytes()
    for a, b in zip(arrays(one), arrays(free), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
print("the same")
"""


@pytest.mark.full
def test_two_devices_give_the_bits_of_one():
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    flags = "--xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-c", ON_TWO],
        env={**os.environ, "PYTHONPATH": path, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "the same\n", done.stderr


def test_each_thread_has_its_device():
    with Devices() as devices:
        assert num_parts_for(devices) == len(jax.local_devices())
        assert devices.submit(OWN_DEVICE.get).result() in jax.local_devices()
    assert OWN_DEVICE.get() is None
    assert num_parts_for(None) == 1


def test_devices_are_different_ones_of_one_kind():
    device = jax.local_devices()[0]
    with pytest.raises(ValueError, match="different ones"):
        Devices([device, device])
    with pytest.raises(ValueError, match="different ones"):
        Devices([])

    class Other:
        device_kind = "a GPU"

    with pytest.raises(ValueError, match=r"of one kind, got a GPU and .*same bits"):
        Devices([device, Other()])
