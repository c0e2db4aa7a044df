r"""The usual diagnostics, for comparison: R-hat and ESS of a few ordinary chains.

Both come from ArviZ (Vehtari, Gelman, Simpson, Carpenter & Bürkner, 2021, Bayesian Analysis
16:667-718). They compare the chains with each other and with themselves, never with the posterior.
"""

import importlib
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.distribution import sample_from
from aide._core.random import as_key, derive, derive_keys
from aide._core.types import Key, LogDensity, Value
from aide._core.validate import check_count
from aide.algorithms.mcmc import MarkovChain, Transition
from aide.engine.programs.map_runs import map_runs

CHAINS = 2
"""Index of the stream of keys for these chains; the runs of an estimate use 0 and 1."""
FEWEST_DRAWS = 4
"""Least number of draws per chain: R-hat needs two in each half."""


class Diagnostics(NamedTuple):
    """The largest R-hat and the smallest bulk ESS of all coordinates after each number of steps.

    NaN with fewer than four draws, or if no coordinate ever changed.
    """

    rhat: tuple[float, ...]
    ess: tuple[float, ...]


def import_arviz(num_chains: int) -> Any:
    """ArviZ, or an error with advice; `None` if no chains are wanted."""
    check_count("num_chains", num_chains, 0)
    if num_chains == 0:
        return None
    if num_chains == 1:
        raise ValueError("num_chains must be 0 or at least 2, got 1: R-hat compares chains.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some versions announce the next one
            return importlib.import_module("arviz")
    except ImportError as error:
        raise ImportError(
            "R-hat and ESS are computed by ArviZ, which is not installed: pip install "
            "'aide-inference[arviz]', or pass num_chains=0 to do without them."
        ) from error


def rhat_and_ess(arviz: Any, states: np.ndarray, steps: Sequence[int]) -> Diagnostics:
    r"""R-hat and bulk ESS of the first T draws of every chain, for each T of `steps`.

    Rank-normalised split $\hat R$ and bulk ESS of every coordinate, from all draws since the start.

    Args:
        arviz: The package, 0.23 or later.
        states: Shape (chains, draws, coordinates), without the start.
        steps: Numbers of draws.
    """
    rhat, ess = [], []
    for number in steps:
        first = [states[:, :number, index] for index in range(states.shape[2])]
        if number < FEWEST_DRAWS:
            first = []
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # coordinates that never change: 0/0
            rhats = [float(arviz.rhat(part, method="rank")) for part in first]
            sizes = [float(arviz.ess(part, method="bulk")) for part in first]
        known = [not np.isnan(value) for value in rhats]
        rhat.append(float(np.max(rhats, where=known, initial=-np.inf)) if any(known) else np.nan)
        ess.append(float(np.min(sizes, where=known, initial=np.inf)) if any(known) else np.nan)
    return Diagnostics(tuple(rhat), tuple(ess))


def run_chains(key: Key | int, chain: MarkovChain, num_steps: int, num_chains: int) -> np.ndarray:
    """States 1 to `num_steps` of ordinary chains: shape (chains, steps, coordinates)."""
    stream = jax.random.fold_in(as_key(key), CHAINS)
    rows = (np.arange(num_chains, dtype=np.uint32),)
    what = "the kernel, its log density or the initial distribution"
    states = map_runs(_Path(num_steps), chain, stream, rows, what=what)
    shape = (num_chains, num_steps, -1 if num_steps else 0)
    flat = [np.asarray(leaf, np.float64).reshape(shape) for leaf in jax.tree.leaves(states)]
    return np.concatenate(flat, axis=2)


class _Path:
    """One chain as an operation of the engine; equal to others of the same number of steps."""

    def __init__(self, num_steps: int):
        self.num_steps = num_steps

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Path) and other.num_steps == self.num_steps

    def __hash__(self) -> int:
        return hash((_Path, self.num_steps))

    def __call__(self, chain: MarkovChain, stream: Key, run: Any) -> Value:
        key_start, key_steps = derive_keys(jax.random.fold_in(stream, run), 2)
        first = jax.tree.map(_in_double, sample_from(chain.start, key_start))

        steps = chain.with_steps(self.num_steps).steps(Transition)

        def transition(x: Value, step: Any) -> tuple[Value, Value]:
            index, inputs = step
            kernel = steps.move_at(inputs).kernel
            y = _step(kernel, derive(key_steps, index), chain.log_joint, x)
            return y, y

        numbered = (jnp.arange(self.num_steps, dtype=jnp.uint32), steps.inputs)
        return jax.lax.scan(transition, first, numbered)[1]


def _step(kernel: Any, key: Key, log_density: LogDensity, x: Value) -> Value:
    """One transition; a kernel without `step` records one."""
    if callable(getattr(kernel, "step", None)):
        return kernel.step(key, log_density, x)
    return kernel.record(key, log_density, x).value


def _in_double(leaf: Any) -> Any:
    array = jnp.asarray(leaf)
    return array.astype(float) if jnp.issubdtype(array.dtype, jnp.inexact) else array
