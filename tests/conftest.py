"""Settings of the whole test suite.

`jax_enable_x64` stays off, as it is for users: the library must reach double precision by itself.
Tests that do exact arithmetic with JAX use the fixture `x64`.
"""

import gc

import jax
import pytest

from aide.estimation.engine import compile_quickly

gc.set_threshold(200_000, 50, 1000)  # traced programs are many objects, and few are garbage


@pytest.fixture(autouse=True)
def quick(request):
    """Compile quickly, except where the compiled programs themselves are tested."""
    if "estimation" in request.path.parts:
        yield
    else:
        with compile_quickly():
            yield


@pytest.fixture
def x64():
    """Double precision for the duration of one test."""
    with jax.enable_x64(True):
        yield
