"""Dirichlet process mixtures: clusters as slots, sweeps, the weighted move, the model."""

from aide.problems.dpmm.model import DirichletMixture

__all__ = ["DirichletMixture"]
