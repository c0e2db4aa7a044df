"""An independent check of a reference: a long run of NumPyro's NUTS, and every mean and sd."""

import time
from typing import Any

import jax
import numpy as np
from numpyro.infer import MCMC, NUTS

from aide._core.chains import mean_variance, split_rhat
from aide._core.types import Key
from aide.adapters.numpyro.posterior import NumpyroPosterior
from aide.comparing.compare_draws import compare_draws
from aide.scorecard.moments import MeanAndSd
from aide.scorecard.references import coordinates

NUM_CHAINS, NUM_DRAWS, NUM_WARMUP = 4, 5000, 1000
"""Chains, and draws and discarded draws of each."""
ACCEPTANCE = 0.9
"""Acceptance rate at which NUTS adapts its step size: careful steps."""
MOST_Z = 4.0
"""Standard errors by which no mean and no sd may differ."""


def long_run(key: Key, post: NumpyroPosterior) -> tuple[dict[str, np.ndarray], int]:
    """Run NUTS; return draws (chain, draw, ...) by name and the number of divergences."""
    with jax.enable_x64(True):
        kernel = NUTS(post.model, target_accept_prob=ACCEPTANCE)
        mcmc = MCMC(
            kernel,
            num_warmup=NUM_WARMUP,
            num_samples=NUM_DRAWS,
            num_chains=NUM_CHAINS,
            chain_method="sequential",
            progress_bar=False,
        )
        mcmc.run(key, *post.args, **post.kwargs)
        found = mcmc.get_samples(group_by_chain=True)
        draws = {name: np.asarray(found[name]) for name in post.names}
        return draws, int(np.sum(mcmc.get_extra_fields()["diverging"]))


def compare_with_nuts(
    key: Key, post: NumpyroPosterior, reference: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Compare a reference with a long run of NUTS.

    Args:
        key: Of the run.
        post: The posterior.
        reference: Draws (list, draw, ...) by name, on the scale of the model.

    Returns:
        The largest z of all means and sds, with its coordinate, whether `aide.compare_draws` finds
        the sets different, R-hat, effective size and divergences of the run, and its seconds.
    """
    begun = time.perf_counter()
    draws, num_divergent = long_run(key, post)
    seconds = time.perf_counter() - begun
    ours, theirs = coordinates(reference), coordinates(draws)
    z = {one: MeanAndSd.of(ours[one]).largest_z(MeanAndSd.of(theirs[one])) for one in ours}
    worst = max(z, key=lambda one: z[one])
    flat = [post.flatten(each) for each in (reference, draws)]
    difference = compare_draws(*flat, names=("reference", "NUTS"), has_chains=True)
    effective = [mean_variance(list(each)).effective for each in theirs.values()]
    return {
        "num_chains": NUM_CHAINS,
        "num_draws": NUM_CHAINS * NUM_DRAWS,
        "num_divergent": num_divergent,
        "r_hat": max(split_rhat(list(each)) for each in theirs.values()),
        "effective": min(effective),
        "largest_z": z[worst],
        "worst": worst,
        "num_moments": 2 * len(z),
        "agrees": z[worst] < MOST_Z and not difference.is_different,
        "is_different": difference.is_different,
        "compare_draws": difference.headline,
        "seconds": seconds,
    }
