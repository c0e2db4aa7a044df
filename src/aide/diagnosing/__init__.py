"""Diagnostics of the steps of an algorithm: acceptance, weights, ancestors, jumps, evidence."""

from aide._core.versions import ObservedSteps
from aide.diagnosing.diagnose import Diagnosis
from aide.diagnosing.steps import StepDiagnosis

__all__ = [
    "Diagnosis",
    "ObservedSteps",
    "StepDiagnosis",
]
