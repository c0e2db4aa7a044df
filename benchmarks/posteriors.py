"""Five posteriors of posteriordb with the models of the scorecard, and two variants."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from aide.scorecard.models import MODELS, Model
from aide.scorecard.models.model import flat


def garch_dependent(y: Any, first_sd: float) -> None:
    """GARCH(1, 1) with beta1 itself, whose support depends on another variable."""
    mu = flat("mu")
    alpha0 = flat("alpha0", constraints.positive)
    alpha1 = numpyro.sample("alpha1", dist.Uniform(0.0, 1.0))
    beta1 = flat("beta1", constraints.interval(0.0, 1.0 - alpha1))

    def step(variance: Any, last: Any) -> tuple[Any, Any]:
        following = alpha0 + alpha1 * (last - mu) ** 2 + beta1 * variance
        return following, following

    first = jnp.asarray(first_sd, float) ** 2
    _, later = jax.lax.scan(step, first, jnp.asarray(y)[:-1])
    variances = jnp.concatenate([first[None], later])
    numpyro.sample("y", dist.Normal(mu, jnp.sqrt(variances)), obs=y)


POSTERIORS = {
    "eight_schools-eight_schools_noncentered": MODELS["eight_schools_noncentered"],
    "kidiq-kidscore_momhsiq": MODELS["kidscore_momhsiq"],
    "garch-garch11": MODELS["garch11"],
    "arK-arK": MODELS["arK"],
    "low_dim_gauss_mix-low_dim_gauss_mix": MODELS["low_dim_gauss_mix"],
}
"""By their names in the database."""
DEPENDENT = Model(garch_dependent, MODELS["garch11"].arguments)
"""garch with a support that automatic guides do not take."""
CENTRED = MODELS["eight_schools_centered"]
"""Eight schools in coordinates with a funnel; the draws are those of the other form."""
