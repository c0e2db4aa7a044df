"""Settings of the whole test suite.

`jax_enable_x64` stays off, as it is for users: the library must reach double precision by itself.
Tests that do exact arithmetic with JAX use the fixture `x64`.
"""

import gc
import os
from pathlib import Path

import jax
import pytest

from aide.engine.programs.programs import QUICK_OPTIONS, compile_quickly, forget_executables

pytest_plugins = ["aide_pytest"]  # installed copies load by themselves, source trees do not

gc.set_threshold(200_000, 50, 1000)  # traced programs are many objects, and few are garbage
# What is compiled outside the engine, here and in processes that tests start: programs run once.
# XLA ends a process whose environment names an option that it does not know.
FLAGS = " ".join(f"--{name}={str(value).lower()}" for name, value in QUICK_OPTIONS.items())
os.environ.setdefault("XLA_FLAGS", FLAGS)
os.environ.setdefault("AIDE_CACHE", "0")  # commands leave the user's cache folder alone
os.environ["COLUMNS"] = "1000"  # sentences of results stay on one line, here and in commands
MOST_RESIDENT = 3 * 2**30
"""Bytes beyond which a process of the suite drops programs and traces; two share 24 GiB."""
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


@pytest.fixture(autouse=True, scope="module")
def forget():
    """Drop compiled programs and traces of past modules, where the process has grown large.

    Without this a process that runs half of the suite holds 6 GB after its first 500 tests.
    """
    yield
    if resident_bytes() > MOST_RESIDENT:
        forget_executables()
        jax.clear_caches()
        gc.collect()


def resident_bytes() -> int:
    """Memory that this process holds; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def x64():
    """Double precision for the duration of one test."""
    with jax.enable_x64(True):
        yield
