"""Errors of what one reports, from two sets of draws alone: exact values, limits that hold."""

import numpy as np
import pytest
from scipy import stats
from support import Z_MAX
from support.chains import ar1

import aide
from aide.comparing.draw_sets import errors_between, make_draw_set
from aide.estimation.errors.errors import Errors
from aide.estimation.errors.find import BELOW, INTERVAL, MEAN, PROBABILITY, SD, ErrorOf

EXACT = 1e-12


def error_of(errors: Errors, name: str, quantity: str) -> ErrorOf:
    """Of one variable, which has one."""
    found = errors[name].of(quantity)
    assert found is not None
    return found


def test_errors_are_plain_differences_by_name() -> None:
    """Means in sds of the first set, ratios of sds, shares; the first set is the gold standard."""
    rng = np.random.default_rng(0)
    a, b = ({"theta": rng.normal(size=(n, 2)), "tau": rng.gamma(2.0, size=n)} for n in (300, 200))
    b["theta"][:, 1] = 2.0 + 3.0 * b["theta"][:, 1]
    functions = {"P(tau > 2)": lambda x: x["tau"] > 2.0}
    errors = aide.compare_draws(a, b, names=("NUTS", "ADVI")).errors(functions=functions)
    assert errors.names == ("NUTS", "ADVI")
    assert errors.table.variables[0].name == "theta[1]"
    for name, x, y in (
        ("theta[1]", a["theta"][:, 1], b["theta"][:, 1]),
        ("tau", a["tau"], b["tau"]),
    ):
        mean, sd = error_of(errors, name, MEAN), error_of(errors, name, SD)
        assert mean.error == pytest.approx((y.mean() - x.mean()) / x.std(), abs=EXACT)
        assert sd.error == pytest.approx(y.std() / x.std(), rel=EXACT)
        inside = (np.quantile(y, 0.05) < x) & (x <= np.quantile(y, 0.95))
        covered = error_of(errors, name, INTERVAL).error
        assert covered == pytest.approx(inside.mean(), abs=0.03)
    event = error_of(errors, "P(tau > 2)", PROBABILITY)
    assert event.error == pytest.approx(np.mean(b["tau"] > 2) - np.mean(a["tau"] > 2), abs=EXACT)
    assert not errors.knows_ratios
    assert errors.total_variation is None


def test_the_result_says_the_errors_first() -> None:
    """The sentence names the variable that is wrong; it is in the text and in JSON."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 400, 2))
    b[:, 1] *= 3.0
    found = aide.compare_draws(a, b, names=("NUTS", "ADVI"))
    assert "x[1]" in found.errors().headline
    assert "times too large in x[1]" in " ".join(repr(found).split())
    assert found.numbers()["errors"] == found.errors().headline
    narrow, wide = found.errors(0.5), found.errors()
    assert error_of(narrow, "x[1]", SD).low > error_of(wide, "x[1]", SD).low


@pytest.mark.parametrize(
    ("level", "functions", "words"),
    [
        (95.0, None, "level"),
        (None, {"f": 3}, "must be a function"),
        (None, [abs], "must map names"),
    ],
)
def test_bad_words_are_refused(level, functions, words) -> None:
    """Before anything is computed."""
    rng = np.random.default_rng(2)
    found = aide.compare_draws(*rng.normal(size=(2, 60, 1)))
    with pytest.raises((TypeError, ValueError), match=words):
        found.errors(level, functions=functions)


def truths(mean: float, sd: float) -> dict[str, float]:
    """Of N(mean, sd²) against N(0, 1)."""
    quantiles = stats.norm.ppf([0.05, 0.5, 0.95])
    ends = mean + sd * quantiles[[0, 2]]
    found = {MEAN: mean, SD: sd, INTERVAL: float(np.diff(stats.norm.cdf(ends))[0])}
    return found | dict(zip(BELOW, stats.norm.cdf((quantiles - mean) / sd), strict=True))


def test_limits_hold_for_chains() -> None:
    """Two AR(1) sets; the control hides the dependence by shuffling every chain."""
    rng, count, wanted = np.random.default_rng(3), 80, truths(0.5, 1.4)
    held = {True: 0, False: 0}
    for _ in range(count):
        a, b = ar1(rng, 4, 500, 0.8), 0.5 + 1.4 * ar1(rng, 4, 400, 0.6)
        for is_ordered in held:
            if not is_ordered:
                a, b = (rng.permuted(one.reshape(-1)).reshape(one.shape) for one in (a, b))
            gold, target = make_draw_set("a", a, True), make_draw_set("b", b, True)
            [one] = errors_between(gold, target, 0.95).table.variables
            held[is_ordered] += all(e.low <= wanted[e.quantity] <= e.high for e in one.errors)
    margin = Z_MAX * np.sqrt(0.05 * 0.95 / count)
    assert held[True] / count > 0.95 - margin
    assert held[False] / count < 0.95 - margin


def test_events_alone_get_a_sentence():
    """Without a mean or an sd to speak of, probabilities are what the sentence is about."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.random((300, 2)) < share for share in (0.3, 0.3, 0.6))
    near, far = (str(aide.compare_draws(a, other).errors()) for other in (b, c))
    assert near.startswith("Probabilities within ")
    assert far.startswith("Probabilities off: x[")
