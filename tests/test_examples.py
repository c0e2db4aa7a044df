"""Examples of public names print what they say, and no public name lacks one unnoticed."""

import doctest
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pymc_here import pymc_here

import aide
from aide.engine.programs.programs import compile_quickly
from aide.problems import Normal
from docs._ext.public_names import namespaces, public

NAMESPACE = {"aide": aide, "jax": jax, "jnp": jnp, "np": np, "Normal": Normal}
SLOW = {"gold_standard", "measure_convergence", "refine", "tighten"}
"""Examples that take more than five seconds."""
NEEDS_MORE = {"aide.stan", "aide.posteriordb", "aide.particles", "aide.cuthbert"}
"""Adapters whose examples would need a compiler, a database, another Python or a long model."""


def documented():
    """Every public function and class once: its name, the object, and its docstring."""
    found = {}
    for title, module in namespaces():
        for name in public(module):
            value = getattr(module, name)
            if callable(value):
                found.setdefault(id(value), (f"{title}.{name}", value, inspect.getdoc(value) or ""))
    return list(found.values())


with pymc_here():  # the names of aide.pymc are among them
    DOCUMENTED = documented()
WITH_EXAMPLES = [
    pytest.param(name, text, id=name, marks=[pytest.mark.full] if name[5:] in SLOW else [])
    for name, _, text in DOCUMENTED
    if ">>>" in text
]


def failures(name, text):
    """How many lines of an example do not print what they say."""
    example = doctest.DocTestParser().get_doctest(text, dict(NAMESPACE), name, name, 0)
    return doctest.DocTestRunner(verbose=False).run(example).failed


@pytest.mark.parametrize(("name", "text"), WITH_EXAMPLES)
def test_the_example_prints_what_it_says(name, text):
    with compile_quickly():
        assert failures(name, text) == 0


def test_an_example_that_prints_something_else_is_found(capsys):
    assert failures("wrong", ">>> 1 + 1\n3\n") == 1


def test_every_name_in_aide_has_an_example():
    lacking = [name for name, _, text in DOCUMENTED if name.count(".") == 1 and ">>>" not in text]
    assert lacking == ["aide.keep_programs"]  # it writes into the user's cache


def test_every_function_says_what_it_returns():
    functions = [(name, text) for name, value, text in DOCUMENTED if inspect.isfunction(value)]
    assert len(functions) > 50
    assert [name for name, text in functions if "Returns:" not in text] == []
