"""`aide.check` in words, on the command line, and with bad input."""

import dataclasses
import io
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from support import toys, wrong
from support.injected import UserSir, ising_filter, sir
from typer.testing import CliRunner

import aide
from aide._core.versions import prefixes_of, small_versions
from aide.checking.algorithm.region import fit_region
from aide.cli import app
from aide.studies.study import load_target

KEY = jax.random.key(3)
PROGRAM = """
import sys
import jax.numpy as jnp
import aide
from aide.problems.distributions import Normal

right = aide.Tractable.of(Normal(0.3, 0.7))
heavy = aide.Tractable(Normal(0.3, 0.7).sample, lambda x: Normal(0.3, 0.7).log_prob(x) + 1.0)
number = 3

def make():
    return right

def lazy():
    import neighbour
    return neighbour.right

def leave():
    sys.exit(0)

class Broken:
    def simulate(self, rng):
        raise ZeroDivisionError("in simulate")
    def regenerate(self, rng, value):
        sys.exit(0)

broken = aide.PythonAlgorithm(Broken())
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    (tmp_path / "neighbour.py").write_text("from aide_check_program import right")
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


@pytest.mark.parametrize(
    "name", ["lazy", *(pytest.param(n, marks=pytest.mark.full) for n in ("right", "make"))]
)
def test_a_right_algorithm_on_the_command_line(program, name):
    result = run(f"{program}:{name}", "--num-runs", 3000)
    assert result.exit_code == 0, result.output
    assert "passed" in result.output


def test_an_algorithm_or_a_function_that_makes_it(program):
    for name in ("right", "make"):
        assert isinstance(load_target(f"{program}:{name}"), aide.Tractable)


def test_a_wrong_one_exits_with_1_and_names_the_constant(program):
    result = run(f"{program}:heavy", "--num-runs", 3000)
    assert result.exit_code == 1
    assert "failed" in result.output
    assert "xi integrates to 2." in result.output  # e times its mass


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{}:number", "simulate"),
        ("{}:nothing", "defines no 'nothing'"),
        ("{}", "write FILE.py:NAME"),
        ("missing.py:x", "there is no file"),
        ("{}:leave", "SystemExit"),
        ("{}:broken", "in simulate"),
    ],
)
def test_bad_targets(program, target, message):
    result = run(target.format(program))
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_file_that_exits_is_bad_input(tmp_path):
    """Not a pass, whatever code it exits with."""
    path = tmp_path / "ends.py"
    path.write_text("import sys; sys.exit(0)")
    result = run(f"{path}:anything")
    assert result.exit_code == 2
    assert "SystemExit" in result.stderr


def test_what_was_not_tested_is_not_called_passed(monkeypatch):
    """Neither in words, nor as a bool, nor as an exit code."""
    high = aide.Tractable(lambda key: jax.random.normal(key, (60,)), lambda x: -0.5 * jnp.sum(x**2))
    report = aide.check(KEY, high, num_runs=1000)
    assert report.verdict == "undecided"
    assert not report.passed
    assert not report
    text = repr(report)
    assert "Whether Z is what log_z says was not tested: outputs have 60 continuous" in text
    assert "law 3           The output determines the trace" in text
    assert [line.split()[:5] for line in text.splitlines() if "not tested  " in line] == [
        [law, "as", "given", "not", "tested"] for law in ("1", "5")
    ]
    monkeypatch.setattr("aide.studies.study.load_target", lambda target: high)
    assert run("any.py:high", "--num-runs", 1000).exit_code == 3


def test_bad_arguments():
    with pytest.raises(ValueError, match="num_runs must be an integer of at least 600"):
        aide.check(KEY, sir(), num_runs=10)
    with pytest.raises(ValueError, match="false_alarm must lie"):
        aide.check(KEY, sir(), false_alarm=2.0)
    with pytest.raises(TypeError):
        aide.check(KEY, object())  # pyrefly: ignore[bad-argument-type]


def small(algorithm) -> list[Any]:
    return [version.algorithm for version in small_versions(algorithm).values()]


def test_shrinking():
    assert list(small_versions(ising_filter())) == [
        "1 particle, first 3 observations",
        "2 particles, first 3 observations",
        "3 particles, first 3 observations",
        "as given",
    ]
    sizes = lambda algorithm: [version.num_particles for version in small(algorithm)]
    assert sizes(UserSir(8)) == [1, 2, 3, 8]
    assert sizes(UserSir(500)) == [1, 2, 3]
    assert list(small_versions(sir(10)))[-1] == "as given"
    long = aide.ais(
        toys.PRIOR, toys.log_joint, kernel=aide.kernels.RandomWalk(0.5), num_temperatures=100
    )
    (short, *_) = small(long)
    inputs = short.moves[0].inputs
    assert len(inputs[0]) == 3
    assert (inputs[0][0], inputs[1][-1]) == (0.01, 1.0)
    assert len(prefixes_of(long)) == 99


class Own:
    """Brings its own small versions, with brackets in their names, which mean something to rich."""

    log_z = 0.0

    def simulate(self, key):
        return aide.Tractable.of(toys.PRIOR).simulate(key)

    def regenerate(self, key, value):
        return aide.Tractable.of(toys.PRIOR).regenerate(key, value)

    def shrunk(self):
        return {"[/]": self, "[bold]x": self}


def test_own_small_versions_and_brackets_in_their_names():
    report = aide.check(KEY, Own(), num_runs=2000)
    assert report.passed
    assert {item.variant for item in report.evidence} == {"[/]", "[bold]x"}
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(report)
    text = console.export_text()
    assert "[/]" in text
    assert "[bold]x" in text


class PlainSir:
    """SIR in NumPy; optionally the retained particle's weight is that of its neighbour."""

    log_z = 0.0

    def __init__(self, num_particles, wrong=False):
        self.num_particles, self.wrong = num_particles, wrong

    def log_weight(self, x):
        return -0.5 * ((x - 1.0) / 0.4) ** 2

    def log_xi(self, x, log_w):
        evidence = np.log(np.mean(np.exp(log_w)))
        return (
            -0.5 * (x / 1.2) ** 2 - np.log(1.2 * np.sqrt(2 * np.pi)) + self.log_weight(x) - evidence
        )

    def simulate(self, rng):
        x = rng.normal(0, 1.2, self.num_particles)
        log_w = self.log_weight(x)
        weights = np.exp(log_w)
        chosen = x[rng.choice(x.size, p=weights / weights.sum())]
        return chosen, self.log_xi(chosen, log_w)

    def regenerate(self, rng, value):
        x = rng.normal(0, 1.2, self.num_particles)
        x[0] = value
        log_w = self.log_weight(x)
        if self.wrong:
            log_w[0] = self.log_weight(x[-1] + 0.3)
        return self.log_xi(float(value), log_w)


