"""`aide.check_calibration`: ranks and nats of a fit, on data simulated from the model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import ArrayLike

from aide._core.keywords import keywords
from aide._core.random import as_key
from aide._core.types import Key, Value
from aide._core.validate import check_positive, check_size
from aide.auditing.simulated_runs import first_pair
from aide.calibrating.ranks import normalised_ranks
from aide.calibrating.replicate import Replicated
from aide.calibrating.result import Calibration
from aide.calibrating.runs import CalibrationStudy, Fits, FitsBatches, run_fits
from aide.engine.programs.tracing import one_call
from aide.estimation.errors.variables import variables_in
from aide.estimation.interval import check_level

KEY_TIES = 6
"""Purpose of the key that breaks ties of ranks."""
LOG_JOINT = "log joint"
"""Name of the log joint as a function that is ranked."""


@keywords("aide.check_calibration")
@one_call()
def check_calibration(
    key: Key | int,
    sample_joint: Callable[[Key], tuple[Value, Any]],
    fit: Callable[[Key, Any], Any] | FitsBatches,
    *,
    log_joint: Callable[[Value, Any], ArrayLike] | None = None,
    functions: Mapping[str, Callable[[Any], Any]] | None = None,
    names: Sequence[str] | None = None,
    num_datasets: int = 200,
    num_draws: int = 100,
    num_meta: int = 1,
    has_chains: bool | None = None,
    tolerance: float | None = None,
    level: float = 0.95,
    label: str = "",
) -> Calibration:
    r"""Simulation-based calibration of a fit, beside its divergence on the same data sets.

    For each data set $(x, y) \sim p$, $x$ is ranked among the draws of the fit to $y$. If these
    are draws of $p(x \mid y)$, ranks of every function are uniform (Talts et al., 2018); bands
    of their distribution function hold together (see `aide.calibrating.band_of_ranks`). With
    `log_joint`, ranks of the log joint are tested too (Modrák et al., 2023), and algorithms are
    measured in nats as by `aide.audit_simulated`, on the same data sets.

    Args:
        key: A JAX key, or an integer seed.
        sample_joint: `sample_joint(key) -> (x, y)`: parameters from the prior, data given them;
            `post.sample_joint` of a NumPyro or PyMC posterior; or for calibration given the
            observed data `aide.calibrating.replicate(...)`.
        fit: `fit(key, y)` returns an algorithm for these data, or draws: `aide.ReferenceDraws`, or
            arrays in the structure of x with a leading axis (draw,) or (chain, draw). An amortised
            posterior with `sample_batch` (`aide.sbi.posterior`) fits all data sets in one call.
        log_joint: `log_joint(x, y)`, the log density of `sample_joint`, up to a constant;
            `post.log_joint_given` of the same posterior.
        functions: Functions of x by name, ranked besides the numbers of x.
        names: Names of the numbers of x, such as `post.layout.coordinates`.
        num_datasets: Number of data sets.
        num_draws: Outputs of an algorithm per data set; of draws, all that they are worth.
        num_meta: Meta-inference runs per output, M.
        has_chains: Whether the leading axes of draws are (chain, draw); by default only for a
            single array with three axes.
        tolerance: Nats on average over data sets that are good enough, for the verdict.
        level: Least probability with which a right fit stays within all bands.
        label: A name for the fit.

    Returns:
        Ranks with their tests, and the nats.

    Example:
        >>> def sample_joint(key):
        ...     key_x, key_y = jax.random.split(key)
        ...     x = jax.random.normal(key_x)
        ...     return x, x + jax.random.normal(key_y)
        ...
        >>> narrow = lambda key, y: aide.Tractable.of(Normal(0.5 * y, 0.3))
        >>> aide.check_calibration(0, sample_joint, narrow).verdict
        'failed'
    """
    check_size("num_datasets", num_datasets, 10)
    check_size("num_draws", num_draws, 2)
    check_size("num_meta", num_meta)
    check_level(level)
    if tolerance is not None:
        check_positive("tolerance", tolerance)
    key = as_key(key)
    first_pair(sample_joint, key)
    study = CalibrationStudy(
        *(sample_joint, log_joint, fit, int(num_draws), int(num_meta), has_chains, label)
    )
    fits = run_fits(study, key, int(num_datasets))
    truth, draws, known = _values(fits, functions, names)
    seed = np.asarray(jax.random.key_data(jax.random.fold_in(key, KEY_TIES))).astype(np.uint64)
    ranks = normalised_ranks(truth, draws, fits.sizes, np.random.default_rng(seed))
    about = "data replicated given the observation" if isinstance(sample_joint, Replicated) else ""
    return Calibration(
        *(ranks, known, fits.sizes, fits.given, fits.nats, label or fits.name, level),
        *(tolerance, about or "simulated data", fits.why_slow),
    )


def _values(
    fits: Fits, functions: Mapping[str, Callable[[Any], Any]] | None, names: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Values of all functions at true parameters and at draws, one column each, and their names."""
    shapes = [
        [leaf.shape[1:] for leaf in jax.tree.leaves(part)] for part in (fits.truth, fits.draws)
    ]
    same = jax.tree.structure(fits.truth) == jax.tree.structure(fits.draws)
    if not same or shapes[0] != shapes[1]:
        raise ValueError(
            "sample_joint and fit must give x in the same structure and shape, got "
            f"{jax.tree.structure(fits.truth)} {shapes[0]} from sample_joint and "
            f"{jax.tree.structure(fits.draws)} {shapes[1]} per draw from fit."
        )
    nums = len(fits.sizes), int(fits.sizes.sum())
    found = variables_in([fits.truth, fits.draws], nums, functions)
    known = [one.name for one in found]
    plain = [number for number, one in enumerate(found) if not one.is_function]
    if names is not None:
        if len(names) != len(plain):
            raise ValueError(
                f"names must hold one name for each of the {len(plain)} numbers of x, got "
                f"{len(names)}."
            )
        for number, name in zip(plain, names, strict=True):
            known[number] = name
    columns = [one.values for one in found]
    if fits.log_joint is not None:
        known.append(LOG_JOINT)
        columns.append(np.concatenate(fits.log_joint))
    table = np.stack([np.asarray(column, np.float64) for column in columns], axis=1)
    return table[: nums[0]], table[nums[0] :], tuple(known)
