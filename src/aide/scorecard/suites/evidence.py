"""Log evidence that published samplers report, on data that come with this package.

`sonar` is listed with its published number, but its data do not come with this package.
"""

from importlib import resources
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from aide.adapters.numpyro.posterior import posterior
from aide.scorecard.suites.suite import PublishedCase

EVIDENCE = "evidence"
"""The word that stands for this suite where a folder is expected."""
SOURCE = "long SMC run; Vargas, Padhy, Blessing & Nüsken (2024)"
PUBLISHED = {"ionosphere": (-111.63, 0.17), "sonar": (-108.37, 0.07)}
"""Log evidence with its error, by the name of the data."""


def standard_logistic(labels: np.ndarray, design: np.ndarray) -> None:
    """Logistic regression; every weight, that of the intercept too, is N(0, 1)."""
    prior = dist.Normal(0.0, 1.0).expand([design.shape[1]]).to_event(1)
    w: Any = numpyro.sample("w", prior)
    numpyro.sample("labels", dist.Bernoulli(logits=design @ w), obs=labels)


def design_of(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return labels, and features with mean 0 and sd 1 behind an intercept."""
    x, labels = table[:, :-1], table[:, -1]
    scale = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return labels, np.insert(x, 0, 1.0, axis=1)


def file_of(name: str) -> Any:
    """Return where the data are, if they come with this package."""
    return resources.files("aide").joinpath(f"data/{name}.csv")


class EvidenceSuite:
    """Logistic regressions whose log evidence is published."""

    title = "published log evidence"

    def names(self) -> list[str]:
        """Return the names of the data."""
        return list(PUBLISHED)

    def refusal(self, name: str) -> str:
        """Return why there is no row: data that do not come with this package."""
        if file_of(name).is_file():
            return ""
        value, error = PUBLISHED[name]
        return f"The {name} data do not come with this package (published: {value} ± {error})."

    def load(self, name: str) -> PublishedCase:
        """Return a regression with its published log evidence."""
        with file_of(name).open() as lines:
            table = np.loadtxt(lines, delimiter=",", skiprows=1)
        post = posterior(standard_logistic, *design_of(table))
        return PublishedCase(post, SOURCE, log_evidence=PUBLISHED[name])
