"""Binary outcomes and counts of posteriordb: logistic and Poisson regressions, rates, captures."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from aide.scorecard.models.model import Data, Model, column, flat

Columns = Callable[[Data], list[np.ndarray]]
"""The columns of the design beside the intercept."""


def logistic_regression(outcome: np.ndarray, design: np.ndarray) -> None:
    """Intercept and coefficients have flat priors."""
    alpha = flat("alpha")
    beta: Any = flat("beta", constraints.real_vector, (design.shape[1],))
    numpyro.sample("outcome", dist.Bernoulli(logits=alpha + design @ beta), obs=outcome)


def logistic_line(outcome: np.ndarray, x: np.ndarray) -> None:
    """Intercept and slope, which have one name, have flat priors."""
    beta: Any = flat("beta", constraints.real_vector, (2,))
    numpyro.sample("outcome", dist.Bernoulli(logits=beta[0] + beta[1] * x), obs=outcome)


def binomial_curve(counts: np.ndarray, totals: np.ndarray, year: np.ndarray) -> None:
    """The logit of a rate is a parabola in time."""
    alpha, beta1, beta2 = (
        numpyro.sample(name, dist.Normal(0.0, 100.0)) for name in ("alpha", "beta1", "beta2")
    )
    logits = alpha + beta1 * year + beta2 * year**2
    numpyro.sample("counts", dist.Binomial(totals, logits=logits), obs=counts)


def poisson_curve(counts: np.ndarray, year: np.ndarray) -> None:
    """The log of a rate is a cubic in time."""
    alpha: Any = numpyro.sample("alpha", dist.Uniform(-20.0, 20.0))
    one, two, three = (numpyro.sample(f"beta{i}", dist.Uniform(-10.0, 10.0)) for i in (1, 2, 3))
    log_rate = alpha + one * year + two * year**2 + three * year**3
    numpyro.sample("counts", dist.Poisson(jnp.exp(log_rate)), obs=counts)


def rate(successes: np.ndarray, trials: np.ndarray) -> None:
    """One rate of all counts."""
    theta = numpyro.sample("theta", dist.Uniform(0.0, 1.0))
    numpyro.sample("k", dist.Binomial(trials, theta), obs=successes)


def rate_and_prior(successes: np.ndarray, trials: np.ndarray) -> None:
    """One rate, and another one that no count informs."""
    rate(successes, trials)
    numpyro.sample("thetaprior", dist.Uniform(0.0, 1.0))


def two_rates(successes: np.ndarray, trials: np.ndarray) -> None:
    """A rate for each of two counts."""
    for which in (0, 1):
        theta = numpyro.sample(f"theta{which + 1}", dist.Uniform(0.0, 1.0))
        counts = dist.Binomial(trials[which], theta)
        numpyro.sample(f"k{which + 1}", counts, obs=successes[which])


def dogs(y: np.ndarray, avoided: np.ndarray, shocked: np.ndarray) -> None:
    """Shocks of dogs: the logit is linear in the numbers of avoidances and shocks so far."""
    beta: Any = numpyro.sample("beta", dist.Normal(0.0, 100.0).expand([3]).to_event(1))
    logits = beta[0] + beta[1] * avoided + beta[2] * shocked
    numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)


def dogs_without_intercept(y: np.ndarray, avoided: np.ndarray, shocked: np.ndarray) -> None:
    """Avoidances lower the logit, and shocks raise it."""
    low, high = jnp.array([-100.0, 0.0]), jnp.array([0.0, 100.0])
    beta: Any = numpyro.sample("beta", dist.Uniform(low, high).to_event(1))
    logits = beta[0] * avoided + beta[1] * shocked
    numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)


def dogs_with_memory(y: np.ndarray, avoided: np.ndarray, shocked: np.ndarray) -> None:
    """The probability of a shock falls by the factor a after each shock, b after each avoidance."""
    a: Any = numpyro.sample("a", dist.Uniform(0.0, 1.0))
    b: Any = numpyro.sample("b", dist.Uniform(0.0, 1.0))
    is_shock = y == 1
    log_p = shocked[is_shock] * jnp.log(a) + avoided[is_shock] * jnp.log(b)
    log_q = shocked[~is_shock] * jnp.log(a) + avoided[~is_shock] * jnp.log(b)
    numpyro.factor("y", jnp.sum(log_p) + jnp.sum(jnp.log1p(-jnp.exp(log_q))))


def captures(caught: np.ndarray, per_occasion: bool) -> None:
    """Captures of a closed population, whose list is augmented by animals never caught.

    Args:
        caught: An animal per row, an occasion per column, 1 where it was caught.
        per_occasion: Whether each occasion has a probability of its own.
    """
    omega: Any = numpyro.sample("omega", dist.Uniform(0.0, 1.0))
    num, size = caught.shape
    shape = [size] if per_occasion else []
    p: Any = numpyro.sample("p", dist.Uniform(0.0, 1.0).expand(shape).to_event(len(shape)))
    p = jnp.broadcast_to(p, (size,))
    seen = caught[caught.sum(axis=1) > 0]
    successes = seen.sum(axis=0)
    log_seen = jnp.sum(successes * jnp.log(p) + (len(seen) - successes) * jnp.log1p(-p))
    log_unseen = jnp.logaddexp(
        jnp.log(omega) + jnp.sum(jnp.log1p(-p)), jnp.log1p(-jnp.asarray(omega))
    )
    total = len(seen) * jnp.log(omega) + log_seen + (num - len(seen)) * log_unseen
    numpyro.factor("caught", total)


def plates_of_seeds(
    counts: np.ndarray, totals: np.ndarray, design: np.ndarray, centred: bool
) -> None:
    """Germination of seeds: a logistic regression with a random effect of each plate."""
    names = ("alpha0", "alpha1", "alpha2", "alpha12")
    alphas = jnp.stack([jnp.asarray(numpyro.sample(n, dist.Normal(0.0, 1.0))) for n in names])
    sigma: Any = numpyro.sample("sigma", dist.HalfCauchy(1.0))
    name = "c" if centred else "b"
    effects: Any = numpyro.sample(name, dist.Normal(0.0, sigma).expand([len(counts)]).to_event(1))
    logits = design @ alphas + effects - (jnp.mean(effects) if centred else 0.0)
    numpyro.sample("counts", dist.Binomial(totals, logits=logits), obs=counts)


def plates_with_precision(counts: np.ndarray, totals: np.ndarray, design: np.ndarray) -> None:
    """The same with very wide priors, of the precision of the effects too."""
    names = ("alpha0", "alpha1", "alpha2", "alpha12")
    alphas = jnp.stack([jnp.asarray(numpyro.sample(n, dist.Normal(0.0, 1e3))) for n in names])
    tau: Any = numpyro.sample("tau", dist.Gamma(1e-3, 1e-3))
    sd = 1.0 / jnp.sqrt(tau)
    effects: Any = numpyro.sample("b", dist.Normal(0.0, sd).expand([len(counts)]).to_event(1))
    numpyro.sample("counts", dist.Binomial(totals, logits=design @ alphas + effects), obs=counts)


def hospitals(deaths: np.ndarray, operations: np.ndarray) -> None:
    """Deaths in surgery: the logit of each hospital's rate is normal."""
    mu: Any = numpyro.sample("mu", dist.Normal(0.0, 1000.0))
    variance: Any = numpyro.sample("sigmasq", dist.InverseGamma(1e-3, 1e-3))
    logits: Any = numpyro.sample(
        "b", dist.Normal(mu, jnp.sqrt(variance)).expand([len(deaths)]).to_event(1)
    )
    numpyro.sample("r", dist.Binomial(operations, logits=logits), obs=deaths)


