"""The identity of an algorithm: a digest of its traced programs and of its arrays.

Two algorithms with the same identity give the same numbers for the same key, up to rounding, so
that stored runs may be used again. The digest is taken from the traced programs of `simulate` and
`regenerate` (`program_digest`), with every constant by value. Every change that changes a number
changes the traced program, whatever its cause; nothing is assumed about Python.

Code that JAX does not trace, such as a plain NumPy algorithm, cannot be compared with an earlier
version. Its identity says so (`unseen`), unless its object has an attribute
`aide_identity`: a text that changes whenever its results do.
"""

import functools
import hashlib
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import jax
import numpy as np

from aide._core.algorithm import log_z_of
from aide._core.jax_compat import setting
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
