"""Models with exact answers, for tests, demonstrations and calibration of your own setup."""

from aide.problems.distributions import Categorical, Normal
from aide.problems.dpmm import DirichletMixture
from aide.problems.hidden_markov import HiddenMarkovModel
from aide.problems.ising import IsingModel
from aide.problems.linear_gaussian import LinearRegression, LocalLevelModel, nile

__all__ = [
    "Categorical",
    "DirichletMixture",
    "HiddenMarkovModel",
    "IsingModel",
    "LinearRegression",
    "LocalLevelModel",
    "Normal",
    "nile",
]
