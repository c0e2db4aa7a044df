"""Variables: the numbers of an output by name, element by element, and functions of outputs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.types import Value
from aide._core.validate import is_tracing_error
from aide.algorithms.draw_arrays import column_names, columns_of
from aide.engine.draws import Draws

MOST_VARIABLES = 500
"""Largest number of variables in a table; of more columns an even choice is taken."""
KEEP = (
    "the outputs were not kept, and errors of expectations need them: estimate again without "
    "keep_values=False, or with keep_values=True where outputs are large."
)
"""Message for runs without outputs."""


class NamesOutputs(Protocol):
    """A posterior that gives the numbers of an output names."""

    def values_of(self, rows: Any) -> Mapping[str, np.ndarray]:
        """Convert outputs in rows to arrays by name, on the scale of the model."""
        ...


class OutputVariable(NamedTuple):
    """One number of every output.

    Attributes:
        name: Name of the variable.
        values: Values at all outputs, the gold standard's first.
        is_event: Whether values are true or false, or conditional probabilities, so that the mean
            is a probability.
        is_discrete: Whether values are integers, so that quantiles say little.
        is_function: Whether the variable is a function that the caller passed.
    """

    name: str
    values: np.ndarray
    is_event: bool = False
    is_discrete: bool = False
    is_function: bool = False


def posterior_of(*algorithms: Any) -> NamesOutputs | None:
    """The posterior with named variables for which one of these algorithms was made, if any.

    It is the algorithm's attribute `posterior`, or the object whose method is its density.
    """
    for algorithm in algorithms:
        for density in (getattr(algorithm, "log_joint", None), algorithm):
            for owner in (getattr(density, "__self__", None), getattr(density, "posterior", None)):
                if callable(getattr(owner, "values_of", None)):
                    return owner
    return None


def variables_of(
    draws: Draws,
    posterior: NamesOutputs | None = None,
    functions: Mapping[str, Callable[[Any], Any]] | None = None,
) -> tuple[OutputVariable, ...]:
    """All numbers of the outputs, preceded by functions of the outputs.

    Args:
        draws: Runs with their outputs.
        posterior: Gives outputs names; by default names are those of the pytree.
        functions: Functions by name of one output, or with a posterior of its values by name. They
            return numbers or arrays; every element is a variable. A function with a true attribute
            `is_probability` returns conditional probabilities.
    """
    if any(side.values is None for side in draws.sides):
        raise ValueError(KEEP)
    outputs = [
        side.values if posterior is None else posterior.values_of(side.values)
        for side in draws.sides
    ]
    return variables_in(outputs, [side.num_runs for side in draws.sides], functions)


def variables_in(
    outputs: Sequence[Any],
    nums: Sequence[int],
    functions: Mapping[str, Callable[[Any], Any]] | None = None,
) -> tuple[OutputVariable, ...]:
    """All numbers of stacked outputs, the gold standard's and the target's, and of functions."""
    found = [_columns(jax.tree.map(_joined, *outputs))]
    for name, function in (functions or {}).items():
        results = [
            apply_function(name, function, output, num)
            for output, num in zip(outputs, nums, strict=True)
        ]
        columns = _columns({name: _joined(*results)})
        known = getattr(function, "is_probability", False)
        found.insert(
            -1,
            [one._replace(is_function=True, is_event=known or one.is_event) for one in columns],
        )
    return tuple(variable for part in found for variable in part)


def apply_function(
    name: str, function: Callable[[Any], Any], values: Value, num: int
) -> np.ndarray:
    """Evaluate a function of one output at all outputs; it is traced by JAX, or plain Python.

    Raises:
        ValueError: If the function returns nan, or arrays of different shapes.
    """
    with jax.enable_x64(True):
        try:
            result = np.asarray(jax.vmap(lambda x: jnp.asarray(function(x)))(values))
        except Exception as error:
            if not is_tracing_error(error):
                raise
            rows = (jax.tree.map(lambda a, i=i: a[i], values) for i in range(num))
            result = np.stack([np.asarray(function(row)) for row in rows])
    if result.dtype.kind not in "fiub":
        raise ValueError(f"{name} must return numbers, got dtype {result.dtype}.")
    if np.isnan(result).any():
        raise ValueError(f"{name} returned nan for {int(np.isnan(result).sum())} outputs.")
    return result


def _joined(gold: Any, target: Any) -> np.ndarray:
    return np.concatenate([np.asarray(gold), np.asarray(target)])


def _columns(tree: Value) -> list[OutputVariable]:
    """Every number of the arrays of a tree, whose leading axis is runs."""
    chained = jax.tree.map(lambda a: a[None], tree)
    kinds = [
        np.asarray(leaf).dtype.kind
        for leaf in jax.tree.leaves(tree)
        for _ in range(int(np.prod(np.shape(leaf)[1:])))
    ]
    columns, names = columns_of(chained)[0].T, column_names(chained)
    chosen = range(len(names))
    if len(names) > MOST_VARIABLES:
        chosen = np.unique(np.linspace(0, len(names) - 1, MOST_VARIABLES).round().astype(int))
    return [
        OutputVariable(names[i], columns[i], _is_event(kinds[i], columns[i]), kinds[i] in "iub")
        for i in chosen
    ]


def _is_event(kind: str, values: np.ndarray) -> bool:
    return kind == "b" or bool(np.isin(values, (0.0, 1.0)).all())
