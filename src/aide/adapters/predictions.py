"""Predictions of a model by name: functions of the values of its variables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax
from jaxtyping import Array

ValuesByName = Mapping[str, Array]
"""Values of the variables of a model, on its own scale."""


@dataclass(frozen=True)
class Prediction:
    """A function for `errors(functions=...)`: of the values of one output, by name.

    Attributes:
        function: The function, which JAX can trace.
        is_probability: Whether its values are probabilities, so that their error is reported as
            that of a probability instead of a mean, an sd and quantiles.
    """

    function: Callable[[ValuesByName], Array]
    is_probability: bool = False

    def __call__(self, values: ValuesByName) -> Array:
        """The prediction at the values of one output."""
        return self.function(values)


def predictions_of(
    make: Callable[[str, float | None], Callable[[ValuesByName], Array]],
    names: Sequence[str],
    known: Sequence[str],
    below: float | None,
    above: float | None,
    example: ValuesByName,
) -> dict[str, Prediction]:
    """Functions by name; each is tried at `example`, so that errors come early.

    Args:
        make: From a name and a threshold, the function: a value or a conditional mean, or with a
            threshold the conditional probability to be at or below it.
        names: Names of the wanted predictions; empty for all known ones.
        known: Names of all predictions of the model.
        below: A threshold; the event is a value at or below it.
        above: A threshold; the event is a value above it.
        example: Values of all variables.
    """
    if below is not None and above is not None:
        raise ValueError("predict takes below or above, not both: call predict twice.")
    unknown = [name for name in names if name not in known]
    if unknown:
        there = ", ".join(known) or "none"
        raise ValueError(
            f"the model has no {', '.join(unknown)} to predict; deterministic and observed "
            f"variables are: {there}. Variables of the posterior itself need no prediction."
        )
    found = {}
    for name in names or known:
        if below is None and above is None:
            found[name] = Prediction(make(name, None))
        elif above is None:
            found[f"P({name} <= {below:g})"] = Prediction(make(name, below), True)
        else:
            function = _complement(make(name, above))
            found[f"P({name} > {above:g})"] = Prediction(function, True)
    with jax.enable_x64(True):
        for prediction in found.values():
            jax.eval_shape(prediction.function, dict(example))
    return found


def _complement(function: Callable[[ValuesByName], Array]) -> Callable[[ValuesByName], Array]:
    return lambda values: 1 - function(values)
