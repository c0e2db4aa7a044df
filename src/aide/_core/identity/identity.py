"""The identity of an algorithm: a digest of everything its results may depend on.

Classes, settings, every array, the code of functions, what they close over and what they read from
their modules are all part of it; names for tables are not. Two algorithms with the same identity
give the same numbers for the same key, so that stored runs and compiled programs may be reused.
Identities are the same in another process and on another machine, with the same versions of Python
and of the libraries.

An object that holds what plays no part (a counter), or what nobody can look into (a handle), may
say what it is by an attribute `aide_identity`, a text that changes whenever its results do.
"""

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import jax

from aide._core.identity.walk import Walk
from aide._version import __version__

MOST_FACTS = 300
"""More are summed up: an identity is stored beside the runs."""
MOST_SHOWN = 5
_seen: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


@dataclass(frozen=True)
class Identity:
    """What an object is made of.

    Attributes:
        kind: The class of the object.
        digest: One word for all of it.
        facts: A digest for every part, by where it is found, such as `log_joint reads DATA`.
        unseen: Parts that nobody can look into, in words.
    """

    kind: str
    digest: str
    facts: Mapping[str, str]
    unseen: tuple[str, ...] = ()

    def differences(self, now: "Identity") -> str:
        """The parts that are no longer what they were, in words; empty if there are none."""
        if self.digest == now.digest:
            return ""
        if self.kind != now.kind:
            return f"its class ({self.kind}, now {now.kind})"
        names = sorted({*self.facts, *now.facts})
        changed = [name for name in names if self.facts.get(name) != now.facts.get(name)]
        # Of parts and what holds them, the parts say more.
        whole = [name for name in changed if any(other.startswith(f"{name}.") for other in changed)]
        found = [name or "the object itself" for name in changed if name and name not in whole]
        found = found or ["its structure"]
        more = f" and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
        return ", ".join(found[:MOST_SHOWN]) + more


def identity_of(thing: Any) -> Identity:
    """Look at an object and everything it refers to; pytrees are followed leaf by leaf."""
    return _identity(thing, Walk(), traced=False)


def program_identity_of(thing: Any) -> Identity:
    """What is compiled into a program of this object: not the arrays and floats that JAX traces.

    JAX keeps the traces of jitted functions and of loop bodies by the function alone: where the
    data or code behind a function has changed since it was seen last, they are cleared.
    """
    walk = Walk()
    identity = _identity(thing, walk, traced=True)
    stale = [_seen.get(function, digest) != digest for function, digest in walk.functions]
    _seen.update(walk.functions)
    if any(stale):
        jax.clear_caches()
    return identity


def is_packaged(thing: Any) -> bool:
    """Whether all code of an object belongs to installed packages, and all of it can be seen.

    Then its class names, settings and the versions of the packages say what its code does; a user's
    code may reach what nobody followed, such as a module that it imports while it runs.
    """
    walk = Walk()
    walk.look("", thing, traced=True)
    return not walk.has_users_code and not walk.unseen


def _identity(thing: Any, walk: Walk, traced: bool) -> Identity:
    digest = walk.look("", thing, traced)
    around = _surroundings()
    digest = _hash(digest, *around.values())
    facts = _shorten(walk.facts) | around
    return Identity(type(thing).__qualname__, digest, facts, tuple(walk.unseen))


def _surroundings() -> dict[str, str]:
    """What changes numbers from outside: versions, and how random bits are made."""
    partitionable = getattr(jax.config, "jax_threefry_partitionable", None)
    return {
        "version of aide": __version__,
        "version of jax": jax.__version__,
        "version of Python": ".".join(platform.python_version_tuple()[:2]),
        "jax_threefry_partitionable": str(partitionable),
    }


def _shorten(facts: dict[str, str]) -> dict[str, str]:
    """The same facts under shorter names, summed up where they share one."""
    depth = max((name.count(".") for name in facts), default=0)
    while len(facts) > MOST_FACTS and depth > 0:
        depth -= 1
        shorter: dict[str, list[str]] = {}
        for name, fact in facts.items():
            shorter.setdefault(".".join(name.split(".")[: depth + 1]), []).append(fact)
        facts = {name: _hash(*parts) for name, parts in shorter.items()}
    return facts if len(facts) <= MOST_FACTS else {"": _hash(*facts.values())}


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
