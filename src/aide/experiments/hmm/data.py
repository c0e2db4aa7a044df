"""The hidden Markov model of the experiment, or a user's own as JSON."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from aide.experiments.bad_input import BadInput
from aide.experiments.data import read_text, source_of
from aide.problems.hidden_markov import HiddenMarkovModel

FIELDS = ("initial", "transition", "emission", "observations")


def read_hmm(
    path: Path | None,
) -> tuple[HiddenMarkovModel, np.ndarray | None, dict[str, str]]:
    """The model, the true states where they are known, and where the data come from.

    The built-in one has 20 states, 4 symbols and 50 steps; rows drawn from Dirichlet(0.1) and
    Dirichlet(0.25) and mixed with a little of the uniform distribution; states and observations
    simulated from it.
    """
    if path is None:
        text = resources.files("aide").joinpath("data/hmm.json").read_text()
    else:
        text = read_text(path)
    try:
        content: Any = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadInput(f"{path} is not JSON: {error}.") from None
    lacking = [name for name in FIELDS if not isinstance(content, dict) or name not in content]
    if lacking:
        raise BadInput(f"{path} lacks {lacking[0]!r}; it needs an object of {', '.join(FIELDS)}.")
    try:
        arrays = [np.asarray(content[name], float) for name in FIELDS]
        states = None if content.get("states") is None else np.asarray(content["states"], float)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{path} holds something that is not a number: {error}.") from None
    _check_shapes(path, *arrays)
    try:
        model = HiddenMarkovModel(*arrays)
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None
    return model, _check_states(path, states, arrays), source_of(path, *arrays)


def _check_shapes(
    path: Any,
    initial: np.ndarray,
    transition: np.ndarray,
    emission: np.ndarray,
    observed: np.ndarray,
) -> None:
    num = initial.shape[0] if initial.ndim == 1 else 0
    right = num > 0 and transition.shape == (num, num) and emission.ndim == 2
    if not right or emission.shape[0] != num or observed.ndim != 1 or observed.size == 0:
        raise BadInput(
            f"{path}: shapes must be initial [K], transition [K][K], emission [K][S], observations "
            f"[T], got {initial.shape}, {transition.shape}, {emission.shape}, {observed.shape}."
        )
    if (observed != np.round(observed)).any() or np.abs(observed).max() > 1e9:
        raise BadInput(f"{path}: observations must be whole numbers (0-based symbols).")


def _check_states(path: Any, states: np.ndarray | None, arrays: list[np.ndarray]) -> Any:
    """The figure shows the true states, after all runs: what is wrong with them is said before."""
    if states is None:
        return None
    num, steps = arrays[0].shape[0], arrays[3].shape[0]
    whole = states.shape == (steps,) and np.isin(states, np.arange(num)).all()
    if not whole:
        raise BadInput(f"{path}: states must be {steps} whole numbers from 0 to {num - 1}.")
    return states.astype(int)
