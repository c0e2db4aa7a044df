"""Filters of the package `particles`, by an interpreter of their own."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support import Z_MAX

import aide
from aide.adapters.particles import ParticlesFilter, particle_filter

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "support" / "particles_model.py"
PAGES = ("how_to/particles.md", "measured/particles_csmc.md")
PAGE = "\n".join((ROOT / "docs" / page).read_text() for page in PAGES)
PINNED = (ROOT / "benchmarks" / "peers" / "particles-constraints.txt").read_text()


@pytest.fixture(scope="module", params=["0.4", "0.3"])
def python(request):
    """An interpreter with `particles`, made once; without the package index this fails.

    The folders are those of the benchmarks.
    """
    is_pinned = f"particles=={request.param}\n" in PINNED
    env = ROOT / (".venv-particles" if is_pinned else f".venv-particles-{request.param}")
    found = env / "bin" / "python"
    if not found.exists():
        wanted = re.sub(r"(?m)^particles==.*$", f"particles=={request.param}", PINNED)
        subprocess.run([sys.executable, "-m", "venv", str(env)], check=True)
        (env / "constraints.txt").write_text(wanted)
        install = ["-m", "pip", "install", "--quiet", "-c", str(env / "constraints.txt")]
        subprocess.run([str(found), *install, "particles"], check=True)
    return found


def block(start):
    """A block of the page, by how it begins."""
    blocks = re.findall(r"^```py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return next(text for text in blocks if text.startswith(start))


@pytest.mark.full
def test_the_page_shows_what_the_package_does(python):
    """The method that is said to be wrong is that of the package, to the letter."""
    script = "import inspect, particles.mcmc as m; print(inspect.getsource(m.CSMC.resample_move))"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    assert block("def resample_move").split() == done.stdout.split()


@pytest.mark.full
def test_the_page_runs(python, tmp_path):
    """Its files, with the package: the filter is built, runs, and breaks no law."""
    (tmp_path / "model.py").write_text(block("# model.py"))
    script = block("# measure.py").replace('"model.py"', repr(str(tmp_path / "model.py")))
    script = script.replace('".venv-particles/bin/python"', repr(str(python)))
    asked, _, _ = script.partition("print(aide.estimate")  # whose gold standard is the reader's
    names: dict[str, Any] = {"aide": aide, "key": jax.random.key(3)}
    exec(asked.replace("aide.check(key, filtered)", "filtered"), names)
    filtered = names["filtered"]
    report = aide.check(jax.random.key(3), filtered, num_runs=600, find=False)
    assert report.p_value > 0.01  # no law is broken; more runs would be needed to show a pass


@pytest.mark.full
@pytest.mark.parametrize("conditional", ["theirs", "permuted"])
def test_a_check_rejects_theirs_and_passes_the_permuted(python, conditional):
    """A guided filter, where the parent of slot 0 matters too; the bootstrap one takes longer."""
    settings = {"num_particles": 3, "function": "make_guided", "conditional": conditional}
    filtered = particle_filter(MODEL, python=python, **settings)
    report = aide.check(jax.random.key(0), filtered, num_runs=4000, find=False)
    assert report.passed == (conditional == "permuted")


def log_normal(x, mean, std):
    return -0.5 * ((x - mean) / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))


@pytest.mark.full
def test_one_particle_has_the_density_of_its_proposals(python):
    path, rng = np.array([0.4, 0.3, 0.5]), np.random.default_rng(0)
    prior = log_normal(path[0], 0.0, 1.0) + np.sum(log_normal(path[1:], path[:-1], 0.1))
    for conditional in ("theirs", "permuted"):
        one = particle_filter(MODEL, python=python, num_particles=1, conditional=conditional)
        assert one.regenerate(rng, path) == pytest.approx(prior, abs=1e-10)
    guided = particle_filter(MODEL, python=python, num_particles=1, function="make_guided")
    value, log_xi = guided.simulate(rng)
    assert guided.regenerate(rng, value) == pytest.approx(log_xi, abs=1e-10)


@pytest.mark.full
def test_their_conditional_smc_is_wrong_and_a_permutation_mends_it(python):
    """Law 2: given |l|, the sign of l is positive with probability 1/(1 + exp |l|)."""
    z = {}
    for conditional in ("theirs", "permuted"):
        filtered = particle_filter(MODEL, python=python, num_particles=3, conditional=conditional)
        rng = np.random.default_rng(1)
        ratios = []
        for _ in range(6000):
            value, log_xi = filtered.simulate(rng)
            ratios.append(filtered.regenerate(rng, value) - log_xi)
        ratios = np.array(ratios)
        chance = 1 / (1 + np.exp(np.abs(ratios)))
        z[conditional] = np.sum((ratios > 0) - chance) / np.sqrt(np.sum(chance * (1 - chance)))
    print(z)
    assert abs(z["permuted"]) < Z_MAX
    assert z["theirs"] > Z_MAX


def test_settings_are_checked():
    with pytest.raises(ValueError, match="conditional must be 'permuted' or 'theirs'"):
        ParticlesFilter("python", "file", "make", 3, 4, 1.0, "sorted")  # pyrefly: ignore[bad-argument-type]
    with pytest.raises(ValueError, match=r"interpreter that has the package particles.*nowhere"):
        particle_filter(MODEL, python="/nowhere", num_particles=3)
    few = ParticlesFilter("python", "file", "make", 20, 9)
    assert "2 particles, first 3 observations" in few.shrunk()


def test_an_error_over_there_is_one_here(tmp_path):
    """Any interpreter will do to see it: this one lacks the package."""
    with pytest.raises(RuntimeError, match="ended with code 1"):
        particle_filter(tmp_path / "none.py", python=sys.executable, num_particles=3)
