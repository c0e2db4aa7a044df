"""Models of Stan programs without reference draws, beside transcriptions of the programs.

`PROGRAMS` has, by the name of the program, small data and the program's log density: its loops,
line by line, in NumPy and SciPy. A model must have the same differences between random points.
"""

from typing import Any

import jax
import numpy as np
import pytest
from scipy import integrate, special, stats

import aide
from aide.scorecard.models import MODELS

RNG = np.random.default_rng(28)
NUM_POINTS = 4
QUICK = ("wells_dae_inter_model", "M0_model")
"""Tested in every run; all others in the full run."""
CENTRES = {"dogs_log": (5.0, -5.0), "sir": (-0.5, -2.0, 2.0, -1.0)}
"""Unconstrained points about which the density is not 0; about 0 for all others."""

norm = stats.norm.logpdf


def bernoulli_logit(y, logit):
    return float(np.sum(y * logit - np.logaddexp(0.0, logit)))


def binomial_logit(k, n, logit):
    return float(np.sum(k * logit - n * np.logaddexp(0.0, logit)))


WELLS: dict[str, Any] = {
    "switched": RNG.integers(0, 2, 12),
    "dist": RNG.gamma(2.0, 25.0, 12),
    "arsenic": RNG.gamma(2.0, 0.8, 12),
    "assoc": RNG.integers(0, 2, 12),
    "educ": RNG.integers(0, 15, 12),
}
DOGS = {"y": np.column_stack([np.ones(4, int), RNG.integers(0, 2, (4, 5))])}
DOGS |= {"n_dogs": 4, "n_trials": 6}
YEARS = {"year": np.linspace(-1, 1, 7), "C": RNG.integers(1, 9, 7), "N": np.full(7, 12)}
SEEDS = {
    "n": np.array([3, 8, 0, 5]),
    "N": np.array([9, 8, 4, 7]),
    "x1": np.array([0, 0, 1, 1]),
    "x2": np.array([0, 1, 0, 1]),
}
CAUGHT = {"y": np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 1]])}
PILOTS = {
    "y": RNG.uniform(size=6),
    "group_id": np.array([1, 2, 3, 1, 2, 3]),
    "scenario_id": np.array([1, 1, 1, 2, 2, 2]),
}
BONES = {
    "ncat": np.array([2, 3, 5]),
    "delta": np.array([1.5, 0.7, 2.0]),
    "gamma": np.array([[0.5, -1, -1, -1], [0.1, 2.0, -1, -1], [-1.0, 0.3, 1.1, 2.2]]),
    "grade": np.array([[1, 3, 4], [2, -1, 1]]),
}
SIR = {
    "t": np.array([7.0, 14.0, 21.0]),
    "y0": np.array([10000, 0, 0, 10000]),
    "stoi_hat": np.array([441, 419, 553]),
    "B_hat": np.array([6141.73, 5801.72, 9439.14]),
}
MIXED = {"y": RNG.normal(0.0, 2.0, 9)}
GROWTH = {"x": np.array([1.0, 2.5, 8.0, 20.0]), "Y": np.array([1.8, 2.0, 2.4, 2.6])}


def wells(*terms, mean=()):
    def density(p, d):
        dist100 = (d["dist"] - ("dist" in mean) * np.mean(d["dist"])) / 100.0
        arsenic = d["arsenic"] - ("arsenic" in mean) * np.mean(d["arsenic"])
        educ4 = (d["educ"] - ("educ" in mean) * np.mean(d["educ"])) / 4.0
        known = {
            "dist": dist100,
            "arsenic": arsenic,
            "educ": educ4,
            "assoc": d["assoc"],
            "da": dist100 * arsenic,
            "de": dist100 * educ4,
            "ae": arsenic * educ4,
        }
        logit = p["alpha"] + sum(b * known[t] for b, t in zip(p["beta"], terms, strict=True))
        return bernoulli_logit(d["switched"], logit)

    return WELLS, density


