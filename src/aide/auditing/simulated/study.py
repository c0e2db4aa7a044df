r"""Data simulated from the model: an exact posterior sample is free, no gold standard is needed.

Grosse, Ancha & Roy (2016), *Measuring the reliability of MCMC inference with bidirectional Monte
Carlo*.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import ArrayLike

from aide._core.algorithm import InferenceAlgorithm, describe, log_z_of
from aide._core.random import as_key
from aide._core.types import Key, Value
from aide._core.validate import check_size
from aide.auditing.simulated.result import Simulated
from aide.auditing.simulated.runs import Pieces, SimulatedStudy, first_data_set, run_study
from aide.engine.outputs import check_algorithm
from aide.engine.programs.map_runs import in_double
from aide.engine.programs.tracing import one_call


@one_call()
def audit_simulated(
    key: Key | int,
    sample_joint: Callable[[Key], tuple[Value, Value]],
    log_joint: Callable[[Value, Value], ArrayLike],
    algorithm_for: Callable[[Value], InferenceAlgorithm],
    *,
    num_datasets: int = 500,
    num_meta: int = 1,
) -> Simulated:
    r"""How far an algorithm is from the *exact* posterior, on data simulated from the model.

    For each data set, $(x, y) \sim p$ and $x' , \xi'$ from the algorithm for $y$:

    $$E\big[\log\tfrac{p(x, y)}{\hat\xi(x)} - \log\tfrac{p(x', y)}{\hat\xi(x')}\big]
      \ge E_y\big[KL(p(\cdot|y) \| q(\cdot; y)) + KL(q(\cdot; y) \| p(\cdot|y))\big],$$

    with equality for a tractable algorithm; $\hat\xi$ averages M traces, at $x'$ the algorithm's
    own among them. What holds on simulated data holds on real data as far as those resemble it.

    Args:
        key: A JAX key, or an integer seed.
        sample_joint: `sample_joint(key) -> (x, y)`: parameters from the prior, data given them.
        log_joint: `log_joint(x, y)`, the density of that; constants may be missing.
        algorithm_for: `algorithm_for(y)`: the algorithm for one data set. Written with `jax.numpy`
            it is compiled once for all data sets; otherwise they are run one by one, which takes
            far longer, and the result says so.
        num_datasets: Number of data sets.
        num_meta: Meta-inference runs per output, M.
    """
    check_size("num_datasets", num_datasets, 2)
    check_size("num_meta", num_meta)
    key = as_key(key)
    study = SimulatedStudy(sample_joint, log_joint, algorithm_for, int(num_meta))
    _, y = first_data_set(study, key)
    algorithm = in_double(algorithm_for, y)
    check_algorithm("algorithm_for(y)", algorithm)
    name, log_z = describe(algorithm), log_z_of(algorithm)
    pieces, why_slow = run_study(study, key, int(num_datasets))
    _refuse_broken(pieces)
    return Simulated(pieces, log_z, name, why_slow)


def _refuse_broken(pieces: Pieces) -> None:
    own = pieces.own_log_xi[:, 0]
    checks = (
        (
            "log_joint",
            pieces.exact_log_joint,
            True,
            "at an exact draw: sample_joint can produce "
            "what log_joint calls impossible, so they describe different models",
        ),
        ("log_joint", pieces.own_log_joint, False, "at an output of the algorithm"),
        ("log_xi of regenerate", pieces.exact_log_xi, False, "at an exact draw"),
        ("log_xi of simulate", own, True, "at the algorithm's own output"),
        ("log_xi of regenerate", pieces.own_log_xi, False, "at the algorithm's own output"),
    )
    for name, values, is_finite, where in checks:
        wrong = np.isnan(values) | (values == np.inf)
        wrong = wrong | ((values == -np.inf) & is_finite)
        if wrong.any():
            first = tuple(np.argwhere(wrong)[0])
            raise ValueError(
                f"{name} is {values[first]} for {int(wrong.sum())} of {wrong.size} values, first "
                f"in data set {first[0]}, {where}. A log density may be -inf outside its support, "
                "never nan."
            )
