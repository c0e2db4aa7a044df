r"""Outputs that occur again.

Independent runs of an algorithm with a density never return the same real numbers twice. One that
does has no density (its sampler ignores the key), or draws from a stored list: runs are then not
independent.
"""

from hashlib import blake2b
from typing import Any

import jax
import numpy as np

from aide._core.algorithm import describe


def fingerprints_of(values: Any) -> np.ndarray | None:
    """A number for every run that equal outputs share; `None` unless all are reals.

    Integers may well occur again, and so may an output of which only a part is real.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(values)]
    if not leaves or not all(np.issubdtype(leaf.dtype, np.floating) for leaf in leaves):
        return None
    rows = zip(*(leaf.reshape(len(leaf), -1) for leaf in leaves), strict=True)
    digests = [blake2b(b"".join(part.tobytes() for part in row), digest_size=8) for row in rows]
    return np.frombuffer(b"".join(one.digest() for one in digests), np.uint64)


def check_varied(role: str, algorithm: Any, values: Any, prints: np.ndarray | None) -> None:
    """Raise if all runs of a real-valued algorithm returned one and the same output."""
    if prints is None or prints.size < 2 or (prints != prints[0]).any():
        return
    x = jax.tree.map(lambda a: np.array2string(np.asarray(a[0]), threshold=8), values)
    raise ValueError(
        f"all {prints.size} runs of the {role} algorithm ({describe(algorithm)}) returned the same "
        f"output x = {x}. Real numbers that never vary have no density, so no log_xi is right. "
        "Does the sampler ignore its key? Random numbers must come from the key (jax.random), not "
        "from np.random; plain NumPy code is wrapped: aide.PythonAlgorithm."
    )
