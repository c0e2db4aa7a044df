"""Programs kept in a folder: a process with other data gets other numbers, and never crashes.

Each script prints the divergence of an exact fit of its own data. With another model's program it
would be many nats away from 0.
"""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.full

HEAD = """
import sys, warnings
import numpy as np, jax, jax.numpy as jnp, aide
aide.keep_programs(sys.argv[1])
shift = float(sys.argv[2])
warnings.simplefilter("ignore")
def fit_of(mean, std):
    def sample(key):
        return mean + std * jax.random.normal(key)
    def log_density(x):
        return -0.5 * ((x - mean) / std) ** 2 - jnp.log(std) - 0.5 * jnp.log(2 * jnp.pi)
    return aide.Tractable(sample, log_density)
def report(log_joint, mean, std):
    rng = np.random.default_rng(1)
    draws = mean + std * rng.standard_normal((4, 100))
    gold = aide.ReferenceDraws(draws, log_joint, has_chains=True)
    exact = fit_of(mean, std)
    print(f"{aide.estimate(jax.random.key(0), gold, exact, num_target=400).value:.3f}")
"""
PYMC = """
import pymc as pm
from pymc.sampling.jax import get_jaxified_logp
data = shift + np.array([0.3, -0.2, 0.5, 0.1])
with pm.Model() as model:
    mu = pm.Normal("mu", 0.0, 1.0)
    pm.Normal("y", mu, 1.0, observed=data)
{how}
report(log_joint, data.sum() / 5.0, np.sqrt(1 / 5.0))
"""
SCRIPTS = {
    "get_jaxified_logp": PYMC.format(
        how="logp = get_jaxified_logp(model)\nlog_joint = lambda x: logp([x])"
    ),
    "the adapter": PYMC.format(
        how="post = aide.pymc.posterior(model)\nlog_joint = lambda x: post.log_joint(x[None])"
    ),
    "exec": """
space = {"mean": shift, "jnp": jnp}
exec("def log_joint(x):\\n    return -0.5 * (x - mean) ** 2", space)
report(space["log_joint"], shift, 1.0)
""",
    "a package without a version": """
import pathlib
folder = pathlib.Path(sys.argv[3]) / "site-packages" / "unversioned"
folder.mkdir(parents=True, exist_ok=True)
(folder / "__init__.py").write_text(f"def log_joint(x):\\n    return -0.5 * (x - {shift}) ** 2\\n")
sys.path.insert(0, str(folder.parent))
sys.dont_write_bytecode = True
import unversioned
report(unversioned.log_joint, shift, 1.0)
""",
}
SPARSE = PYMC.replace(
    '    pm.Normal("y", mu, 1.0, observed=data)',
    """    import scipy.sparse as sp, pytensor.sparse as ps
    design = ps.as_sparse_variable(sp.csr_matrix((1.0 + shift) * np.ones((4, 1))))
    pm.Normal("y", ps.structured_dot(design, mu[None, None])[:, 0], 1.0, observed=data)""",
).replace(
    "report(log_joint, data.sum() / 5.0, np.sqrt(1 / 5.0))",
    """slope = 1.0 + shift
precision = 1.0 + 4 * slope**2
report(log_joint, slope * data.sum() / precision, precision**-0.5)""",
)
SCRIPTS["the adapter with a sparse constant"] = SPARSE.format(
    how="post = aide.pymc.posterior(model)\nlog_joint = lambda x: post.log_joint(x[None])"
)


def _run(script, *arguments):
    command = [sys.executable, "-c", HEAD + script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return float(done.stdout.split()[-1])


@pytest.mark.parametrize("name", SCRIPTS)
def test_another_process_with_other_data_has_its_own_numbers(name, tmp_path):
    folder = tmp_path / "programs"
    for shift in (0.0, 3.0, 0.0):
        assert abs(_run(SCRIPTS[name], folder, shift, tmp_path)) < 1e-3, shift
    assert list((folder / "xla").iterdir())  # control: programs were kept


STUDY = """
import aide
from aide.problems import LinearRegression

model = LinearRegression()
gold = model.posterior()
targets = {
    "3": aide.sir(model.prior(), model.log_joint, num_particles=3),
    "30": aide.sir(model.prior(), model.log_joint, num_particles=30),
}
"""


def test_every_command_runs_three_times_alike(tmp_path):
    """LAPACK's functions are there when a kept program that calls them is loaded."""
    (tmp_path / "study.py").write_text(STUDY)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = []
    for number in range(3):
        command = [sys.executable, "-m", "aide", "compare", "study.py", "--json"]
        done = subprocess.run(
            [*command, "--out", str(tmp_path / str(number))],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        found.append(done.stdout.replace(str(tmp_path / str(number)), "OUT"))
    assert found[0] == found[1] == found[2]
