"""AIDE: how accurate is your probabilistic inference, on this data set, in nats?

The names here are those most people need; the folders are namespaces for the rest.
"""

from types import ModuleType

from aide import (
    adapters,
    algorithms,
    auditing,
    calibrating,
    checking,
    comparing,
    convergence,
    diagnosing,
    engine,
    estimation,
    gold_standards,
    kernels,
    learned,
    problems,
    reporting,
    smc,
    tuning,
)
from aide._core.algorithm import Draw, InferenceAlgorithm
from aide._core.keywords import former_name
from aide._version import __version__ as __version__
from aide.algorithms.annealed import ais, tempered_smc
from aide.algorithms.annealed_langevin import annealed_langevin
from aide.algorithms.existing_code import ForwardReverse, PythonAlgorithm
from aide.algorithms.importance import RejectionSampler, sir
from aide.algorithms.mcmc import mcmc
from aide.algorithms.numpy_filter import numpy_filter
from aide.algorithms.particle_filter import ParticleFilter, Proposal, StateSpaceModel
from aide.algorithms.reference import ReferenceDraws
from aide.algorithms.tractable import Amortized, Tractable
from aide.auditing.audit import audit
from aide.auditing.simulated import audit_simulated
from aide.calibrating.check import check_calibration
from aide.checking.algorithm.check import check
from aide.checking.kernel.check import check_kernel
from aide.comparing.compare import compare
from aide.comparing.compare_draws import compare_draws
from aide.convergence.convergence import measure_convergence
from aide.diagnosing.diagnose import diagnose
from aide.engine.draw import draw
from aide.engine.programs.programs import keep_programs
from aide.estimation.estimate import estimate, summarise
from aide.estimation.yardsticks import compare_log_evidence, compare_probe
from aide.gold_standards.make import gold_standard
from aide.learned.refine import refine
from aide.learned.tighten import tighten
from aide.tuning.sweep import sweep
from aide.tuning.tune import tune

_FORMER = {"draws": "aide.engine", "running": "aide.engine"}
"""Former names of this package, with the names that took their place."""


def __getattr__(name: str) -> ModuleType:
    """Adapters of other libraries (`aide.numpyro`), loaded at their first use."""
    if name in adapters.EXTRAS:
        return adapters.load_adapter(name)
    raise former_name(__name__, name, _FORMER)


__all__ = [
    "Amortized",
    "Draw",
    "ForwardReverse",
    "InferenceAlgorithm",
    "ParticleFilter",
    "Proposal",
    "PythonAlgorithm",
    "ReferenceDraws",
    "RejectionSampler",
    "StateSpaceModel",
    "Tractable",
    "adapters",
    "ais",
    "algorithms",
    "annealed_langevin",
    "audit",
    "audit_simulated",
    "auditing",
    "calibrating",
    "check",
    "check_calibration",
    "check_kernel",
    "checking",
    "compare",
    "compare_draws",
    "compare_log_evidence",
    "compare_probe",
    "comparing",
    "convergence",
    "diagnose",
    "diagnosing",
    "draw",
    "engine",
    "estimate",
    "estimation",
    "gold_standard",
    "gold_standards",
    "keep_programs",
    "kernels",
    "learned",
    "mcmc",
    "measure_convergence",
    "numpy_filter",
    "problems",
    "refine",
    "reporting",
    "sir",
    "smc",
    "summarise",
    "sweep",
    "tempered_smc",
    "tighten",
    "tune",
    "tuning",
]
