"""Errors for algorithms that return the wrong thing, with value, place and fix."""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.algorithm import describe
from aide._core.types import GOLD, TARGET, Role
from aide._core.validate import check_concrete
from aide.reporting.numbers import in_nats

MOST_OFFSET = 2.0**42
"""Size of log xi up to which double precision, with 52 bits, resolves 0.001 nats."""
_KINDS = {"f": "real", "i": "integer", "u": "integer", "b": "boolean", "c": "complex"}


def check_algorithm(role: str, algorithm: Any) -> None:
    """Raise unless the object has both operations, and none of its arrays is traced."""
    check_concrete(f"an estimate with this {role}", algorithm)
    for method in ("simulate", "regenerate"):
        if isinstance(algorithm, type) or not callable(getattr(algorithm, method, None)):
            words = _words_for(algorithm)
            if words:
                raise TypeError(f"{role} must be an inference algorithm, got {words}")
            raise TypeError(
                f"{role} must be an inference algorithm with simulate(key) and regenerate(key, "
                f"value), got {algorithm!r} without {method}. For a distribution, use "
                "aide.Tractable.of(distribution); for code with a forward and a reverse run, "
                "aide.ForwardReverse."
            )


def _words_for(thing: Any) -> str:
    """A description of an object of another library, and how to make an algorithm of it; or ''."""
    kind, module = type(thing).__name__, type(thing).__module__ or ""
    library, post = module.split(".")[0], "with post = aide.{}.posterior(model, ...): "
    if callable(getattr(thing, "from_draws", None)) and hasattr(thing, "log_joint"):
        return (
            f"the posterior itself ({kind}). Gold standards and targets hang off it: "
            "post.gold(key), post.from_mcmc(mcmc), post.guide(guide, params)."
        )
    if library == "numpyro" and kind == "MCMC":
        return f"a NumPyro MCMC object. {post.format('numpyro').capitalize()}post.from_mcmc(mcmc)."
    if library == "numpyro" and (kind.startswith("Auto") or kind.startswith("SVI")):
        return (
            f"{kind}, a variational fit of NumPyro. {post.format('numpyro').capitalize()}"
            "post.guide(guide, svi_result)."
        )
    if library == "pymc" and callable(getattr(thing, "sample", None)):
        return f"{kind} of PyMC. {post.format('pymc').capitalize()}post.guide(approximation)."
    if kind in ("InferenceData", "DataTree"):
        return f"draws ({kind}). With post, a posterior of an adapter: post.from_arviz(data)."
    if isinstance(thing, list | tuple) and any(hasattr(one, "regenerate") for one in thing):
        return "a list of algorithms: pass a mapping from names, {'name': algorithm, ...}."
    if isinstance(thing, np.ndarray | jax.Array | list) or _is_draws(thing):
        return (
            "draws rather than an algorithm. As a gold standard: aide.ReferenceDraws(draws, "
            "log_joint), or post.from_draws(draws) of an adapter; two sets of draws: "
            "aide.compare_draws."
        )
    return ""


def _is_draws(thing: Any) -> bool:
    """Whether it is a mapping from names to arrays, as `get_samples()` of NumPyro returns."""
    return isinstance(thing, Mapping) and all(hasattr(v, "shape") for v in thing.values())


def common_output(gold: Any, target: Any, names: Mapping[Role, str]) -> Any:
    """Shapes and dtypes to which both outputs are promoted; raise if they are not comparable."""
    trees = [jax.tree.structure(output) for output in (gold, target)]
    if trees[0] != trees[1]:
        raise ValueError(
            f"gold and target must return outputs of the same structure, got {_show(gold)} from "
            f"gold ({names[GOLD]}) and {_show(target)} from target ({names[TARGET]}). Return "
            "the same variables under the same names."
        )

    def promote(one: Any, other: Any) -> Any:
        shapes = (np.shape(one), np.shape(other))
        kinds = tuple(_KINDS.get(np.dtype(leaf.dtype).kind, "?") for leaf in (one, other))
        if shapes[0] != shapes[1] or kinds[0] != kinds[1]:
            raise ValueError(
                f"gold and target must return outputs of the same shape and kind, got {kinds[0]} "
                f"{shapes[0]} from gold ({names[GOLD]}) and {kinds[1]} {shapes[1]} from target "
                f"({names[TARGET]}). Reshape or convert one of them; precision alone is promoted "
                "automatically."
            )
        return jax.ShapeDtypeStruct(shapes[0], jnp.promote_types(one.dtype, other.dtype))

    return jax.tree.map(promote, gold, target)


