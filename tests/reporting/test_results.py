"""All results are shown in the same ways, cheaply, and users' words reach no terminal or page."""

import io
import json
import math

import matplotlib.figure
import numpy as np
import pytest
import rich.console
from support.made import estimate_with

import aide
from aide._core.identity import identity_of
from aide.auditing.result import Audit, AuditTest
from aide.auditing.simulated.result import Simulated
from aide.auditing.simulated.runs import Pieces
from aide.checking.algorithm.evidence import Evidence
from aide.checking.algorithm.report import CheckReport
from aide.checking.kernel.laws import LawTest
from aide.checking.kernel.result import KernelCheck
from aide.checking.kernel.start import StartQuality
from aide.comparing.compare import compare_estimates
from aide.convergence.curve import Convergence
from aide.diagnosing import Diagnosis, StepDiagnosis
from aide.estimation import Contrast, Sandwich
from aide.estimation.closeness import judge
from aide.estimation.means import Mean
from aide.reporting import Result
from aide.reporting.data import as_csv, as_data
from aide.reporting.numbers import cell, factor, p_value, rounded_up, short, with_error

NAME = "<b>fit</b> [/] \x1b[31mred\x1b[0m \u202e"
SHOWN = "<b>fit</b> [/] �[31mred�[0m �"
NOISE = np.linspace(-1.0, 1.0, 60)
BLANK = (np.nan, np.nan)


def _estimate(shift=0.2):
    return estimate_with(shift + NOISE, shift + NOISE, names=("the truth", NAME))


def _simulated():
    table = np.stack([NOISE, NOISE], axis=1)
    real = NOISE[:, None]
    return Simulated(Pieces(NOISE + 0.3, real, NOISE, table, real, real, real), 0.0, NAME)


def _convergence():
    estimates = (estimate_with(NOISE, NOISE, names=(NAME, "chain")), _estimate())
    return Convergence((1, 4), estimates, BLANK, BLANK, BLANK, 0, "runs.", (f"{NAME} is stuck",))


def _audit():
    estimate = _estimate()
    test = AuditTest(NAME, estimate, judge(estimate, 0.5))
    return Audit((test,), _simulated(), 0.5, (f"{NAME} was not tested",), NAME, identity_of(NAME))


def _check():
    evidence = (
        Evidence(2, NAME, 1e-9, "41% were positive", 100),
        Evidence(1, "as given", None, "no region", 100),
        Evidence(5, "as given", 0.3, "is 1.02", 100, 0.02),
    )
    return CheckReport(NAME, evidence, 1e-4, 1000, place="step 2 of 4 (Extend)")


def _kernel():
    law = LawTest("invariance", 0.4, 1.3, "the mean")
    return KernelCheck(0.4, 1e-4, None, law, StartQuality(1000.0, 0.1, 0.0, 0.5), 4000, NAME)


def _diagnosis():
    steps = (
        StepDiagnosis(0, None, None, 0.5, 10.0, 0.0, None),
        StepDiagnosis(1, 0.2, 0.01, 0.9, 1.0, 1.0, 0.1),
    )
    return Diagnosis(NAME, 10, 3, steps, np.array([-np.inf, 0.0, 1.0]))


RESULTS = {
    "diagnosis": _diagnosis,
    "estimate": _estimate,
    "infinite": lambda: estimate_with(np.r_[np.inf, NOISE], NOISE, names=("gold", NAME)),
    "comparison": lambda: compare_estimates({NAME: _estimate(), "far": _estimate(5.0)}, 1.0),
    "no tolerance": lambda: compare_estimates({NAME: _estimate()}),
    "sandwich": lambda: Sandwich(0.1, math.inf, 0.9, False, True),
    "contrast": lambda: Contrast(NAME, Mean(1.0, 0.1), Mean(1.5, math.inf)),
    "convergence": _convergence,
    "audit": _audit,
    "simulated": _simulated,
    "check": _check,
    "kernel": _kernel,
}


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
        assert f"  {clean(name):<15} {clean(words)}" in text
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
    assert "FAILED" in _check().headline
    assert "color:red" in _check()._repr_html_()
    assert "PASSED" in _kernel().headline
    assert "color:green" in _kernel()._repr_html_()
    assert "color" not in _estimate()._repr_html_()


def test_the_check_shows_every_test():
    text = repr(_check())
    assert "p = 2e-09 over 2 tests, 2 versions, 1,000 runs" in text
    assert "1    as given" in text
    assert "not tested  no region" in text
    assert "wrong move      the first one: step 2 of 4 (Extend)" in text
    assert "a correct algorithm fails with probability 0.0001 at most" in text


def test_numbers():
    assert with_error(0.2134, 0.0123) == "0.213 ± 0.012"
    assert with_error(math.inf, math.inf) == "+inf"
    assert with_error(1e-12, 0.0) == "0 ± 0"
    assert with_error(1.0, math.nan) == "1 ± ?"
    assert (short(1e-12), short(-math.inf), short(0.12345, 2)) == ("0", "-inf", "0.12")
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
