"""Errors while JAX traces a user's code: is the code not traceable, or just wrong?"""

import jax

_REFUSALS = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
_NAMES = ("Tracer", "Traced<", "key<")


def is_refusal(error: BaseException) -> bool:
    """Whether code failed because JAX traces it: NumPy or Python handed a tracer or a JAX key.

    Anything else (a misspelt name, wrong arguments, shapes that do not fit) is the code's own
    error, and would fail outside of tracing too.
    """
    if isinstance(error, _REFUSALS):
        return True
    if isinstance(error, AttributeError):
        return isinstance(getattr(error, "obj", None), jax.Array | jax.core.Tracer)
    first_line = (str(error).splitlines() or [""])[0]
    fits = "does not accept dtypes" in first_line or "incompatible shapes" in first_line
    return isinstance(error, TypeError) and not fits and any(n in first_line for n in _NAMES)


def check_concrete(what: str, *trees: object) -> None:
    """Raise if anything in the trees is traced: the call stands inside `jax.jit`, `grad`, `vmap`.

    Every value computed inside of `jit` is traced, so that a constant shows it too.
    """
    leaves = [*jax.tree.leaves(trees), jax.numpy.zeros(())]
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        raise TypeError(
            f"{what} cannot be called inside jax.jit, jax.grad or jax.vmap: it compiles, runs and "
            "checks its programs itself. Call it outside of them."
        )
