"""What the steps of an algorithm do: acceptance, weights, ancestors, jumps, evidence."""

from aide.diagnosing.diagnose import Diagnosis
from aide.diagnosing.steps import StepDiagnosis

__all__ = [
    "Diagnosis",
    "StepDiagnosis",
]
