"""Sequential Monte Carlo: weighted moves, resampling with conditional twins, the algorithm."""

from aide.smc.moves import (
    AbstractMove,
    Composition,
    KernelMove,
    Rejuvenate,
    Reweight,
    WeightedMove,
)
from aide.smc.policy import EssBelow, EveryStep, Never
from aide.smc.resampling import Multinomial, Residual, Stratified, Systematic
from aide.smc.smc import Smc
from aide.smc.steps import AbstractMoveAt, Constant, Steps, stacked

__all__ = [
    "AbstractMove",
    "AbstractMoveAt",
    "Composition",
    "Constant",
    "EssBelow",
    "EveryStep",
    "KernelMove",
    "Multinomial",
    "Never",
    "Rejuvenate",
    "Residual",
    "Reweight",
    "Smc",
    "Steps",
    "Stratified",
    "Systematic",
    "WeightedMove",
    "stacked",
]