def ages_of_bones(grades: np.ndarray, delta: np.ndarray, gamma: np.ndarray) -> None:
    """Skeletal ages: graded responses with known item parameters; −1 marks a missing grade."""
    theta: Any = numpyro.sample("theta", dist.Normal(0.0, 36.0).expand([len(grades)]).to_event(1))
    above = jax.nn.sigmoid(delta[:, None] * (theta[:, None, None] - gamma))
    one, none = jnp.ones((*grades.shape, 1)), jnp.zeros((*grades.shape, 1))
    edges = jnp.concatenate([one, jnp.where(np.isinf(gamma), 0.0, above), none], axis=2)
    each = edges[:, :, :-1] - edges[:, :, 1:]
    which = np.maximum(grades - 1, 0)[:, :, None]
    given = jnp.take_along_axis(each, which, axis=2)[:, :, 0]
    numpyro.factor("grades", jnp.sum(jnp.log(jnp.where(grades > 0, given, 1.0))))


def _wells(*names: str, centred: tuple[str, ...] = ()) -> Columns:
    """Return columns; the name `dist*arsenic` stands for a product."""
    scales = {"dist": 100.0, "educ": 4.0}

    def columns(data: Data) -> list[np.ndarray]:
        def one(name: str) -> np.ndarray:
            values = column(data, name)
            shifted = values - values.mean() if name in centred else values
            return shifted / scales.get(name, 1.0)

        return [np.prod([one(part) for part in name.split("*")], axis=0) for name in names]

    return columns


