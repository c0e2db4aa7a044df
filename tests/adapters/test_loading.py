"""Adapters are loaded when they are asked for, and say what is missing."""

import subprocess
import sys

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import aide


@pytest.mark.full
def test_nothing_is_loaded_before_it_is_asked_for():
    script = (
        "import sys, aide\n"
        "foreign = {'numpyro', 'pymc', 'blackjax', 'arviz', 'stan', 'xarray'}\n"
        "assert not foreign & set(sys.modules), foreign & set(sys.modules)\n"
        "sys.modules['numpyro'] = None\n"
        "try:\n"
        "    aide.numpyro\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "aide.numpyro needs numpyro, which is not installed: "
        "pip install 'aide-inference[numpyro]'.\n"
    )


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'httpstan'", name="httpstan.models")

    monkeypatch.setattr("aide.adapters.import_module", missing)
    with pytest.raises(ImportError, match=r"needs httpstan.models, .*aide-inference\[stan\]"):
        aide.adapters.load_adapter("stan")


def test_an_unknown_name_is_an_error_of_the_module():
    with pytest.raises(AttributeError, match="'aide' has no attribute 'pyro'"):
        getattr(aide, "pyro")  # noqa: B009


def test_every_adapter_has_its_extra(request):
    text = (request.config.rootpath / "pyproject.toml").read_text()
    for extra in filter(None, aide.adapters.EXTRAS.values()):
        assert f"\n{extra} = [" in text


def test_a_gold_standard_is_made_of_the_log_joint(monkeypatch):
    """From the prior, unless there is a start; options are passed on."""
    post = aide.numpyro.posterior(lambda: numpyro.sample("x", dist.Normal(np.zeros(2), 1.0)))
    seen = []

    def fake(key, log_joint, start, **options):
        seen.append(((key, log_joint, start), options))

    monkeypatch.setattr("aide.adapters.posterior.gold_standard", fake)
    start = post.prior()
    key = jax.random.key(0)
    post.gold(key, max_looseness=0.1)
    post.gold(key, start=start)
    (first, log_joint, begin), options = seen[0]
    expected = {"max_looseness": 0.1, "names": ("x[0]", "x[1]")}
    assert (first is key, log_joint) == (True, post.log_joint)
    assert expected.items() <= options.items()
    assert "prior of" in repr(begin)
    assert seen[1][0][2] is start
