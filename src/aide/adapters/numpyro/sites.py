"""The sites of a NumPyro model or guide, found by running it."""

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions.distribution import validation_enabled
from numpyro.infer import init_to_uniform
from numpyro.primitives import Messenger

Site = dict[str, Any]
Trace = dict[str, Site]


class UnsetParameters(Messenger):
    """Collects the names of `param` sites without a value."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        self.names: list[str] = []

    def process_message(self, msg: Any) -> None:
        """Record a site, after the handlers inside of this one."""
        if msg["type"] == "param" and msg["value"] is None:
            self.names.append(msg["name"])


def promote(tree: Any) -> Any:
    """The same tree with real arrays in double precision; call this function where that is enabled.

    Arrays of NumPy are copied: JAX 0.10 caches its conversion of an array to single precision,
    which a sampler has just made, and would use it here.
    """

    def promote_leaf(leaf: Any) -> Any:
        if isinstance(leaf, np.generic) and leaf.dtype.kind == "f":
            return float(leaf)
        if isinstance(leaf, np.ndarray):
            return np.array(leaf, np.float64 if leaf.dtype.kind == "f" else leaf.dtype)
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating):
            return jnp.asarray(leaf, jnp.float64)
        return leaf

    return jax.tree.map(promote_leaf, tree)


def forget_single_precision(model: Any) -> None:
    """Clear JAX's caches if they hold a model's data in single precision; call it in double.

    JAX 0.10 caches a sampler's conversion of a NumPy array to single precision as long as the
    sampler's program lives, and an index of 32 bits then meets one of 64. Only
    `jax.clear_caches` ends that, so it is called only if JAX has such a conversion of an
    array that the model closes over or reads from its module.
    """
    while hasattr(model, "fn"):  # handlers
        model = model.fn
    if jax.__version_info__ >= (0, 11) or not isinstance(model, FunctionType):
        return
    outside = inspect.getclosurevars(model)
    read = (*outside.nonlocals.values(), *outside.globals.values())
    if any(isinstance(value, np.ndarray) and _is_kept_in_single(value) for value in read):
        jax.clear_caches()


def _is_kept_in_single(array: np.ndarray) -> bool:
    """Whether a traced function that reads the array gets fewer bits than the array has."""
    if array.dtype.kind not in "fiu" or array.dtype.itemsize < 8:
        return False
    [traced] = jax.make_jaxpr(lambda: jax.lax.add(array, array))().out_avals
    return traced.dtype.itemsize < array.dtype.itemsize


def run_at(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Trace:
    r"""The sites of one run at given values, which may lie outside the support.

    NumPyro's own checks would raise or warn outside of traced code and be silent within; here a
    density is $-\infty$ or NaN in both.
    """
    with validation_enabled(False):
        return handlers.trace(function).get_trace(*args, **kwargs)


def run_once(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], seed: int
) -> tuple[Trace, list[str]]:
    """The sites of one run at a point of the support, and the names of parameters without values.

    Latent values need not come from the prior, which may be improper.
    """
    started = handlers.substitute(handlers.seed(function, seed), substitute_fn=init_to_uniform())
    unset = UnsetParameters(started)
    return handlers.trace(unset).get_trace(*args, **kwargs), unset.names


def is_latent(site: Site) -> bool:
    """Whether a site is a random variable without an observed value."""
    return site["type"] == "sample" and not site["is_observed"]


def is_random(site: Site) -> bool:
    """Whether a site has a density: a latent or observed variable, or a factor."""
    return site["type"] == "sample"


def is_observed(site: Site) -> bool:
    """Whether a site is an observed variable or a factor."""
    return is_random(site) and not is_latent(site)


def log_prob_of(site: Site) -> Any:
    """The log density of a site's value, with the scale that handlers gave it."""
    with validation_enabled(False):
        log_prob = jnp.sum(site["fn"].log_prob(site["value"]))
    return log_prob if site["scale"] is None else site["scale"] * log_prob


def check_sites(what: str, sites: Trace, advice: str) -> None:
    """Raise if a model or guide has discrete variables or subsampled plates."""
    for name, site in sites.items():
        if is_latent(site) and site["fn"].support.is_discrete:
            raise ValueError(
                f"{name} of {what} is discrete ({type(site['fn']).__name__}), and there is no "
                f"density of reals for it. {advice}"
            )
        if site["type"] == "plate":
            size, subsample_size = site["args"]
            if subsample_size is not None and subsample_size != size:
                raise ValueError(
                    f"plate {name} of {what} takes {subsample_size} of {size} at random: the log "
                    "joint would change with every call. Leave out subsample_size (use "
                    "all data) for the posterior that is measured; a guide that was trained with "
                    "subsamples can be measured against it."
                )


def same_supports(first: Trace, second: Trace, names: tuple[str, ...]) -> bool:
    """Whether the variables have the same supports in two runs, so that none depends on another."""
    for name in names:
        bounds = [jax.tree.leaves(sites[name]["fn"].support) for sites in (first, second)]
        if not all(np.array_equal(*pair) for pair in zip(*bounds, strict=True)):
            return False
    return True


def words_for(support: Any) -> str:
    """A constraint in words, such as `real`, `positive`, `(0, 1)`."""
    support = getattr(support, "base_constraint", support)
    name = type(support).__name__.strip("_")
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
    low, high = (_bound(support, bound) for bound in ("lower_bound", "upper_bound"))
    if words == "positive" or not (low or high):
        return words
    if not high:
        return f"above {low}"
    return f"({low}, {high})" if low else f"below {high}"


def _bound(support: Any, name: str) -> str:
    bound = getattr(support, name, None)
    if bound is None:
        return ""
    return f"{float(bound):g}" if np.ndim(bound) == 0 else "several numbers"


def named(parts: Mapping[str, Any]) -> Callable[[Site], Any]:
    """A substitution of latent sites by name."""
    return lambda site: parts.get(site["name"]) if is_latent(site) else None
