"""The card of rows that were written down: counts, silent diagnostics, gold standards, figures."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import image
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from aide.scorecard import ALGORITHMS, Scorecard, read_scorecard
from aide.scorecard.card import MADE
from aide.scorecard.tables import TABLES

BASE: dict[str, Any] = {
    "dimension": 3,
    "value": 0.02,
    "std_error": 0.01,
    "low": 0.0,
    "high": 0.04,
    "worst_mean": 0.01,
    "worst_mean_of": "mu",
    "worst_sd": 1.01,
    "worst_sd_of": "tau",
    "worst_interval": 0.9,
    "worst_interval_of": "mu",
    "total_variation": 0.04,
    "looseness": 0.0,
    "k_hat": 0.2,
    "rhat": None,
    "num_gradients": 1000,
    "verdict": "passed",
    "because": "the largest error of a mean is 0 to 0.04 sd",
    "seconds_load": 2.0,
    "seconds_fit": 10.0,
    "seconds_fit_compile": 4.0,
    "seconds_measure": 5.0,
    "seconds_measure_compile": 3.0,
}
OWN: dict[str, Any] = {
    "algorithm": MADE,
    "k_hat": None,
    "own_verdict": "passed",
    "own_doubts": [],
    "own_looseness": 0.02,
    "own_looseness_std_error": 0.01,
    "largest_z": 1.5,
}
WRONG: dict[str, Any] = {"verdict": "failed", "value": 5.0, "worst_mean": 2.0}


def cell(posterior: str, algorithm: str = "Laplace", **other: Any) -> dict[str, Any]:
    return {**BASE, "posterior": posterior, "algorithm": algorithm, **other}


def gold(posterior: str, **other: Any) -> dict[str, Any]:
    return {**cell(posterior), **OWN, **other}


def failed(posterior: str, algorithm: str) -> dict[str, Any]:
    return {"posterior": posterior, "algorithm": algorithm, "reason": "ValueError: no mode."}


CELLS = [
    cell("a"),
    cell("a", "full rank", **WRONG),
    cell("a", "mean field", **{**WRONG, "k_hat": 0.9}),
    cell("a", "NUTS, 3 steps", **{**WRONG, "k_hat": None, "rhat": 1.002}),
    cell("b", "NUTS, 3 steps", k_hat=None, rhat=1.4),
    failed("b", "Laplace"),
    failed("b", "Pathfinder"),
    gold("a"),
    gold("b", largest_z=9.0),
    gold("c", verdict="failed", own_doubts=["halves differ"], own_verdict="failed", largest_z=9.0),
    gold("d", verdict="undecided", value="inf"),
]


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    out = tmp_path_factory.mktemp("card")
    (out / "card.json").write_text(json.dumps({"settings": {"tolerance": 0.1}}))
    for number, row in enumerate(CELLS):
        folder = out / row["posterior"]
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.json").write_text(json.dumps(row))
    return read_scorecard(out)


def names(rows: Any) -> list[tuple[str, str]]:
    return [(row["posterior"], row["algorithm"]) for row in rows]


def test_a_diagnostic_is_silent_only_where_the_row_fails(card):
    assert names(card.silent) == [("a", "full rank")]
    assert names(card.silent_rhat) == [("a", "NUTS, 3 steps")]


def test_a_gold_standard_that_differs_must_say_so(card):
    assert names(card.agreeing) == [("a", MADE), ("b", MADE)]
    assert names(card.flagged) == [("c", MADE)]
    assert names(card.disagreements) == [("b", MADE)]  # c differs, and says so
    words = dict(card.rows())["gold standards"]
    assert "shown or flagged: 3" in words
    assert words.endswith("without saying so: b.")
    whole = Scorecard(tuple(one for one in card.cells if one["posterior"] != "b"), {})
    assert "None differs by more than 4" in dict(whole.rows())["gold standards"]


def test_seconds_are_counted_once(card):
    fits, made = 5, 4
    assert card.seconds == {
        "loading and score checks": 2.0 * 4,
        "compilation": 7.0 * (fits + made),
        "fits": 6.0 * fits,
        "making gold standards": 6.0 * made,
        "measuring": 2.0 * (fits + made),
    }


@pytest.mark.parametrize("name", TABLES)
def test_tables_have_text_in_every_cell(card, name):
    lines = card.table(name)
    assert lines
    assert all(isinstance(text, str) and text for line in lines for text in line.values())


def test_tables_say_why(card):
    missing, reason = card.table("reasons")
    assert missing["reason"] == "Not run yet."
    assert missing["rows"] == str(4 * len(card.order) - len(CELLS))
    assert "d: Laplace, mean field" in missing["which"]
    assert reason == {
        "rows": "2",
        "which": "b: Laplace, Pathfinder",
        "reason": "ValueError: no mode.",
    }
    assert card.table("gold standards")[0]["posterior"] == "d"  # infinite: the farthest
    said = {line["posterior"]: line["said"] for line in card.table("gold standards")}
    assert said == {"a": "no doubt", "b": "silent", "c": "halves differ", "d": "no doubt"}
    with pytest.raises(ValueError, match="name must be among rows"):
        card.table("columns")
    assert card.row("a", "full rank")["value"] == 5.0
    with pytest.raises(ValueError, match="no row of z and Laplace"):
        card.row("z", "Laplace")


def test_every_line_of_the_page_has_all_columns(card):
    lines = card.markdown().splitlines()
    assert len({line.count(" | ") for line in lines}) == 1
    assert len(lines) == 2 + len(CELLS)


def test_figures(card):
    for draw in (card.plot_heat, card.plot_costs, card.plot_k_hats, card.plot_gold_standards):
        axis = Figure().subplots()
        draw(axis)
        assert axis.has_data()
    axis = Figure().subplots()
    card.plot_heat(axis)
    assert [text.get_text() for text in axis.get_yticklabels()] == list("abcd")
    assert len(axis.get_xticklabels()) == len({row["algorithm"] for row in CELLS})
    assert len(axis.lines) == 2  # one cross for each row without a number
    assert set(card.order) == {*ALGORITHMS, MADE}


def test_figures_of_the_page_have_its_colours(card, tmp_path, monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs" / "_ext")
    parts: Any = importlib.import_module("scorecard_parts")
    for theme, colours in parts.THEMES.items():
        for name in parts.FIGURES:
            parts._draw(card, name, colours, tmp_path / theme / f"{name}.png")
        corner = image.imread(tmp_path / theme / "heat.png")[0, 0, :3]
        np.testing.assert_allclose(corner, to_rgb(colours[0]), atol=1 / 255)
