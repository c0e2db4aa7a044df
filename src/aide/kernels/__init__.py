"""MCMC kernels and their reversals."""

from aide.kernels.coordinates import InCoordinates, Metric, ScaledCoordinates
from aide.kernels.entries import OnEntry
from aide.kernels.gibbs import GibbsBlock, GibbsSites
from aide.kernels.hamiltonian import Hmc, Mala
from aide.kernels.kernel import (
    AbstractInvariantKernel,
    AbstractKernel,
    Cycle,
    InvariantKernel,
    Kernel,
    Repeat,
)
from aide.kernels.langevin import Sgld, Ula, UnderdampedLangevin
from aide.kernels.metropolis import AbstractMetropolis, FiniteNoise, Independence, RandomWalk
from aide.kernels.nuts import Nuts
from aide.kernels.schedule import KernelSchedule, stack_kernels

__all__ = [
    "AbstractInvariantKernel",
    "AbstractKernel",
    "AbstractMetropolis",
    "Cycle",
    "FiniteNoise",
    "GibbsBlock",
    "GibbsSites",
    "Hmc",
    "InCoordinates",
    "Independence",
    "InvariantKernel",
    "Kernel",
    "KernelSchedule",
    "Mala",
    "Metric",
    "Nuts",
    "OnEntry",
    "RandomWalk",
    "Repeat",
    "ScaledCoordinates",
    "Sgld",
    "Ula",
    "UnderdampedLangevin",
    "stack_kernels",
]
