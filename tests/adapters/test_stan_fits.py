"""Files of CmdStan's approximate methods, written here in its format from a known Gaussian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.schools import BridgedSchools

import aide
from aide.adapters.gaussian import Gaussian
from aide.adapters.stan import posterior

NAMES = "mu,tau," + ",".join(f"theta.{i}" for i in range(1, 9)) + ",spread"
COLUMNS = {
    "pathfinder": ("lp_approx__", "lp__"),
    "laplace": ("log_p__", "log_q__"),
    "variational": ("lp__", "log_p__", "log_g__"),
}


@pytest.fixture(scope="module")
def post():
    return posterior(BridgedSchools())


def known(is_diagonal=False):
    """A Gaussian of ten numbers."""
    rng = np.random.default_rng(0)
    factor = np.tril(0.2 * rng.normal(size=(10, 10)), -1) + np.diag(rng.uniform(0.5, 1.5, 10))
    return rng.normal(size=10), np.diag(np.diag(factor)) if is_diagonal else factor


def write(path, post, method, moments, num=150, digits=8, offset=0.0, more=""):
    """A file of CmdStan with draws of a Gaussian and both log densities."""
    rng = np.random.default_rng(1)
    mean, factor = moments
    z = rng.normal(size=(num, 10))
    log_q = -0.5 * (z**2).sum(axis=1) - np.log(np.diag(factor)).sum() + offset
    rows = mean + z @ factor.T
    model = BridgedSchools()
    lines = ["# stan_version_major = 2", f"# method = {method}", f"#   {method}"]
    if more:
        lines.append(f"#     {more}")
    lines.append(",".join(COLUMNS[method]) + "," + NAMES)
    if method == "variational":
        lines += ["# Stepsize adaptation complete.", "# eta = 1"]
        lines.append(",".join(["0"] * 3 + [f"{v:.{digits}g}" for v in [*mean, 0.0]]))
    for row, density in zip(rows, log_q, strict=True):
        at = {"lp__": model.log_density(row), "log_p__": model.log_density(row)}
        if method == "variational":
            at["lp__"] = 0.0
        first = [at.get(name, density) for name in COLUMNS[method]]
        values = [*first, *model.param_constrain(row), 1.0]
        lines.append(",".join(f"{value:.{digits}g}" for value in values))
    path.write_text("\n".join([*lines, "# Elapsed Time: 0.01 seconds", ""]))
    return path


QUICK = "variational"
METHODS = [
    pytest.param(method, marks=() if method == QUICK else pytest.mark.full) for method in COLUMNS
]


@pytest.mark.parametrize("method", METHODS)
def test_the_gaussian_is_recovered_from_draws_and_log_densities(tmp_path, post, method):
    is_diagonal = method == "variational"
    more = "algorithm = meanfield (Default)" if is_diagonal else ""
    moments = known(is_diagonal)
    num = 60 if is_diagonal else 150
    file = write(tmp_path / "fit.csv", post, method, moments, num, offset=3.0, more=more)
    fit = aide.stan.read_csv(file)
    assert (fit.method, fit.is_diagonal) == (method, is_diagonal)
    assert fit.draws["theta"].shape == (num, 8)
    target = post.guide(fit)
    truth = Gaussian(*moments)
    for x in np.random.default_rng(2).normal(size=(3, 10)):
        with jax.enable_x64(True):
            found = float(target.log_density(jnp.asarray(x)))
            assert found == pytest.approx(float(truth.log_density(jnp.asarray(x))), abs=2e-3)
    assert method in target.label


def test_what_is_no_gaussian_is_refused_with_the_nearest_thing(tmp_path, post):
    file = write(tmp_path / "few.csv", post, "laplace", known(), num=70)
    with pytest.raises(ValueError, match=r"86 different draws .* the file has 70"):
        post.guide(aide.stan.read_csv(file))
    file = write(tmp_path / "coarse.csv", post, "laplace", known(), digits=2)
    with pytest.raises(ValueError, match="sig_figs=12"):
        post.guide(aide.stan.read_csv(file))
    text = write(tmp_path / "fit.csv", post, "pathfinder", known()).read_text()
    mixed = tmp_path / "mixed.csv"
    lines = text.splitlines()
    for i in range(5, 80):
        cells = lines[i].split(",")
        lines[i] = ",".join([f"{float(cells[0]) - 0.3 * float(cells[2]):.8g}", *cells[1:]])
    mixed.write_text("\n".join(lines))
    with pytest.raises(ValueError, match="not those of one Gaussian"):
        post.guide(aide.stan.read_csv(mixed))
    paths = tmp_path / "paths.csv"
    body = [line for line in text.splitlines() if not line.startswith("#")]
    body = [f"path__,{body[0]}", *(f"{1 + i % 4},{line}" for i, line in enumerate(body[1:]))]
    paths.write_text("\n".join(["# method = pathfinder", *body]))
    with pytest.raises(ValueError, match=r"4 paths .* num_paths=1"):
        post.guide(aide.stan.read_csv(paths))
    plain = tmp_path / "plain.csv"
    plain.write_text("\n".join(["# method = sample", NAMES, ",".join(["1"] * 11)]))
    with pytest.raises(ValueError, match="has none of the columns lp_approx__"):
        post.guide(aide.stan.read_csv(plain))
    plain.write_text("# method = sample\n")
    with pytest.raises(ValueError, match="has no draws"):
        aide.stan.read_csv(plain)


def test_a_file_of_another_model_is_refused(tmp_path, post):
    file = write(tmp_path / "fit.csv", post, "laplace", known())
    lines = file.read_text().splitlines()
    for i in range(5, len(lines) - 1):
        cells = lines[i].split(",")
        lines[i] = ",".join([f"{float(cells[0]) + float(cells[2]):.8g}", *cells[1:]])
    file.write_text("\n".join(lines))
    with pytest.raises(ValueError, match="made with other data or another model"):
        post.guide(aide.stan.read_csv(file))


@pytest.mark.full
def test_a_fit_is_measured_against_draws(tmp_path, post):
    """A Gaussian in the place of a gold standard, and its file with another mean as the fit."""
    mean, factor = known()
    file = write(tmp_path / "fit.csv", post, "pathfinder", (mean + 0.5 * factor[:, 0], factor))
    gold = aide.Tractable.of(Gaussian(mean, factor))
    found = aide.estimate(0, gold, post.guide(aide.stan.read_csv(file)), progress=False)
    assert abs(found.value - 0.25) < 5 * found.std_error + 0.01
    assert found.value > 5 * found.std_error