@dataclasses.dataclass
class DataSir(PlainSir):
    """The same as a dataclass."""

    num_particles: int
    wrong: bool = False


class Derived(PlainSir):
    """Keeps something that was derived from the number: not to be shrunk behind its back."""

    def __init__(self, number):
        super().__init__(number)
        self.log_number = np.log(number)


def test_plain_python_is_shrunk_inside_its_wrapper():
    for kind in (PlainSir, DataSir):
        wrapped = aide.PythonAlgorithm(kind(20), label="mine")
        versions = small(wrapped)
        assert [version.algorithm.num_particles for version in versions] == [1, 2, 3, 20]
        assert {version.label for version in versions} == {"mine"}
        assert {version.log_z for version in versions} == {0.0}
        single = [version.has_one_particle for version in small_versions(wrapped).values()]
        assert single == [True, False, False, False]
    assert list(small_versions(aide.PythonAlgorithm(Derived(20)))) == ["as given"]
    with_own = PlainSir(20)
    with_own.shrunk = lambda: {"tiny": PlainSir(2)}  # pyrefly: ignore[missing-attribute]
    wrapped = aide.PythonAlgorithm(with_own)
    assert list(small_versions(wrapped)) == ["tiny"]
    assert small(wrapped)[0].algorithm.num_particles == 2


@pytest.mark.full
def test_a_mistake_in_plain_python_is_found_with_one_particle_and_said_so():
    wrong_one = aide.PythonAlgorithm(PlainSir(4, wrong=True))
    report = aide.check(KEY, wrong_one, num_runs=1000)
    assert report.verdict == "failed"
    assert "1 particle" in {item.variant for item in report.failures}
    assert "nothing is wrong with one particle" not in repr(report)
    assert aide.check(KEY, aide.PythonAlgorithm(PlainSir(4)), num_runs=1000).passed


@pytest.mark.full
def test_the_wrong_move_is_named():
    report = aide.check(KEY, wrong.retained_weight(ising_filter("optimal", 1)), num_runs=4000)
    assert not report.passed
    assert report.place == "step 2 of 4 (Extend)"
    text = repr(report)
    assert "failed" in text
    assert "the old one belongs" in text
    assert "not shown" in text


@pytest.mark.full
def test_between_particles_is_named_where_every_move_is_right():
    target = aide.ParticleFilter(
        toys.STICKY.state_space(), 3, None, aide.smc.EveryStep(aide.smc.Systematic())
    )
    report = aide.check(KEY, wrong.unconditional_resampling(target), num_runs=18_000)
    assert not report.passed
    assert report.place is None
    assert "conditional resampler" in repr(report)


def test_evidence_is_complete_for_an_algorithm_with_unknown_constant():
    shifted = aide.Tractable(toys.PRIOR.sample, lambda x: toys.PRIOR.log_prob(x) + 2.0, None)
    assert aide.check(KEY, shifted, num_runs=4000).passed
    other = aide.Tractable(toys.PRIOR.sample, lambda x: 1.7 * toys.PRIOR.log_prob(x), None)
    assert not aide.check(KEY, other, num_runs=4000).passed


@pytest.mark.full
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
    samples = jax.jit(jax.vmap(region.sample))(keys)
    density = jax.jit(jax.vmap(region.log_density))
    log_density = density(samples)
    assert np.isfinite(log_density).all()
    box = {
        "x": jnp.asarray(rng.uniform(-4, 4, (100_000, 2))),
        "k": jnp.asarray(rng.integers(0, 3, 100_000)),
    }
    terms = np.exp(np.asarray(density(box))) * 64 * 3
    z = (terms.mean() - 1) / (terms.std() / np.sqrt(terms.size))
    assert abs(z) < 5
    assert isinstance(fit_region({"x": np.ones((10, 30)) * rng.normal(size=(10, 1))}), str)
