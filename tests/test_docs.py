"""Tutorials run, and the README prints what it says. `make docs` runs all other pages."""

import re
from pathlib import Path

import jax
import pytest

from aide.engine.programs.programs import compile_quickly

ROOT = Path(__file__).parents[1]
QUICK = {"check_your_smc.md", "first_estimate.md", "index.md"}
"""Tutorials that run in seconds; the others, up to a minute each, are long tests."""
PAGES = [
    pytest.param(page, id=page.name, marks=[] if page.name in QUICK else pytest.mark.full)
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.md"))
]


@pytest.fixture
def restored_precision():
    """PyMC turns double precision on for the whole process."""
    flag = jax.config.read("jax_enable_x64")
    yield
    jax.config.update("jax_enable_x64", flag)


@pytest.mark.filterwarnings("default")  # other libraries warn about what they import
@pytest.mark.usefixtures("restored_precision")
@pytest.mark.parametrize("page", PAGES)
def test_tutorials_run(page, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    namespace = {"__name__": "example"}
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    with compile_quickly():
        for block in blocks:
            exec(compile(block, page.name, "exec"), namespace)


def test_the_readme_shows_what_its_example_prints(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = (ROOT / "README.md").read_text()
    found = re.search(r"^```python\n(.*?)^```\s+```\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    exec(compile(found.group(1), "README.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out == found.group(2)
