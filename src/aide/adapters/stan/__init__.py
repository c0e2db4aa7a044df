"""Stan: models of BridgeStan, and programs that the httpstan wheel compiles.

post = aide.stan.posterior(bridgestan.StanModel("model.stan", "data.json"))
gold = post.from_draws(fit.stan_variables())       # CmdStanPy; from_arviz takes all others
"""

from aide.adapters.stan.compiled import HttpstanModel, compile_program
from aide.adapters.stan.model import StanModel
from aide.adapters.stan.posterior import StanPosterior, posterior

__all__ = [
    "HttpstanModel",
    "StanModel",
    "StanPosterior",
    "compile_program",
    "posterior",
]
