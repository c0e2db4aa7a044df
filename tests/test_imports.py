"""Importing the library is cheap and changes nothing.

No optional or slow package is loaded, no JAX backend is started, no JAX setting is touched; each
is proven in a fresh process, since this one has everything loaded already.
"""

import os
import subprocess
import sys

import pytest

import aide

SLOW = ("numpyro", "matplotlib", "xarray", "rich", "typer", "pandas", "scipy.stats", "zarr", "h5py")


def _python(script, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_import_is_lean_and_leaves_settings_alone():
    """With a platform that does not exist, anything that starts a backend fails."""
    script = (
        "import sys, jax\n"
        "before = dict(jax.config.values)\n"
        "import aide\n"
        f"loaded = [name for name in {SLOW!r} if name in sys.modules]\n"
        "assert not loaded, loaded\n"
        "assert dict(jax.config.values) == before\n"
        "assert not jax.config.jax_enable_x64\n"
        "import aide.problems, aide.cli\n"
        "try:\n"
        "    jax.devices()\n"
        "except RuntimeError:\n"
        "    print('no backend yet')\n"
    )
    done = _python(script, JAX_PLATFORMS="no_such_platform")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "no backend yet\n"  # control: starting a backend does fail here


def test_every_public_name_exists():
    assert len(set(aide.__all__)) == len(aide.__all__)
    for name in aide.__all__:
        assert getattr(aide, name) is not None
    assert {"estimate", "draw", "Tractable", "Smc", "ParticleFilter", "Draws"} <= set(aide.__all__)


@pytest.mark.parametrize("name", aide.__all__)
def test_every_public_name_is_documented(name):
    assert getattr(aide, name).__doc__