def _logistic(outcome: str, columns: Columns) -> Model:
    return Model(
        logistic_regression,
        lambda data: (column(data, outcome), np.column_stack(columns(data))),
    )


def _switched(*names: str, centred: tuple[str, ...] = ()) -> Model:
    return _logistic("switched", _wells(*names, centred=centred))


def _rates(*which: str) -> Callable[[Data], tuple[np.ndarray, np.ndarray]]:
    def arguments(data: Data) -> tuple[np.ndarray, np.ndarray]:
        return np.array([data[f"k{i}"] for i in which]), np.array([data[f"n{i}"] for i in which])

    return arguments


def _dogs(data: Data) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y = column(data, "y")
    shocked = np.cumsum(y, axis=1) - y
    return y, np.arange(y.shape[1]) - shocked, shocked


def _captures(per_occasion: bool) -> Model:
    return Model(captures, lambda data: (column(data, "y"), per_occasion))


def _seeds(data: Data) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    one, other = column(data, "x1"), column(data, "x2")
    design = np.column_stack([np.ones(one.size), one, other, one * other])
    return column(data, "n"), column(data, "N"), design


def _bones(data: Data) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    gamma, num = column(data, "gamma"), np.asarray(data["ncat"])
    unused = np.arange(gamma.shape[1]) >= num[:, None] - 1
    return np.asarray(data["grade"]), column(data, "delta"), np.where(unused, np.inf, gamma)


_BOTH = ("dist", "arsenic")
_ALL = (*_BOTH, "educ")

COUNTS = {
    "nes_logit_model": _logistic("vote", lambda data: [column(data, "income")]),
    "wells_dist": Model(
        logistic_line, lambda data: (column(data, "switched"), column(data, "dist"))
    ),
    "wells_dist100_model": _switched("dist"),
    "wells_dist100ars_model": _switched(*_BOTH),
    "wells_interaction_model": _switched(*_BOTH, "dist*arsenic"),
    "wells_interaction_c_model": _switched(*_BOTH, "dist*arsenic", centred=_BOTH),
    "wells_dae_model": _switched(*_ALL),
    "wells_dae_c_model": _switched(*_BOTH, "dist*arsenic", "educ", centred=_BOTH),
    "wells_daae_c_model": _switched(*_BOTH, "dist*arsenic", "assoc", "educ", centred=_BOTH),
    "wells_dae_inter_model": _switched(
        *_ALL, "dist*arsenic", "dist*educ", "arsenic*educ", centred=_ALL
    ),
    "GLM_Binomial_model": Model(
        binomial_curve, lambda data: tuple(column(data, name) for name in ("C", "N", "year"))
    ),
    "GLM_Poisson_model": Model(
        poisson_curve, lambda data: tuple(column(data, name) for name in ("C", "year"))
    ),
    "Rate_1_model": Model(rate, _rates("")),
    "Rate_2_model": Model(two_rates, _rates("1", "2")),
    "Rate_3_model": Model(rate, _rates("1", "2")),
    "Rate_4_model": Model(rate_and_prior, _rates("")),
    "Rate_5_model": Model(rate, _rates("1", "2")),
    "dogs": Model(dogs, _dogs),
    "dogs_log": Model(dogs_without_intercept, _dogs),
    "dogs_hierarchical": Model(dogs_with_memory, _dogs),
    "M0_model": _captures(False),
    "Mt_model": _captures(True),
    "seeds_stanified_model": Model(plates_of_seeds, lambda data: (*_seeds(data), False)),
    "seeds_centered_model": Model(plates_of_seeds, lambda data: (*_seeds(data), True)),
    "seeds_model": Model(plates_with_precision, _seeds),
    "surgical_model": Model(hospitals, lambda data: (column(data, "r"), column(data, "n"))),
    "bones_model": Model(ages_of_bones, _bones),
}
"""By the name of the Stan program."""