def check_log_xi(
    role: str,
    algorithm: Any,
    method: str,
    log_xi: np.ndarray,
    values: Any,
    replay: Callable[[int], Any] = lambda row: None,
) -> None:
    r"""Raise for NaN and $+\infty$, and for $-\infty$ at the algorithm's own outputs.

    `replay` repeats a failing run outside of compiled code, where it may say what went wrong.
    """
    wrong = np.isnan(log_xi) | (log_xi == np.inf)
    if method == "simulate":
        _check_offset(role, algorithm, log_xi)
        wrong = wrong | (log_xi == -np.inf)
    if not wrong.any():
        return
    position = tuple(np.argwhere(wrong)[0])
    try:
        replay(int(position[0]))
    except ValueError as error:
        raise ValueError(f"{role} algorithm ({describe(algorithm)}): {error}") from None
    x = jax.tree.map(lambda a: np.array2string(np.asarray(a[position[0]]), threshold=8), values)
    found = log_xi[position]
    output = [np.asarray(leaf[position[0]]) for leaf in jax.tree.leaves(values)]
    if not all(np.isfinite(part).all() for part in output):
        cause = (
            "The output itself is not finite. A kernel without an accept step diverges if its step "
            "size is too large: make it smaller."
        )
    elif np.isnan(found):
        cause = (
            "A log density may be -inf outside its support, never nan; common causes: the log of a "
            "negative number, 0 * inf, a scale of zero."
        )
    elif found < 0:
        cause = (
            "An algorithm cannot return an output of density zero: its density and its sampler "
            "disagree."
        )
    else:
        cause = "A density must be finite where it is positive."
    raise ValueError(
        f"{method} of the {role} algorithm ({describe(algorithm)}) gave log_xi = {found} for "
        f"{int(wrong.sum())} of {wrong.size} runs, first at x = {x}. {cause}"
    )


def _check_offset(role: str, algorithm: Any, log_xi: np.ndarray) -> None:
    """Raise if all values are so large that double precision does not resolve 0.001 nats."""
    finite = np.abs(log_xi[np.isfinite(log_xi)])
    if not finite.size or finite.min() <= MOST_OFFSET:
        return
    raise ValueError(
        f"log_xi of the {role} algorithm ({describe(algorithm)}) is {finite.min():.2g} or more in "
        "size at all outputs, where double precision resolves "
        f"{in_nats(np.spacing(finite.min()), 1)} and no divergence can be seen: "
        "subtract a constant from the log density, which cancels."
    )


def _show(output: Any) -> str:
    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(np.shape(leaf))}", output))


def fingerprints_of(values: Any) -> np.ndarray | None:
    """A number for every run that equal outputs share; `None` unless all are reals.

    Outputs with integers may repeat in a correct algorithm.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(values)]
    if not leaves or not all(np.issubdtype(leaf.dtype, np.floating) for leaf in leaves):
        return None
    rows = zip(*(leaf.reshape(len(leaf), -1) for leaf in leaves), strict=True)
    digests = [blake2b(b"".join(part.tobytes() for part in row), digest_size=8) for row in rows]
    return np.frombuffer(b"".join(one.digest() for one in digests), np.uint64)


def check_varied(role: str, algorithm: Any, values: Any, prints: np.ndarray | None) -> None:
    """Raise if all runs of a real-valued algorithm returned the same output."""
    if prints is None or prints.size < 2 or (prints != prints[0]).any():
        return
    x = jax.tree.map(lambda a: np.array2string(np.asarray(a[0]), threshold=8), values)
    raise ValueError(
        f"all {prints.size} runs of the {role} algorithm ({describe(algorithm)}) returned the same "
        f"output x = {x}. Real numbers that never vary have no density, so no log_xi is right. "
        "Does the sampler ignore its key? Random numbers must come from the key (jax.random), not "
        "from np.random; plain NumPy code is wrapped: aide.PythonAlgorithm."
    )
