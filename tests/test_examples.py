"""Examples of public names print what they say, and no public name lacks one unnoticed."""

import doctest
import inspect
from importlib.util import find_spec
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pymc_here import pymc_here

import aide
from aide.engine.programs import programs
from aide.engine.programs.programs import compile_quickly
from aide.problems import Normal
from docs._ext.public_names import namespaces, public

NAMESPACE = {"aide": aide, "jax": jax, "jnp": jnp, "np": np, "Normal": Normal}
SLOW = {
    *("gold_standard", "measure_convergence", "refine", "tighten", "convergence.Convergence"),
    *("gold_standards.GoldStandard", "gold_standards.load", "learned.load_reverse"),
    *("learned.RefinedChain", "learned.RefinedLangevin", "learned.RefinedSmc"),
    *("learned.ReverseFit", "cuthbert.SmoothedPaths", "auditing.Simulated"),
    *("cuthbert.smoothed_paths", "cuthbert.state_space_model", "diagnosing.ObservedSteps"),
    "calibrating.Calibration",
    *("stan.StanPosterior", "stan.posterior", "stan.HttpstanModel", "stan.compile_program"),
    *("particles.ParticlesFilter", "particles.particle_filter"),
}
"""Examples that take more than two seconds."""
ROOT = Path(__file__).parents[1]


def documented():
    """Every public function and class once: its name, the object, and its docstring."""
    found = {}
    for title, module in namespaces():
        for name in public(module):
            value = getattr(module, name)
            if callable(value):
                found.setdefault(id(value), (f"{title}.{name}", value, inspect.getdoc(value) or ""))
    return list(found.values())


def marks_of(name, text):
    """A mark of long examples, and of those that need what only some machines have."""
    found = [pytest.mark.full] if name[5:] in SLOW else []
    if "compile_program(" in text and find_spec("httpstan") is None:
        found.append(pytest.mark.skip(reason="httpstan is not installed (make test-full does)"))
    if ".venv-particles" in text and not (ROOT / ".venv-particles").exists():
        found.append(pytest.mark.skip(reason="there is no interpreter with particles"))
    return found


with pymc_here():  # the names of aide.pymc are among them
    DOCUMENTED = documented()
WITH_EXAMPLES = [
    pytest.param(name, text, id=name, marks=marks_of(name, text))
    for name, _, text in DOCUMENTED
    if ">>>" in text
]


def failures(name, text):
    """How many lines of an example do not print what they say."""
    example = doctest.DocTestParser().get_doctest(text, dict(NAMESPACE), name, name, 0)
    return doctest.DocTestRunner(verbose=False).run(example).failed


@pytest.mark.parametrize(("name", "text"), WITH_EXAMPLES)
def test_the_example_prints_what_it_says(name, text, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(programs, "_folder", None)  # the example of keep_programs is undone
    monkeypatch.setattr(programs, "keep_compiled_in", lambda folder: None)
    with compile_quickly():
        assert failures(name, text) == 0


def test_an_example_that_prints_something_else_is_found(capsys):
    assert failures("wrong", ">>> 1 + 1\n3\n") == 1


def test_every_public_name_has_an_example():
    assert len(DOCUMENTED) > 150
    assert [name for name, _, text in DOCUMENTED if ">>>" not in text] == []


def test_every_function_says_what_it_returns():
    functions = [(name, text) for name, value, text in DOCUMENTED if inspect.isfunction(value)]
    assert len(functions) > 50
    assert [name for name, text in functions if "Returns:" not in text] == []
