"""Linear regressions of posteriordb: an outcome, columns of a design, priors flat or weak."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from aide.scorecard.models.model import Data, Model, column, flat

Columns = Callable[[Data], tuple[np.ndarray, list[np.ndarray]]]
"""The outcome and the columns of the design beside the intercept."""


def regression(outcome: np.ndarray, design: np.ndarray) -> None:
    """Coefficients and residual sd have flat priors."""
    beta: Any = flat("beta", constraints.real_vector, (design.shape[1],))
    sigma = flat("sigma", constraints.positive)
    numpyro.sample("outcome", dist.Normal(design @ beta, sigma), obs=outcome)


def regression_with_scale(outcome: np.ndarray, design: np.ndarray) -> None:
    """Flat priors of coefficients; the residual sd is half-Cauchy with scale 2.5."""
    beta: Any = flat("beta", constraints.real_vector, (design.shape[1],))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("outcome", dist.Normal(design @ beta, sigma), obs=outcome)


def normal_regression(outcome: np.ndarray, design: np.ndarray) -> None:
    """Coefficients N(0, 10²), the residual sd half-normal with scale 10."""
    beta: Any = numpyro.sample("beta", dist.Normal(0.0, 10.0).expand([design.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(10.0))
    numpyro.sample("outcome", dist.Normal(design @ beta, sigma), obs=outcome)


def line(x: np.ndarray, y: np.ndarray, slope_sd: float, centre: float, centre_sd: float) -> None:
    """A line with normal priors; the residual sd is flat."""
    alpha: Any = numpyro.sample("alpha", dist.Normal(centre, centre_sd))
    beta: Any = numpyro.sample("beta", dist.Normal(0.0, slope_sd))
    sigma = flat("sigma", constraints.positive)
    numpyro.sample("outcome", dist.Normal(alpha + beta * x, sigma), obs=y)


def houses(outcome: np.ndarray, floor: np.ndarray) -> None:
    """A line; the intercept and the slope are N(0, 10²), the residual sd half-normal, scale 1."""
    alpha: Any = numpyro.sample("alpha", dist.Normal(0.0, 10.0))
    beta: Any = numpyro.sample("beta", dist.Normal(0.0, 10.0))
    sigma = numpyro.sample("sigma_y", dist.HalfNormal(1.0))
    numpyro.sample("outcome", dist.Normal(alpha + beta * floor, sigma), obs=outcome)


def diamonds(outcome: np.ndarray, design: np.ndarray) -> None:
    """24 coefficients N(0, 1) of centred columns; Student priors of intercept and residual sd."""
    b: Any = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([design.shape[1]]).to_event(1))
    intercept: Any = numpyro.sample("Intercept", dist.StudentT(3.0, 8.0, 10.0))
    sigma = flat("sigma", constraints.positive)
    numpyro.factor("prior of sigma", dist.StudentT(3.0, 0.0, 10.0).log_prob(sigma))
    numpyro.sample("outcome", dist.Normal(intercept + design @ b, sigma), obs=outcome)


def design_of(columns: Columns) -> Callable[[Data], tuple[np.ndarray, np.ndarray]]:
    """Return the function from data to outcome and design, with the intercept in front."""

    def arguments(data: Data) -> tuple[np.ndarray, np.ndarray]:
        outcome, parts = columns(data)
        return outcome, np.column_stack([np.ones(outcome.size), *parts])

    return arguments


def standard(values: np.ndarray, width: float = 1.0) -> np.ndarray:
    """Centre values and divide them by `width` standard deviations."""
    return (values - values.mean()) / (width * values.std(ddof=1))


def _earnings(name: str) -> Columns:
    def columns(data: Data) -> tuple[np.ndarray, list[np.ndarray]]:
        earn, height = column(data, "earn"), column(data, "height")
        male = column(data, "male") if "male" in data else np.zeros(height.size)
        parts = {
            "height": [height],
            "height_male": [height, male],
            "interaction": [height, male, height * male],
            "interaction_z": [standard(height), male, standard(height) * male],
            "logheight_male": [np.log(height), male],
        }
        return earn, parts[name]

    return columns


def _transformed(columns: Columns, function: Callable[[np.ndarray], np.ndarray]) -> Columns:
    def with_outcome(data: Data) -> tuple[np.ndarray, list[np.ndarray]]:
        outcome, parts = columns(data)
        return function(outcome), parts

    return with_outcome


def _kids(name: str) -> Columns:
    def columns(data: Data) -> tuple[np.ndarray, list[np.ndarray]]:
        school = column(data, "mom_hs") if "mom_hs" in data else np.zeros(0)
        test = column(data, "mom_iq") if "mom_iq" in data else np.zeros(0)
        if name == "work":
            work = column(data, "mom_work")
            return column(data, "kid_score"), [(work == level).astype(float) for level in (2, 3, 4)]
        centres = {
            "interaction": (school, test),
            "interaction_c": (school - school.mean(), test - test.mean()),
            "interaction_c2": (school - 0.5, test - 100.0),
            "interaction_z": (standard(school, 2.0), standard(test, 2.0)),
        }
        if name in centres:
            one, other = centres[name]
            return column(data, "kid_score"), [one, other, one * other]
        parts = {"momhs": [school], "momiq": [test], "momhsiq": [school, test]}
        return column(data, "kid_score"), parts[name]

    return columns


def _mesquite(*names: str) -> Columns:
    def columns(data: Data) -> tuple[np.ndarray, list[np.ndarray]]:
        given = {name: column(data, name) for name in data if name != "N"}
        logs = {f"log {name}": np.log(x) for name, x in given.items() if np.all(x > 0)}
        one, other = logs["log diam1"], logs["log diam2"]
        made = {
            "volume": one + other + logs["log canopy_height"],
            "area": one + other,
            "shape": one - other,
        }
        known = {**given, **logs, **made}
        return known[names[0]], [known[name] for name in names[1:]]

    return columns


def _elections(data: Data) -> tuple[np.ndarray, list[np.ndarray]]:
    age = column(data, "age_discrete")
    ages = [(age == level).astype(float) for level in (2, 3, 4)]
    one, two = ("real_ideo", "race_adj"), ("educ1", "gender", "income")
    parts = [*(column(data, n) for n in one), *ages, *(column(data, n) for n in two)]
    return column(data, "partyid7"), parts


def _centred(data: Data) -> tuple[np.ndarray, np.ndarray]:
    design = column(data, "X")[:, 1:]
    return column(data, "Y"), design - design.mean(axis=0)


def _line(data: Data) -> tuple[Any, ...]:
    numbers = (float(data[name]) for name in ("psbeta", "pmualpha", "psalpha"))
    return column(data, "x"), column(data, "y"), *numbers


def _flat(columns: Columns) -> Model:
    return Model(regression, design_of(columns))


def _scaled(columns: Columns) -> Model:
    return Model(regression_with_scale, design_of(columns))


_HEIGHTS = ("log total_height", "log density", "group")
_WIDTHS = ("diam1", "diam2", "canopy_height", "total_height", "density")

REGRESSIONS = {
    "earn_height": _flat(_earnings("height")),
    "log10earn_height": _flat(_transformed(_earnings("height"), np.log10)),
    "logearn_height": _flat(_transformed(_earnings("height"), np.log)),
    "logearn_height_male": _flat(_transformed(_earnings("height_male"), np.log)),
    "logearn_interaction": _flat(_transformed(_earnings("interaction"), np.log)),
    "logearn_interaction_z": _flat(_transformed(_earnings("interaction_z"), np.log)),
    "logearn_logheight_male": _flat(_transformed(_earnings("logheight_male"), np.log)),
    "kidscore_momhs": _scaled(_kids("momhs")),
    "kidscore_momiq": _scaled(_kids("momiq")),
    "kidscore_momhsiq": _scaled(_kids("momhsiq")),
    "kidscore_interaction": _scaled(_kids("interaction")),
    "kidscore_interaction_c": _flat(_kids("interaction_c")),
    "kidscore_interaction_c2": _flat(_kids("interaction_c2")),
    "kidscore_interaction_z": _flat(_kids("interaction_z")),
    "kidscore_mom_work": _flat(_kids("work")),
    "mesquite": _flat(_mesquite("weight", *_WIDTHS, "group")),
    "logmesquite": _flat(_mesquite("log weight", *(f"log {w}" for w in _WIDTHS), "group")),
    "logmesquite_logva": _flat(_mesquite("log weight", "volume", "area", "group")),
    "logmesquite_logvas": _flat(_mesquite("log weight", "volume", "area", "shape", *_HEIGHTS)),
    "logmesquite_logvash": _flat(
        _mesquite("log weight", "volume", "area", "shape", "log total_height", "group")
    ),
    "logmesquite_logvolume": _flat(_mesquite("log weight", "volume")),
    "nes": _flat(_elections),
    "blr": Model(normal_regression, lambda data: (column(data, "y"), column(data, "X"))),
    "kilpisjarvi": Model(line, _line),
    "sesame_one_pred_a": _flat(
        lambda data: (column(data, "watched"), [column(data, "encouraged")])
    ),
    "radon_pooled": Model(
        houses, lambda data: (column(data, "log_radon"), column(data, "floor_measure"))
    ),
    "diamonds": Model(diamonds, _centred),
}
"""By the name of the Stan program."""
