"""The hidden Markov model of the experiment, or a user's own as JSON."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from aide.problems.hidden_markov import HiddenMarkovModel
from aide.reproduce.runner import BadInput

FIELDS = ("initial", "transition", "emission", "observations")


def read_hmm(path: Path | None) -> tuple[HiddenMarkovModel, np.ndarray | None]:
    """The model, and the true states where they are known.

    The built-in one has 20 states, 4 symbols and 50 steps; rows drawn from Dirichlet(0.1) and
    Dirichlet(0.25) and mixed with a little of the uniform distribution; states and observations
    simulated from it.
    """
    if path is None:
        text = resources.files("aide").joinpath("data/hmm.json").read_text()
    else:
        try:
            text = path.read_text()
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}.") from None
    try:
        content: Any = json.loads(text)
        arrays = [np.asarray(content[name], float) for name in FIELDS]
    except json.JSONDecodeError as error:
        raise BadInput(f"{path} is not JSON: {error}.") from None
    except KeyError as error:
        raise BadInput(f"{path} lacks {error}; it needs {', '.join(FIELDS)}.") from None
    except (TypeError, ValueError) as error:
        raise BadInput(f"{path} holds something that is not a number: {error}.") from None
    _check_shapes(path, *arrays)
    try:
        model = HiddenMarkovModel(*arrays)
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None
    states = content.get("states")
    return model, None if states is None else np.asarray(states)


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
    if (observed != np.round(observed)).any():
        raise BadInput(f"{path}: observations must be whole numbers (0-based symbols).")