def rate(p, d):
    names = [name[1:] for name in d if name[0] == "k"]
    return sum(stats.binom.logpmf(d[f"k{i}"], d[f"n{i}"], p["theta"]) for i in names)


def two_rates(p, d):
    return sum(stats.binom.logpmf(d[f"k{i}"], d[f"n{i}"], p[f"theta{i}"]) for i in "12")


def dog_trials(p, d, probability):
    total = 0.0
    for j in range(d["n_dogs"]):
        avoid = shock = 0
        for t in range(d["n_trials"]):
            if t > 0:
                avoid += 1 - d["y"][j, t - 1]
                shock += d["y"][j, t - 1]
            total += stats.bernoulli.logpmf(d["y"][j, t], probability(p, avoid, shock))
    return total


def dogs(p, d):
    b = p["beta"]
    chance = lambda p, avoid, shock: special.expit(b[0] + b[1] * avoid + b[2] * shock)
    return np.sum(norm(b, 0, 100)) + dog_trials(p, d, chance)


def dogs_log(p, d):
    chance = lambda p, avoid, shock: special.expit(p["beta"][0] * avoid + p["beta"][1] * shock)
    return dog_trials(p, d, chance)


def dogs_hierarchical(p, d):
    return dog_trials(p, d, lambda p, avoid, shock: p["a"] ** shock * p["b"] ** avoid)


def captures(p, d):
    total = 0.0
    for animal in d["y"]:
        seen = np.log(p["omega"]) + np.sum(stats.bernoulli.logpmf(animal, p["p"]))
        total += seen if animal.sum() > 0 else np.logaddexp(seen, np.log1p(-p["omega"]))
    return total


def seeds(name, alphas_sd, effects):
    def density(p, d):
        fixed = p["alpha0"] + p["alpha1"] * d["x1"] + p["alpha2"] * d["x2"]
        logit = fixed + p["alpha12"] * d["x1"] * d["x2"] + p[name]
        logit = logit - (np.mean(p[name]) if name == "c" else 0.0)
        prior = sum(norm(p[a], 0, alphas_sd) for a in ("alpha0", "alpha1", "alpha2", "alpha12"))
        return prior + effects(p, p[name]) + binomial_logit(d["n"], d["N"], logit)

    return SEEDS, density


def with_sd(p, effects):
    return stats.cauchy.logpdf(p["sigma"], 0, 1) + np.sum(norm(effects, 0, p["sigma"]))


def with_precision(p, effects):
    prior = stats.gamma.logpdf(p["tau"], 1e-3, scale=1e3)
    return prior + np.sum(norm(effects, 0, 1 / np.sqrt(p["tau"])))


def surgical(p, d):
    prior = norm(p["mu"], 0, 1000) + stats.invgamma.logpdf(p["sigmasq"], 1e-3, scale=1e-3)
    effects = np.sum(norm(p["b"], p["mu"], np.sqrt(p["sigmasq"])))
    return prior + effects + binomial_logit(d["r"], d["n"], p["b"])


def bones(p, d):
    total = float(np.sum(norm(p["theta"], 0, 36)))
    for i, grades in enumerate(d["grade"]):
        for j, grade in enumerate(grades):
            num = d["ncat"][j]
            q = special.expit(d["delta"][j] * (p["theta"][i] - d["gamma"][j, : num - 1]))
            each = [1 - q[0], *(q[k - 1] - q[k] for k in range(1, num - 1)), q[num - 2]]
            total += np.log(each[grade - 1]) if grade != -1 else 0.0
    return total


def mixture(p, d):
    own = np.log(p["theta"]) + norm(d["y"], p["mu"][0], p["sigma"][0])
    other = np.log1p(-p["theta"]) + norm(d["y"], p["mu"][1], p["sigma"][1])
    prior = np.sum(norm(p["sigma"], 0, 2)) + np.sum(norm(p["mu"], 0, 2))
    return prior + stats.beta.logpdf(p["theta"], 5, 5) + np.sum(np.logaddexp(own, other))


