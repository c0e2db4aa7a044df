"""PyTensor graphs of a model, as JAX functions."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pymc import Model
from pytensor.compile.mode import Mode
from pytensor.graph.replace import graph_replace
from pytensor.tensor.random.type import RandomType

_flags = os.environ.get("XLA_FLAGS")
from pymc.sampling.jax import get_jaxified_graph  # noqa: E402

# PyMC's import asks XLA for 100 devices, for chains of its own; what runs here wants cores.
if _flags is None:
    os.environ.pop("XLA_FLAGS", None)
else:
    os.environ["XLA_FLAGS"] = _flags

Node = Any
"""A variable of PyTensor."""
PLAIN = Mode(linker="py", optimizer=None)  # pyrefly: ignore[bad-argument-type]
"""Evaluates without compiling anything."""


def as_jax(inputs: Sequence[Node], outputs: Sequence[Node]) -> Callable[..., tuple[Any, ...]]:
    """The outputs as a function of the inputs that JAX can trace; data are compiled in."""
    function = get_jaxified_graph(inputs=list(inputs), outputs=list(outputs))
    return lambda *arguments: tuple(function(*arguments))


def unconstrain_graph(model: Model) -> tuple[list[Node], list[Node]]:
    """Inputs: values of the free variables, on the scale of the model. Outputs: unconstrained."""
    values = {variable: variable.type(name=variable.name) for variable in model.free_RVs}
    outputs = []
    for variable, value in values.items():
        transform = model.rvs_to_transforms[variable]
        output = value
        if transform is not None:
            output = transform.forward(value, *variable.owner.inputs)
        outputs.append(output)
    return list(values.values()), graph_replace(outputs, values, strict=False)


def draws_at_random(outputs: Sequence[Node]) -> bool:
    """Whether something in a graph has a random generator: log densities should not."""
    return any(isinstance(node.type, RandomType) for node in _walk(outputs))


def _walk(outputs: Sequence[Node]) -> Iterator[Node]:
    """Every variable once, after all that it is computed from."""
    seen: set[Node] = set()
    waiting = [(output, False) for output in reversed(outputs)]
    while waiting:
        node, is_ready = waiting.pop()
        if is_ready:
            yield node
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            if node.owner is not None:
                waiting += [(part, False) for part in reversed(node.owner.inputs)]
