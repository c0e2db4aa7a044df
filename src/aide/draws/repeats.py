r"""Outputs that occur again, and zeros that rest on one density: what looks exact and is not.

Independent runs of an algorithm with a density never return the same real numbers twice. One that
does has no density (its sampler ignores the key), or draws from a stored list: runs are then not
independent. And where both algorithms state the same $\log\xi$ at every output, the estimate is 0
whatever their samplers do.
"""

from hashlib import blake2b
from typing import Any

import jax
import numpy as np

from aide._core.algorithm import describe
from aide.draws.draws import Draws, Side

ROUNDING = 1e-9
"""Differences between log xi below this, relative to their size, are rounding."""


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


def rests_on_one_density(draws: Draws) -> bool:
    r"""Whether two different algorithms state the same $\log\xi$ at every output, up to a constant.

    Then every term is the same number: the estimate is 0 however the outputs are distributed.
    """
    if draws.same_algorithm:
        return False
    sides = ((draws.gold, draws.num_meta_gold, draws.num_meta_target, 1.0),)
    sides += ((draws.target, draws.num_meta_target, draws.num_meta_gold, -1.0),)
    terms, sizes = [], []
    for side, num_own, num_cross, sign in sides:
        kept, scored = side.kept(num_own), side.scored(num_cross)
        if not (np.isfinite(kept).all() and np.isfinite(scored).all()):
            return False
        terms.append(sign * (kept - scored))
        sizes.append(np.maximum(1.0, np.maximum(abs(kept), abs(scored))))
    terms, sizes = np.concatenate(terms), np.concatenate(sizes)
    return bool(terms.size and (abs(terms - terms[0]) <= ROUNDING * sizes).all())


def find_repeats(draws: Draws) -> list[str]:
    """Sentences about repeated outputs and about zeros that rest on one density."""
    found = []
    for name, side in (("gold standard", draws.gold), ("target", draws.target)):
        different, num = num_different(side), side.num_runs
        if different is not None and different < num:
            factor = np.sqrt(1 + num / different)
            found.append(
                f"The {num} outputs of the {name} are only {different} different ones. If it draws "
                "from a stored list, runs are not independent: the standard error is about "
                f"{factor:.1f} times too small, and no limit holds. Use every stored draw once."
            )
    if rests_on_one_density(draws):
        found.append(
            "Both algorithms state the same density at every output seen, so the estimate is 0 "
            "whatever their samplers do: it shows that the densities agree there, not the outputs. "
            "aide.check tests a sampler against its density."
        )
    return found


def num_different(side: Side) -> int | None:
    """How many different outputs there are; `None` if they are not real or were not compared."""
    return None if side.fingerprints is None else np.unique(side.fingerprints).size
