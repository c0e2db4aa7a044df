"""NumPyro: models, guides, `SVI` results and `MCMC` runs.

post = aide.numpyro.posterior(model, X, y)      # the arguments of mcmc.run or svi.run
gold = post.from_mcmc(mcmc)
target = post.guide(guide, svi_result.params)
"""

from aide.adapters.numpyro.posterior import NumpyroPosterior, posterior

__all__ = [
    "NumpyroPosterior",
    "posterior",
]