def normal_mixture(p, d):
    own = np.log(p["theta"]) + norm(d["y"], p["mu"][0], 1)
    other = np.log1p(-p["theta"]) + norm(d["y"], p["mu"][1], 1)
    return np.sum(norm(p["mu"], 0, 10)) + np.sum(np.logaddexp(own, other))


def pilots(p, d):
    mean = p["a"][d["group_id"] - 1] + p["b"][d["scenario_id"] - 1]
    total = norm(p["mu_a"]) + norm(p["mu_b"]) + np.sum(norm(d["y"], mean, p["sigma_y"]))
    total += np.sum(norm(p["a"], 10 * p["mu_a"], p["sigma_a"]))
    return total + np.sum(norm(p["b"], 10 * p["mu_b"], p["sigma_b"]))


def dugongs(p, d):
    mean = p["alpha"] - p["beta"] * p["lambda"] ** d["x"]
    prior = norm(p["alpha"], 0, 1000) + norm(p["beta"], 0, 1000)
    prior += stats.gamma.logpdf(p["tau"], 1e-4, scale=1e4)
    return prior + np.sum(norm(d["Y"], mean, 1 / np.sqrt(p["tau"])))


def sir(p, d):
    def slope(t, y):
        new = p["beta"] * y[3] / (y[3] + 1e6) * y[0]
        gone = p["gamma"] * y[1]
        return [-new, new - gone, gone, p["xi"] * y[1] - p["delta"] * y[3]]

    span, times = (0.0, d["t"][-1]), d["t"]
    y = integrate.solve_ivp(slope, span, d["y0"], t_eval=times, rtol=1e-10, atol=1e-8).y
    healthy = np.concatenate([d["y0"][:1], y[0]])
    scales = {"beta": 2.5, "gamma": 1, "xi": 25, "delta": 1}
    total = sum(stats.cauchy.logpdf(p[name], 0, scale) for name, scale in scales.items())
    total += np.sum(stats.poisson.logpmf(d["stoi_hat"], healthy[:-1] - healthy[1:]))
    return total + np.sum(norm(np.log(d["B_hat"]), np.log(y[3]), 0.15) - np.log(d["B_hat"]))


def glm_poisson(p, d):
    year = d["year"]
    log_rate = p["alpha"] + p["beta1"] * year + p["beta2"] * year**2 + p["beta3"] * year**3
    return np.sum(stats.poisson.logpmf(d["C"], np.exp(log_rate)))


def glm_binomial(p, d):
    logit = p["alpha"] + p["beta1"] * d["year"] + p["beta2"] * d["year"] ** 2
    prior = sum(norm(p[name], 0, 100) for name in ("alpha", "beta1", "beta2"))
    return prior + binomial_logit(d["C"], d["N"], logit)


def radon(p, d):
    prior = norm(p["sigma_y"]) + norm(p["alpha"], 0, 10) + norm(p["beta"], 0, 10)
    mean = p["alpha"] + p["beta"] * d["floor_measure"]
    return prior + np.sum(norm(d["log_radon"], mean, p["sigma_y"]))


