"""From a script that people have to a verdict, in three lines."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"
ADDED = "# added"


@pytest.mark.full
def test_three_lines_are_added_to_a_script(capsys):
    """The first example of the page: what comes after the mark is at most three statements."""
    script = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)[0]
    before, _, after = script.partition(ADDED)
    assert "aide" not in before
    added = [line for line in after.splitlines()[1:] if line and not line.startswith(" ")]
    assert 1 <= len([line for line in added if line != ")"]) <= 4  # `import aide` and three more
    exec(compile(script, PAGE.name, "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out
    assert re.match(r"1 target against 2,000 NUTS draws, .*: [01] of 1 within 1\n", printed)
