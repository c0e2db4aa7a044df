"""AIDE: how accurate is your probabilistic inference, on this data set, in nats?"""

from aide import problems
from aide._core.algorithm import Draw, InferenceAlgorithm
from aide._version import __version__ as __version__
from aide.algorithms.annealed import Tempered, ais, tempered_smc
from aide.algorithms.forward_reverse import ForwardReverse
from aide.algorithms.importance import sir
from aide.algorithms.mcmc import mcmc
from aide.algorithms.particle_filter import ParticleFilter
from aide.algorithms.python import PythonAlgorithm
from aide.algorithms.rejection import RejectionSampler
from aide.algorithms.state_space import Proposal, StateSpaceModel
from aide.algorithms.tractable import Amortized, Tractable
from aide.auditing.audit import audit
from aide.auditing.audit_result import Audit
from aide.auditing.simulated.result import Simulated
from aide.auditing.simulated.study import simulated
from aide.auditing.starts import with_start
from aide.checking.algorithm.check import check
from aide.checking.algorithm.report import CheckReport
from aide.checking.kernel.check import check_kernel
from aide.checking.kernel.result import KernelCheck
from aide.convergence.convergence import Convergence, convergence
from aide.draws.draw import draw
from aide.draws.draws import Draws, concatenate
from aide.draws.storage.files import load_draws, save_draws
from aide.estimation.estimate import estimate
from aide.estimation.summary import Estimate, summarise, total_variation_bound
from aide.estimation.yardsticks import Comparison, compare_log_evidence, compare_probe
from aide.kernels.entries import OnEntry
from aide.kernels.finite import FiniteNoise
from aide.kernels.gibbs import GibbsBlock, GibbsSites
from aide.kernels.hamiltonian import Hmc, mala
from aide.kernels.kernel import AbstractKernel, Cycle, Kernel, Repeat
from aide.kernels.langevin import Sgld, Ula
from aide.kernels.metropolis import AbstractMetropolis, Independence, RandomWalk
from aide.learned.fit import ReverseFit
from aide.learned.learn import learn_reverse
from aide.learned.refine import refine
from aide.learned.refined import RefinedSmc
from aide.learned.storage import load_reverse
from aide.learned.tighten import tighten
from aide.smc.moves import Chain, Constant, KernelMove, Mcmc, Reweight, Steps, WeightedMove, stacked
from aide.smc.policy import EssBelow, EveryStep, Never
from aide.smc.resampling import Multinomial, Residual, Stratified, Systematic
from aide.smc.smc import Smc

__all__ = [
    "AbstractKernel",
    "AbstractMetropolis",
    "Amortized",
    "Audit",
    "Chain",
    "CheckReport",
    "Comparison",
    "Constant",
    "Convergence",
    "Cycle",
    "Draw",
    "Draws",
    "EssBelow",
    "Estimate",
    "EveryStep",
    "FiniteNoise",
    "ForwardReverse",
    "GibbsBlock",
    "GibbsSites",
    "Hmc",
    "Independence",
    "InferenceAlgorithm",
    "Kernel",
    "KernelCheck",
    "KernelMove",
    "Mcmc",
    "Multinomial",
    "Never",
    "OnEntry",
    "ParticleFilter",
    "Proposal",
    "PythonAlgorithm",
    "RandomWalk",
    "RefinedSmc",
    "RejectionSampler",
    "Repeat",
    "Residual",
    "ReverseFit",
    "Reweight",
    "Sgld",
    "Simulated",
    "Smc",
    "StateSpaceModel",
    "Steps",
    "Stratified",
    "Systematic",
    "Tempered",
    "Tractable",
    "Ula",
    "WeightedMove",
    "ais",
    "audit",
    "check",
    "check_kernel",
    "compare_log_evidence",
    "compare_probe",
    "concatenate",
    "convergence",
    "draw",
    "estimate",
    "learn_reverse",
    "load_draws",
    "load_reverse",
    "mala",
    "mcmc",
    "problems",
    "refine",
    "save_draws",
    "simulated",
    "sir",
    "stacked",
    "summarise",
    "tempered_smc",
    "tighten",
    "total_variation_bound",
    "with_start",
]
