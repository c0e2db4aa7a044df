"""The identity of an algorithm: a digest of its traced programs and of its arrays.

Two algorithms with the same identity give the same numbers for the same key, up to rounding, so
that stored runs may be used again. The digest is taken from the traced programs of `simulate` and
`regenerate` (`ProgramDigest`), with every constant by value. Every change that changes a number
changes the traced program, whatever its cause; nothing is assumed about Python.

Code that JAX does not trace, such as a plain NumPy algorithm, cannot be compared with an earlier
version. Its identity says so (`unseen`), unless its object has an attribute
`aide_identity`: a text that changes whenever its results do.

A jaxpr is written in a canonical form: variables by the order of their appearance, constants by
value, without names of functions and places in files. The digest of the computation and those of
constants are separate, so that a message can say which changed.
"""

import enum
import functools
import hashlib
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any
from uuid import uuid4

import jax
import numpy as np

from aide._core.algorithm import log_z_of
from aide._core.jax_compat import ClosedJaxpr, Jaxpr, Literal, setting
from aide._version import __version__

_serials: dict[int, tuple[Any, str]] = {}
MAX_SHOWN = 5
"""Number of differing parts that an error message names; further parts are only counted."""


@dataclass(frozen=True)
class Identity:
    """A description of the computation of an algorithm.

    Attributes:
        kind: The class of the algorithm.
        digest: One word for all facts.
        facts: A digest of every part, by the name of the part.
        unseen: Parts whose code JAX did not trace, in words.
        call: Number of the call that made the identity; 0 for a stored one. Within one call an
            object that is not traced counts as unchanged.
    """

    kind: str
    digest: str
    facts: Mapping[str, str]
    unseen: tuple[str, ...] = ()
    call: int = field(default=0, compare=False)

    @staticmethod
    def of(
        kind: str, facts: Mapping[str, str], unseen: tuple[str, ...] = (), call: int = 0
    ) -> "Identity":
        """The identity made of these facts, and of the versions and settings in force."""
        facts = {**facts, **_surroundings()}
        digest = digest_of_words(kind, *(f"{name} {facts[name]}" for name in sorted(facts)))
        return Identity(kind, digest, facts, unseen, call)

    def to_json(self) -> dict[str, Any]:
        """The dictionary that is stored with runs."""
        unseen = list(self.unseen)
        return {
            "kind": self.kind,
            "digest": self.digest,
            "facts": dict(self.facts),
            "unseen": unseen,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Identity":
        """The identity that `to_json` stored."""
        return Identity(data["kind"], data["digest"], data["facts"], tuple(data["unseen"]))

    def differences(self, now: "Identity") -> str:
        """The parts that differ from `now`, in words; empty if none differs."""
        if self.digest == now.digest:
            return ""
        if self.kind != now.kind:
            return f"its class ({self.kind}, now {now.kind})"
        names = sorted({*self.facts, *now.facts})
        changed = [name for name in names if self.facts.get(name) != now.facts.get(name)]
        changed = changed or ["its structure"]
        more = f" and {len(changed) - MAX_SHOWN} more" if len(changed) > MAX_SHOWN else ""
        return ", ".join(changed[:MAX_SHOWN]) + more


def digest_of_words(*words: str) -> str:
    """A short digest of some texts; their order matters."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:32]


def digest_of_array(array: Any) -> str:
    """A digest of dtype, shape and every number of an array, or of a JAX key."""
    if isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        return digest_of_words(str(array.dtype), digest_of_array(jax.random.key_data(array)))
    content = np.ascontiguousarray(array)
    digest = hashlib.sha256(f"{content.dtype}{content.shape}".encode())
    has_rows = content.size and content.ndim
    digest.update(content.view(np.uint8).data if has_rows else content.tobytes())
    return digest.hexdigest()[:32]


def stated_identity(thing: Any) -> str | None:
    """The `aide_identity` of an object, or of the object that it is a method or wrapper of."""
    for _ in range(10):  # a chain of wrappers longer than this is a loop
        text = getattr(thing, "aide_identity", None)
        if isinstance(text, str):
            return text
        inner = getattr(thing, "__self__", None)
        if isinstance(thing, functools.partial):
            inner = thing.func
        if inner is None or inner is thing:
            return None
        thing = inner
    return None


def facts_of_data(algorithm: Any) -> dict[str, str]:
    """Digests of every array and float of an algorithm, and its claim about log Z."""
    facts = {"log_z": repr(log_z_of(algorithm))}
    for path, leaf in jax.tree_util.tree_flatten_with_path(algorithm)[0]:
        if isinstance(leaf, np.ndarray | np.generic | jax.Array | float):
            facts[f"array {jax.tree_util.keystr(path).lstrip('.')}"] = digest_of_array(leaf)
    return facts


def serial_number(thing: Any) -> str:
    """A word that no other object of any process has, and that stays for the object's life.

    An object that cannot be referred to weakly gets a new word every time.
    """
    known, word = _serials.get(id(thing), (None, ""))
    if known is not None and known() is thing:
        return word
    word = uuid4().hex
    try:
        _serials[id(thing)] = weakref.ref(thing), word
    except TypeError:
        pass
    return word


def _surroundings() -> dict[str, str]:
    """Versions and settings that change numbers by more than rounding.

    Patch releases of JAX share runs: a change that concerns an algorithm shows in its program.
    """
    return {
        "version of aide": __version__,
        "version of jax": ".".join(jax.__version__.split(".")[:2]),
        **{name: str(setting(name)) for name in GENERATOR_SETTINGS},
    }


GENERATOR_SETTINGS = ("jax_threefry_partitionable",)
"""Settings of JAX that change random numbers without changing the traced program."""


_WITHOUT_EFFECT = frozenset({"name", "debug_info", "ctx_mesh", "inline", "keep_unused"})
"""Parameters of JAX's primitives that change no number."""
_RULES = frozenset(
    {"jvp_jaxpr_fun", "jvp_jaxpr_thunk", "jvp", "fwd", "fwd_jaxpr_thunk", "bwd", "out_trees"}
)
"""Parameters with derivative rules: the used parts of them have been traced into the program."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.dtype, slice)
"""Types of parameters that are written by value."""


@dataclass
class ProgramDigest:
    """The parts of a traced program.

    Attributes:
        computation: Digest of the operations, and of all shapes.
        numbers: Digest of the scalar constants.
        constants: Digests of the array constants, by dtype and shape.
        opaque: Objects that only Python understands, such as a host callback without an
            `aide_identity`. A program with such an object is recognised in this process only.
        has_rules: Whether an operation has a rule of its own for batches (`jax.custom_batching`),
            which only the traced program of a batch contains.
    """

    computation: str
    numbers: str
    constants: dict[str, str]
    opaque: tuple[Any, ...] = ()
    has_rules: bool = False

    @property
    def digest(self) -> str:
        """One word for all parts; opaque objects count by their address in memory."""
        constants = (f"{name} {self.constants[name]}" for name in sorted(self.constants))
        here = (f"at {id(thing)}" for thing in self.opaque)
        return digest_of_words(self.computation, self.numbers, *constants, *here)

    def facts(self, name: str) -> dict[str, str]:
        """Named digests of the parts, for the program of the method `name`."""
        found = {f"what {name} computes": self.computation, f"numbers in {name}": self.numbers}
        for shape, digest in self.constants.items():
            found[f"constants {shape} in {name}"] = digest
        return found


def digest_of_program(program: ClosedJaxpr) -> ProgramDigest:
    """Read a whole traced program, with all programs inside it."""
    writer = _Writer()
    computation = writer.closed(program)
    constants = {shape: digest_of_words(*found) for shape, found in writer.constants.items()}
    opaque = tuple(writer.opaque)
    numbers = digest_of_words(*writer.numbers)
    return ProgramDigest(computation, numbers, constants, opaque, bool(writer.rules))


@dataclass
class _Writer:
    """Collects the parts of one program while the program is read."""

    numbers: list[str] = field(default_factory=list)
    constants: dict[str, list[str]] = field(default_factory=dict)
    opaque: list[Any] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    inner: "dict[int, tuple[_Writer, str]]" = field(default_factory=dict)

    def closed(self, program: ClosedJaxpr) -> str:
        values = [self.constant(value) for value in program.consts]
        return digest_of_words(*values, self.jaxpr(program.jaxpr))

    def constant(self, value: Any) -> str:
        """Record a constant by value; return its shape, which is part of the computation."""
        aval = _shape(jax.typeof(value))
        if np.shape(value) == () and not _is_key(value):
            self.numbers.append(f"{aval} {np.asarray(value).tobytes().hex()}")
        else:
            self.constants.setdefault(aval, []).append(digest_of_array(value))
        return aval

    def jaxpr(self, jaxpr: Jaxpr) -> str:
        """The digest of a program inside this one, which is read once and counts at every use."""
        if id(jaxpr) not in self.inner:
            inside = _Writer(inner=self.inner, opaque=self.opaque, rules=self.rules)
            self.inner[id(jaxpr)] = (inside, inside._read(jaxpr))
        inside, computation = self.inner[id(jaxpr)]
        self.numbers.append(digest_of_words(*inside.numbers))
        for shape, found in inside.constants.items():
            self.constants.setdefault(shape, []).append(digest_of_words(*found))
        return computation

    def _read(self, jaxpr: Jaxpr) -> str:
        names: dict[Any, int] = {}

        def declared(variables: Iterable[Any]) -> str:
            found = []
            for variable in variables:
                names[variable] = len(names)
                found.append(_shape(variable.aval))
            return ",".join(found)

        def used(atom: Any) -> str:
            if isinstance(atom, Literal):
                return self.constant(atom.val)
            return f"${names[atom]}"

        lines = [declared(jaxpr.constvars), declared(jaxpr.invars)]
        for equation in jaxpr.eqns:
            given = " ".join(used(atom) for atom in equation.invars)
            settings = self._settings(equation.primitive.name, equation.params)
            lines.append(f"{equation.primitive.name} {given} {settings}")
            lines.append(declared(equation.outvars))
        lines.append(" ".join(used(atom) for atom in jaxpr.outvars))
        return digest_of_words(*lines)

    def _settings(self, primitive: str, params: dict[str, Any]) -> str:
        skipped = _WITHOUT_EFFECT
        if primitive.startswith(("custom_jvp", "custom_vjp")):
            skipped = skipped | _RULES
        if primitive == "custom_vmap_call":
            self.rules.append(primitive)
            skipped = skipped | {"rule"}
        if primitive == "debug_callback":
            skipped = skipped | {"callback"}
        return " ".join(
            f"{name}={self.setting(params[name])}" for name in sorted(params) if name not in skipped
        )

    def setting(self, value: Any) -> str:
        """Write a parameter of an operation: data, arrays, programs, or structures of them."""
        if isinstance(value, ClosedJaxpr):
            return self.closed(value)
        if isinstance(value, Jaxpr):
            return self.jaxpr(value)
        if isinstance(value, np.ndarray | np.generic | jax.Array):
            return self.constant(value)
        if isinstance(value, enum.Enum | type):
            return str(value)
        if isinstance(value, _PLAIN):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, dict):
            items = (f"{key!r}:{self.setting(value[key])}" for key in sorted(value, key=repr))
            return f"{{{' '.join(items)}}}"
        if isinstance(value, set | frozenset):
            return f"set({' '.join(sorted(map(self.setting, value)))})"
        if isinstance(value, tuple | list):
            return f"{type(value).__name__}({' '.join(map(self.setting, value))})"
        if is_dataclass(value) and "callback" not in type(value).__name__.lower():
            parts = (self.setting(getattr(value, one.name)) for one in fields(value))
            return f"{type(value).__name__}({' '.join(parts)})"
        return self._object(value)

    def _object(self, value: Any) -> str:
        """Write another object by its `aide_identity` or its text; if neither exists, as opaque."""
        stated = stated_identity(getattr(value, "callback_func", value))
        if stated is not None:
            return f"stated {stated}"
        text = repr(value)
        if " at 0x" not in text and not callable(value):
            return text
        if callable(value) and _is_of_jax(value):
            return f"{value.__module__}.{value.__qualname__}"
        if not any(value is known for known in self.opaque):
            self.opaque.append(value)
        return f"opaque {[value is known for known in self.opaque].index(True)}"


def _is_of_jax(value: Any) -> bool:
    """Whether an object is a function of JAX's own without a closure."""
    module = getattr(value, "__module__", None) or ""
    is_named = "<locals>" not in getattr(value, "__qualname__", "<locals>")
    return module.partition(".")[0] in ("jax", "jaxlib") and is_named


def _is_key(value: Any) -> bool:
    return jax.dtypes.issubdtype(getattr(value, "dtype", np.float64), jax.dtypes.prng_key)


_dtype_name = functools.cache(str)


def _shape(aval: Any) -> str:
    weak = "~" if getattr(aval, "weak_type", False) else ""
    if hasattr(aval, "dtype") and hasattr(aval, "shape"):
        return f"{_dtype_name(aval.dtype)}{weak}{list(aval.shape)}"
    return str(aval)
