"""PyMC in the process of the tests, without a trace of it in their settings."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

import aide


@contextmanager
def pymc_here() -> Iterator[Any]:
    """PyMC, compiling no C; its import turns double precision on, and here it is off again."""
    os.environ.setdefault("PYTENSOR_FLAGS", "cxx=")
    flag = jax.config.read("jax_enable_x64")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyMC 6 imports what PyTensor 3 deprecates
        import pymc

        assert aide.pymc.posterior is not None  # imports what PyMC has for JAX
    jax.config.update("jax_enable_x64", flag)
    yield pymc
