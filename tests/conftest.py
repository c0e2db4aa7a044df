"""Settings of the whole test suite.

`jax_enable_x64` stays off, as it is for users: the library must reach double precision by itself.
Tests that do exact arithmetic with JAX use the fixture `x64`.
"""

import gc
import os

import jax
import pytest

from aide.engine.programs.programs import QUICK_OPTIONS, compile_quickly

pytest_plugins = ["aide_pytest"]  # installed copies load by themselves, source trees do not

gc.set_threshold(200_000, 50, 1000)  # traced programs are many objects, and few are garbage
# What is compiled outside the engine, here and in processes that tests start: programs run once.
# XLA ends a process whose environment names an option that it does not know.
FLAGS = " ".join(f"--{name}={str(value).lower()}" for name, value in QUICK_OPTIONS.items())
os.environ.setdefault("XLA_FLAGS", FLAGS)
os.environ.setdefault("AIDE_CACHE", "0")  # commands leave the user's cache folder alone
os.environ["COLUMNS"] = "1000"  # sentences of results stay on one line, here and in commands
AS_FOR_USERS = {
    "test_compilation.py",
    "test_determinism.py",
    "test_docs.py",  # the example of the README runs longer than it compiles
    "test_repeats.py",  # rounding to single precision
    "test_sessions.py",  # threads do not inherit the setting
}


@pytest.fixture(autouse=True, scope="module")
def quick(request):
    """Compile quickly, other fixtures too, except where the compiled programs themselves matter."""
    if request.path.name in AS_FOR_USERS:
        yield
    else:
        with compile_quickly():
            yield


@pytest.fixture
def x64():
    """Double precision for the duration of one test."""
    with jax.enable_x64(True):
        yield
