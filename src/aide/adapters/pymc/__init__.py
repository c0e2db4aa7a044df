"""PyMC: models, ADVI fits and traces.

post = aide.pymc.posterior(model)
gold = post.from_arviz(idata)        # of pm.sample or pm.sample_smc
target = post.guide(approx)          # of pm.fit
"""

from aide.adapters.pymc.posterior import PymcPosterior, posterior

__all__ = [
    "PymcPosterior",
    "posterior",
]
