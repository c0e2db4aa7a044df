"""PyTensor graphs of a model: as JAX functions, and as a digest of all they depend on."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from pymc import Model
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
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


def digest(outputs: Sequence[Node]) -> str:
    """A digest of a graph: operations, their settings and order, constants and shared data."""
    numbers: dict[Node, int] = {}
    found = hashlib.sha256()
    for node in _walk(outputs):
        numbers[node] = len(numbers)
        found.update(_facts(node, numbers).encode())
    found.update(repr([numbers[output] for output in outputs]).encode())
    return found.hexdigest()


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


def _facts(node: Node, numbers: dict[Node, int]) -> str:
    if node.owner is not None:
        operation = node.owner.op
        settings = {name: getattr(operation, name) for name in getattr(operation, "__props__", ())}
        inner = getattr(operation, "inner_outputs", None) or getattr(operation, "fgraph", None)
        inside = digest(list(getattr(inner, "outputs", inner))) if inner is not None else ""
        parts = [numbers[part] for part in node.owner.inputs]
        words = f"{type(operation).__name__} {operation} {settings}"
        return f"{words} {inside} {parts} {node.owner.outputs.index(node)};"
    if isinstance(node, Constant | SharedVariable):
        data = node.data if isinstance(node, Constant) else node.get_value(borrow=True)
        return f"{node.type} {_content(data)};"
    return f"input {node.name} {node.type};"


def _content(data: Any) -> str:
    if isinstance(data, np.ndarray | np.generic | int | float):
        array = np.asarray(data)
        return f"{array.dtype}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"
    return repr(data)
