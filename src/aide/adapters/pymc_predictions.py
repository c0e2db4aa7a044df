"""What a PyMC model says beyond its free variables, as PyTensor graphs."""

from typing import Any

import numpy as np
from pymc import Model, logcdf
from pymc.distributions.moments import mean
from pymc.exceptions import UndefinedMomentException
from pytensor import tensor
from pytensor.tensor.random.basic import NormalRV


def predictable(model: Model) -> list[str]:
    """Names of the deterministic and observed variables."""
    return [one.name for one in (*model.deterministics, *model.observed_RVs)]


def graph_of(model: Model, name: str, threshold: float | None) -> Any:
    """A deterministic value, or the mean of a distribution; with a threshold, its probability."""
    variable: Any = model[name]
    is_random = variable in model.observed_RVs
    if threshold is None and not is_random:
        return variable
    if threshold is not None and not is_random:
        return (variable <= threshold).astype("float64")
    try:
        return mean(variable) if threshold is None else _share_below(variable, threshold)
    except (NotImplementedError, UndefinedMomentException) as error:
        raise ValueError(cannot(name, threshold, error)) from None


def _share_below(variable: Any, threshold: float) -> Any:
    """Of every element, the probability to be at or below the threshold."""
    op: Any = variable.owner.op
    if isinstance(op, NormalRV):  # PyMC's log probability has an operation that JAX lacks
        parameters: Any = op.dist_params(variable.owner)
        location, scale = parameters
        erfc: Any = tensor.erfc
        return 0.5 * erfc((location - threshold) / (scale * np.sqrt(2)))
    log_share: Any = logcdf(variable, np.float64(threshold), warn_rvs=False)
    return log_share.exp()


def cannot(name: str, threshold: float | None, error: Exception) -> str:
    """Why a variable cannot be predicted, and what to do."""
    what = "mean" if threshold is None else "distribution function"
    return (
        f"{name}: there is no {what} of its distribution in PyMC that JAX can compute ({error}). "
        "Write a function of the posterior's variables instead."
    )
