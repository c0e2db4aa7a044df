"""From a script that people have to a verdict, in three lines."""

import re
from pathlib import Path

import jax
import pytest

DOCS = Path(__file__).parents[2] / "docs" / "how_to"
ADDED = "# added\n"


@pytest.fixture
def restored_precision():
    """PyMC turns double precision on for the whole process."""
    flag = jax.config.read("jax_enable_x64")
    yield
    jax.config.update("jax_enable_x64", flag)


@pytest.mark.full
@pytest.mark.filterwarnings("default")  # PyMC warns, about what it imports and its own fits
@pytest.mark.usefixtures("restored_precision")
@pytest.mark.parametrize(
    ("page", "gold"),
    [("numpyro.md", "2,000 NUTS draws"), ("pymc.md", "1,000 draws")],
    ids=["NumPyro", "PyMC"],
)
def test_three_lines_are_added_to_a_script(page, gold, capsys):
    """The first example of the page: what comes after the mark are three lines, all counted."""
    text = (DOCS / page).read_text()
    script = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[0]
    before, _, after = script.partition(ADDED)
    assert "aide" not in before
    lines = list(filter(None, after.splitlines()))
    assert len(lines) == 3
    assert max(map(len, lines)) <= 100
    exec(compile(script, page, "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out
    assert re.search(rf"1 target against {gold}: [01] of 1 within 1 nats?\n", printed)
