"""Importing the library is cheap and changes nothing.

No optional or slow package is loaded, no JAX backend is started, no JAX setting is touched; each
is proven in a fresh process, since this one has everything loaded already.
"""

import inspect
import os
import subprocess
import sys

import aide

SLOW = ("numpyro", "matplotlib", "xarray", "rich", "typer", "pandas", "scipy", "zarr", "h5py")


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


def test_adapters_can_be_imported_by_their_short_names():
    script = (
        "import sys, importlib\n"
        "import aide.posteriordb\n"
        "assert 'numpyro' not in sys.modules\n"
        "import aide.numpyro\n"
        "from aide.numpyro import posterior\n"
        "assert aide.numpyro is aide.adapters.numpyro is importlib.import_module('aide.numpyro')\n"
        "assert posterior is aide.adapters.numpyro.posterior\n"
        "assert aide.numpyro.__spec__.name == 'aide.adapters.numpyro'\n"
        "try:\n"
        "    from aide.numpyro import postirior\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = _python(script)
    assert done.returncode == 0, done.stderr
    assert "postirior" in done.stdout


def _names():
    """Public names, of the front door and of its namespaces."""
    for name in aide.__all__:
        thing = getattr(aide, name)
        yield name, thing
        for inner in getattr(thing, "__all__", ()) if inspect.ismodule(thing) else ():
            yield f"{name}.{inner}", getattr(thing, inner)


def test_the_front_door_is_small_and_says_what_is_what():
    """Some thirty names; classes are nouns, functions verbs; one case apart: `Draw` and `draw`."""
    assert len(set(aide.__all__)) == len(aide.__all__)
    assert len([name for name in aide.__all__ if not inspect.ismodule(getattr(aide, name))]) <= 37
    assert {"estimate", "draw", "Tractable", "smc", "kernels"} <= set(aide.__all__)
    lower = [name.lower() for name, _ in _names()]
    assert {name for name in lower if lower.count(name) > 1} == {"draw"}
    for name, thing in _names():
        is_class = inspect.isclass(thing)
        assert is_class == name.rsplit(".", 1)[-1][0].isupper(), name


def test_every_public_name_is_documented():
    for name, thing in _names():
        assert thing.__doc__, name
