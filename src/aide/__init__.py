"""AIDE: how accurate is your probabilistic inference, on this data set, in nats?"""

from aide import problems
from aide._algorithm import Draw, InferenceAlgorithm
from aide.algorithms.annealed import Tempered, ais, tempered_smc
from aide.algorithms.forward_reverse import ForwardReverse
from aide.algorithms.importance import sir
from aide.algorithms.mcmc import mcmc
from aide.algorithms.particle_filter import ParticleFilter
from aide.algorithms.python import PythonAlgorithm
from aide.algorithms.rejection import RejectionSampler
from aide.algorithms.state_space import Proposal, StateSpaceModel
from aide.algorithms.tractable import Amortized, Tractable
from aide.estimation.draw import draw
from aide.estimation.draws import Draws, concatenate
from aide.estimation.estimate import estimate
from aide.estimation.storage import load_draws, save_draws
from aide.estimation.summary import Estimate, total_variation_bound
from aide.estimation.yardsticks import Comparison, compare_log_evidence, compare_probe
from aide.kernels.gibbs import GibbsSites
from aide.kernels.hamiltonian import Hmc, mala
from aide.kernels.kernel import AbstractKernel, Cycle, Kernel, Repeat
from aide.kernels.metropolis import AbstractMetropolis, Independence, RandomWalk
from aide.smc.moves import Chain, Constant, Mcmc, Reweight, Steps, WeightedMove, stacked
from aide.smc.policy import EssBelow, EveryStep, Never
from aide.smc.resampling import Multinomial, Residual, Stratified, Systematic
from aide.smc.smc import Smc

__version__ = "0.1.0"
__all__ = [
    "AbstractKernel",
    "AbstractMetropolis",
    "Amortized",
    "Chain",
    "Comparison",
    "Constant",
    "Cycle",
    "Draw",
    "Draws",
    "EssBelow",
    "Estimate",
    "EveryStep",
    "ForwardReverse",
    "GibbsSites",
    "Hmc",
    "Independence",
    "InferenceAlgorithm",
    "Kernel",
    "Mcmc",
    "Multinomial",
    "Never",
    "ParticleFilter",
    "Proposal",
    "PythonAlgorithm",
    "RandomWalk",
    "RejectionSampler",
    "Repeat",
    "Residual",
    "Reweight",
    "Smc",
    "StateSpaceModel",
    "Steps",
    "Stratified",
    "Systematic",
    "Tempered",
    "Tractable",
    "WeightedMove",
    "ais",
    "compare_log_evidence",
    "compare_probe",
    "concatenate",
    "draw",
    "estimate",
    "load_draws",
    "mala",
    "mcmc",
    "problems",
    "save_draws",
    "sir",
    "stacked",
    "tempered_smc",
    "total_variation_bound",
]
