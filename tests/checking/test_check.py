"""`aide.check` in words, on the command line, and with bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys, wrong
from support.injected import UserSir, ising_filter, sir
from typer.testing import CliRunner

import aide
from aide.checking.prefixes import prefixes_of
from aide.checking.region import fit_region
from aide.checking.shrink import variants_of
from aide.cli import app

KEY = jax.random.key(3)
PROGRAM = """
import jax.numpy as jnp
import aide
from aide.problems.distributions import Normal

right = aide.Tractable.of(Normal(0.3, 0.7))
heavy = aide.Tractable(Normal(0.3, 0.7).sample, lambda x: Normal(0.3, 0.7).log_prob(x) + 1.0)
number = 3

def make():
    return right
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


def test_a_right_algorithm_on_the_command_line(program):
    for name in ("right", "make"):
        result = run(f"{program}:{name}", "--num-runs", 3000)
        assert result.exit_code == 0, result.output
        assert "passed" in result.output


def test_a_wrong_one_exits_with_1_and_names_the_constant(program):
    result = run(f"{program}:heavy", "--num-runs", 3000)
    assert result.exit_code == 1
    assert "FAILED" in result.output
    assert "xi has 2." in result.output  # e times its mass


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{}:number", "simulate"),
        ("{}:nothing", "defines no 'nothing'"),
        ("{}", "write FILE.py:NAME"),
        ("missing.py:x", "there is no file"),
    ],
)
def test_bad_targets(program, target, message):
    result = run(target.format(program))
    assert result.exit_code == 2
    assert message in result.stderr


def test_bad_arguments():
    with pytest.raises(ValueError, match="num_runs must be an integer of at least 600"):
        aide.check(KEY, sir(), num_runs=10)
    with pytest.raises(ValueError, match="false_alarm must lie"):
        aide.check(KEY, sir(), false_alarm=2.0)
    with pytest.raises(TypeError):
        aide.check(KEY, object())


def test_shrinking():
    names = [variant.name for variant in variants_of(ising_filter())]
    assert names == [
        "1 particle, first 3 observations",
        "2 particles, first 3 observations",
        "3 particles, first 3 observations",
        "as given",
    ]
    assert [v.algorithm.num_particles for v in variants_of(UserSir(8))] == [1, 2, 3]
    long = aide.ais(toys.PRIOR, toys.log_joint, kernel=aide.RandomWalk(0.5), num_temperatures=100)
    (short, *_) = variants_of(long)
    inputs = short.algorithm.moves[0].inputs
    assert len(inputs[0]) == 3
    assert (inputs[0][0], inputs[1][-1]) == (0.01, 1.0)
    assert len(prefixes_of(long)) == 99


class Own:
    """An algorithm that brings its own small versions."""

    log_z = 0.0

    def simulate(self, key):
        return aide.Tractable.of(toys.PRIOR).simulate(key)

    def regenerate(self, key, value):
        return aide.Tractable.of(toys.PRIOR).regenerate(key, value)

    def shrunk(self):
        return {"tiny": self}


def test_own_small_versions():
    report = aide.check(KEY, Own(), num_runs=2000)
    assert report.passed
    assert {item.variant for item in report.evidence} == {"tiny"}


@pytest.mark.full
def test_the_wrong_move_is_named():
    report = aide.check(KEY, wrong.retained_weight(ising_filter("optimal", 1)), num_runs=4000)
    assert not report.passed
    assert report.place == "step 2 of 4 (Extend)"
    text = repr(report)
    assert "FAILED" in text
    assert "the old one belongs" in text
    assert "cannot see" in text


@pytest.mark.full
def test_between_particles_is_named_where_every_move_is_right():
    target = aide.ParticleFilter(
        toys.STICKY.state_space(), 3, None, aide.EveryStep(aide.Systematic())
    )
    report = aide.check(KEY, wrong.unconditional_resampling(target), num_runs=18_000)
    assert not report.passed
    assert report.place is None
    assert "conditional resampler" in repr(report)


def test_evidence_is_complete_for_an_algorithm_with_unknown_constant():
    shifted = aide.Tractable(toys.PRIOR.sample, lambda x: toys.PRIOR.log_prob(x) + 2.0, None)
    assert aide.check(KEY, shifted, num_runs=4000).passed
    other = aide.Tractable(toys.PRIOR.sample, lambda x: 1.7 * toys.PRIOR.log_prob(x), None)
    assert not aide.check(KEY, other, num_runs=18_000).passed


def test_region_is_a_distribution(x64):
    """Its samples lie inside, and its density integrates to one against a box."""
    rng = np.random.default_rng(0)
    values = {
        "x": rng.normal(size=(3000, 2)) @ np.array([[1.0, 0.4], [0.0, 0.5]]),
        "k": rng.integers(0, 3, 3000),
    }
    region = fit_region(values)
    assert not isinstance(region, str)
    keys = jax.random.split(KEY, 4000)
    samples = jax.vmap(region.sample)(keys)
    log_density = jax.vmap(region.log_density)(samples)
    assert np.isfinite(log_density).all()
    box = {
        "x": jnp.asarray(rng.uniform(-4, 4, (200_000, 2))),
        "k": jnp.asarray(rng.integers(0, 3, 200_000)),
    }
    terms = np.exp(np.asarray(jax.vmap(region.log_density)(box))) * 64 * 3
    z = (terms.mean() - 1) / (terms.std() / np.sqrt(terms.size))
    assert abs(z) < 5
    assert isinstance(fit_region({"x": np.ones((10, 30)) * rng.normal(size=(10, 1))}), str)
