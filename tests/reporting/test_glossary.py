"""Every label that is printed is in the glossary, and its example figures are right."""

import re
from pathlib import Path

import pytest
from support.results import NAME, RESULTS

from aide.comparing.columns import COLUMNS
from aide.estimation import total_variation_bound
from aide.reporting.numbers import EXIT_CODES

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "glossary.md").read_text()
DEFINED = {*re.findall(r"`([^`]+)`", TEXT), *(f"law {number}" for number in range(1, 7))}
OF_USERS = {NAME, "b", "slope", "noise level"}
"""Names of draws and of features of data, which are headings too."""


def test_every_label_is_defined():
    shown = {column.title for column in COLUMNS}
    for build in RESULTS.values():
        result = build()
        grid = result.grid()
        shown |= {label for label, _ in result.rows()} | set(() if grid is None else grid.titles)
    assert shown - OF_USERS - DEFINED == set()


def test_every_verdict_is_defined_with_its_exit_code():
    for verdict, code in EXIT_CODES.items():
        assert re.search(rf"^\| `{verdict}` .* \| {code} \|$", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("nats", "off"), [(0.01, 0.05), (0.1, 0.16), (1.0, 0.48)])
def test_nats_and_probabilities(nats, off):
    assert total_variation_bound(nats) == pytest.approx(off, abs=0.005)
    assert f"{nats:g} nat" in TEXT
    assert f"{off:g}" in TEXT