PROGRAMS: dict[str, Any] = {
    "sesame_one_pred_a": (
        {"watched": RNG.normal(size=5), "encouraged": np.array([0, 1, 1, 0, 1])},
        lambda p, d: np.sum(
            norm(d["watched"], p["beta"][0] + p["beta"][1] * d["encouraged"], p["sigma"])
        ),
    ),
    "radon_pooled": (
        {"log_radon": RNG.normal(size=5), "floor_measure": np.array([0, 1, 1, 0, 0])},
        radon,
    ),
    "nes_logit_model": (
        {"vote": np.array([0, 1, 1, 0]), "income": np.array([4, 2, 1, 5])},
        lambda p, d: bernoulli_logit(d["vote"], p["alpha"] + p["beta"][0] * d["income"]),
    ),
    "wells_dist": (
        WELLS,
        lambda p, d: bernoulli_logit(d["switched"], p["beta"][0] + p["beta"][1] * d["dist"]),
    ),
    "wells_dist100_model": wells("dist"),
    "wells_dist100ars_model": wells("dist", "arsenic"),
    "wells_interaction_model": wells("dist", "arsenic", "da"),
    "wells_interaction_c_model": wells("dist", "arsenic", "da", mean=("dist", "arsenic")),
    "wells_dae_model": wells("dist", "arsenic", "educ"),
    "wells_dae_c_model": wells("dist", "arsenic", "da", "educ", mean=("dist", "arsenic")),
    "wells_daae_c_model": wells("dist", "arsenic", "da", "assoc", "educ", mean=("dist", "arsenic")),
    "wells_dae_inter_model": wells(
        *("dist", "arsenic", "educ", "da", "de", "ae"), mean=("dist", "arsenic", "educ")
    ),
    "GLM_Binomial_model": (YEARS, glm_binomial),
    "GLM_Poisson_model": (YEARS, glm_poisson),
    "Rate_1_model": ({"k": 5, "n": 10}, rate),
    "Rate_2_model": ({"k1": 5, "n1": 10, "k2": 7, "n2": 11}, two_rates),
    "Rate_3_model": ({"k1": 5, "n1": 10, "k2": 7, "n2": 11}, rate),
    "Rate_4_model": ({"k": 1, "n": 15}, rate),
    "Rate_5_model": ({"k1": 0, "n1": 10, "k2": 10, "n2": 10}, rate),
    "dogs": (DOGS, dogs),
    "dogs_log": (DOGS, dogs_log),
    "dogs_hierarchical": (DOGS, dogs_hierarchical),
    "M0_model": (CAUGHT, captures),
    "Mt_model": (CAUGHT, captures),
    "seeds_stanified_model": seeds("b", 1.0, with_sd),
    "seeds_centered_model": seeds("c", 1.0, with_sd),
    "seeds_model": seeds("b", 1e3, with_precision),
    "surgical_model": ({"r": np.array([0, 18, 8]), "n": np.array([47, 148, 119])}, surgical),
    "bones_model": (BONES, bones),
    "low_dim_gauss_mix_collapse": (MIXED, mixture),
    "normal_mixture": (MIXED, normal_mixture),
    "pilots": (PILOTS, pilots),
    "dugongs_model": (GROWTH, dugongs),
    "sir": (SIR, sir),
}


def off_by(program, data, density):
    """Return the largest error of a difference between points, of the size of the differences."""
    model = MODELS[program]
    post = aide.numpyro.posterior(model.model, *model.arguments(data))
    both = jax.jit(lambda x: (post.constrain(x), post.log_joint(x) - post.log_jacobian(x)))
    points = np.random.default_rng(0).normal(0.0, 0.5, (NUM_POINTS, post.dimension))
    found = []
    for x in points + np.array(CENTRES.get(program, 0.0)):
        with jax.enable_x64(True):
            values, ours = both(x)
        values = {name: np.asarray(value) for name, value in values.items()}
        found.append((float(ours), float(density(values, data))))
    one, other = (np.array(each) - each[0] for each in zip(*found, strict=True))
    return np.max(np.abs(one - other)) / max(1.0, np.max(np.abs(other)))


@pytest.mark.parametrize(
    "program",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.full) for each in PROGRAMS],
)
def test_a_model_is_its_stan_program(program):
    # The epidemic is solved by steps of fixed length; all else is the same arithmetic.
    tolerance = 1e-6 if program == "sir" else 1e-10
    assert off_by(program, *PROGRAMS[program]) < tolerance


def test_another_program_would_be_seen():
    """Control: the model of the program whose columns are centred."""
    _, density = PROGRAMS["wells_interaction_model"]
    assert off_by("wells_interaction_c_model", WELLS, density) > 1e-3
