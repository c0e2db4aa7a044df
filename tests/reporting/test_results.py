"""All results are shown in the same ways, cheaply, and users' words reach no terminal or page."""

import io
import json
import math
from typing import get_args

import matplotlib.figure
import numpy as np
import pytest
import rich.console
from support.results import NAME, RESULTS, SHOWN

import aide
from aide.estimation.terms import Mean
from aide.reporting import Result
from aide.reporting.numbers import (
    COLOURS,
    EXIT_CODES,
    FAILED,
    PASSED,
    UNDECIDED,
    Verdict,
    all_of,
    cell,
    colour_of,
    factor,
    in_nats,
    p_value,
    rounded_up,
    short,
    with_error,
)
from aide.reporting.result import as_csv, as_data


@pytest.fixture(params=RESULTS)
def result(request):
    return RESULTS[request.param]()


def test_every_result_is_shown_in_every_way(result):
    assert isinstance(result, Result)
    text = repr(result)
    assert str(result) == text == repr(result)
    clean = lambda words: words.replace(NAME, SHOWN)
    assert text.startswith(clean(result.headline))
    for name, words in (*result.rows(), *(("note", note) for note in result.notes)):
        label = f"  {clean(name):<15}"
        gap = " " if len(label) == 17 else f"\n{18 * ' '}"  # a long name has a line of its own
        assert f"{label.rstrip() if gap != ' ' else label}{gap}{clean(words)}" in text
    console = rich.console.Console(record=True, width=300, file=io.StringIO())
    console.print(result)
    table = console.export_text()
    assert clean(result.headline) in table
    page = result._repr_html_()
    for shown in (text, table, page):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert "<b>" not in page
    assert ("&lt;b&gt;fit" in page) == (SHOWN in text or NAME in result.subject)
    figure = result.plot()
    assert isinstance(figure, matplotlib.figure.Figure)
    figure.canvas.draw()


def test_every_result_is_data(result):
    def refuse(text):
        raise AssertionError(f"{text} is no JSON")

    found = json.loads(result.to_json(), parse_constant=refuse)
    assert found["headline"] == result.headline
    assert found["verdict"] == result.verdict
    assert found["notes"] == list(result.notes)
    assert [tuple(row) for row in found["rows"]] == result.rows()
    assert len(found["records"]) == len(result.records())
    assert len(result.to_csv().splitlines()) == len(result.records()) + bool(result.records())


def test_the_verdict_is_in_the_headline_and_in_its_colour():
    assert "failed" in RESULTS["check"]().headline
    assert "color:var(--failed,red)" in RESULTS["check"]()._repr_html_()
    assert "passed" in RESULTS["kernel"]().headline
    assert "color:var(--passed,green)" in RESULTS["kernel"]()._repr_html_()
    assert "color" not in RESULTS["estimate"]()._repr_html_()


def test_the_check_shows_every_test():
    text = repr(RESULTS["check"]())
    assert "p = 2e-09 over 2 tests of 2 versions in 1,000 runs" in text
    assert "1    as given" in text
    assert "not tested  no region" in text
    assert "wrong move      The first wrong move is step 2 of 4 (Extend)." in text
    assert "A correct algorithm fails with probability 0.0001 at most" in text


def test_numbers():
    assert with_error(0.2134, 0.0123) == "0.213 ± 0.012"
    assert with_error(math.inf, math.inf) == "+inf"
    assert with_error(1e-12, 0.0) == "0 ± 0"
    assert with_error(1.0, math.nan) == "1 ± ?"
    assert (short(1e-12), short(-math.inf), short(0.12345, 2)) == ("0", "-inf", "0.12")
    assert (short(6543.2, 2), short(-1234.5), short(2e7, 2)) == ("6,500", "-1,230", "2e+07")
    assert (in_nats(0.5), in_nats(1), in_nats(0.996, 2), in_nats(1.04, 2)) == (
        "0.5 nats",
        "1 nat",
        "1 nat",
        "1 nat",
    )
    assert (in_nats("+inf"), in_nats(11.0), in_nats(1.04)) == ("+inf nats", "11 nats", "1.04 nats")
    assert [rounded_up(x) for x in (0.1201, 0.0, math.inf)] == ["0.13", "1e-9", "+inf"]
    assert (p_value(0.0123), p_value(1e-20)) == ("p = 0.012", "p < 1e-12")
    assert (factor(0.0), factor(math.log(10) * 1000)) == ("1", "1e+1000")
    assert [cell(x, ".1f") for x in (None, math.nan, 0.25)] == ["–", "–", "0.2"]


def test_data_hold_what_json_cannot():
    assert as_data({"a": (np.inf, np.int64(3)), "b": Mean(np.nan, 1.0)}) == {
        "a": ["inf", 3],
        "b": {"value": "nan", "std_error": 1.0},
    }
    assert as_csv([{"a": None, "b": 'x, "y"'}]) == 'a,b\r\n,"x, ""y"""\r\n'


def test_namespaces_hold_the_results():
    for thing in (
        aide.estimation.Estimate,
        aide.comparing.Comparison,
        aide.auditing.Audit,
        aide.auditing.Simulated,
        aide.checking.CheckReport,
        aide.checking.KernelCheck,
        aide.convergence.Convergence,
        aide.diagnosing.Diagnosis,
    ):
        assert issubclass(thing, aide.reporting.Result)


def test_verdicts_are_three_words_everywhere(result):
    """In headline, data and colours; the old words are the control."""
    words = set(get_args(Verdict))
    assert words == {"passed", "failed", "undecided"} == set(COLOURS) == set(EXIT_CODES)
    assert result.verdict in (*words, None)
    grid = result.grid()
    assert grid is None or set(grid.verdicts) <= {*words, ""}
    text = repr(result)
    for other in (
        "FAILED",
        "PASSED",
        "REJECTED",
        "INCONCLUSIVE",
        "DISAGREES",
        "too far",
        "flagged",
    ):
        assert other not in text


def test_a_verdict_on_all_is_that_of_the_worst():
    assert all_of([]) == all_of([PASSED, PASSED]) == PASSED
    assert all_of([PASSED, UNDECIDED]) == UNDECIDED
    assert all_of([FAILED, UNDECIDED, PASSED]) == FAILED
    assert colour_of("anything else") == colour_of(None) == ""
