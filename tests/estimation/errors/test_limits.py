"""Limits of errors against known truths, over many replications in NumPy; controls that fail."""

import numpy as np
import pytest
from scipy import stats
from support import Z_MAX

from aide.estimation.errors.bets import mean_limits, upper_mean
from aide.estimation.errors.find import BELOW, INTERVAL, MEAN, SD, find_table
from aide.estimation.errors.lines import AT_ONCE, find_lines
from aide.estimation.errors.overlap import Overlap, apart, apart_in, bennett_constant
from aide.estimation.errors.quantiles import ranked_by, share_below
from aide.estimation.errors.quantities import moments_of, scaled_by, sd_log_ratio
from aide.estimation.errors.simultaneous import SEED, largest_errors, limits_of
from aide.estimation.errors.statistics import Estimated, estimate_statistics
from aide.estimation.errors.variables import OutputVariable

NUM = 400


def truths(mean: float, sd: float) -> dict[str, float]:
    """Of N(mean, sd²) against N(0, 1)."""
    quantiles = stats.norm.ppf([0.05, 0.5, 0.95])
    ends = mean + sd * quantiles[[0, 2]]
    found = {MEAN: mean, SD: sd, INTERVAL: float(np.diff(stats.norm.cdf(ends))[0])}
    return found | dict(zip(BELOW, stats.norm.cdf((quantiles - mean) / sd), strict=True))


def sample(
    rng: np.random.Generator, pairs: list[tuple[float, float]], sizes=(NUM, NUM), known=True
) -> tuple[Overlap, list[OutputVariable]]:
    """Independent coordinates N(0, 1) under the gold standard, N(mean, sd²) under the target."""
    num_gold, num_target = sizes
    ratio, variables = np.zeros(sum(sizes)), []
    for index, (mean, sd) in enumerate(pairs):
        target = mean + sd * rng.normal(size=num_target)
        x = np.concatenate([rng.normal(size=num_gold), target])
        ratio += stats.norm.logpdf(x) - stats.norm.logpdf(x, mean, sd)
        variables.append(OutputVariable(f"x[{index}]", x))
    share = num_gold / sum(sizes)
    if not known:
        ratio -= bennett_constant(ratio, num_gold, share)
    return Overlap(ratio, num_gold, share, known), variables


PAIRS = {"near": (0.05, 1.03), "middle": (0.5, 1.3), "far": (-3.0, 0.8)}


@pytest.mark.parametrize("known", [True, False], ids=["Z known", "Z unknown"])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_estimates_are_right_and_their_errors_too(pair, known):
    """Estimates scatter about the truth as stated: mean and spread of z over replications."""
    rng, count = np.random.default_rng(11), 80
    truth, z = truths(*pair), {}
    for _ in range(count):
        overlap, variables = sample(rng, [pair], (NUM, 300), known)
        [one] = find_table(overlap, variables, 0.95).variables
        for error in one.errors:
            value, wanted = error.error, truth[error.quantity]
            if error.quantity == SD:
                value, wanted = np.log(value), np.log(wanted)
            z.setdefault(error.quantity, []).append((value - wanted) / error.std_error)
    for quantity in (MEAN, SD):
        scores = np.array(z[quantity])
        assert abs(scores.mean()) < Z_MAX / np.sqrt(count) + 0.15  # a second-order bias is allowed
        assert 1 - Z_MAX * np.sqrt(0.5 / count) < scores.std() < 1 + Z_MAX * np.sqrt(0.5 / count)
    for quantity in (INTERVAL, *BELOW):  # few outputs in a tail: limits are wider there, on purpose
        scores = np.array(z[quantity])
        assert np.mean(np.abs(scores) < 1.96) > 0.95 - Z_MAX * np.sqrt(0.05 * 0.95 / count)


def test_wrong_ratios_are_seen():
    """The control: a ratio with the wrong sign at the target's outputs."""
    rng, z = np.random.default_rng(11), []
    for _ in range(60):
        overlap, variables = sample(rng, [PAIRS["middle"]])
        wrong = overlap.log_ratio.copy()
        wrong[NUM:] *= -1
        [one] = find_table(Overlap(wrong, NUM, 0.5, True), variables, 0.95).variables
        z.append((one.errors[0].error - 0.5) / one.errors[0].std_error)
    assert abs(np.mean(z)) > 2 * Z_MAX / np.sqrt(60)


def _joint_coverage(pairs, level_of, count=80):
    rng, covered = np.random.default_rng(5), 0
    for _ in range(count):
        overlap, variables = sample(rng, pairs)
        table = find_table(overlap, variables, level_of)
        wanted = {f"x[{index}]": truths(*pair) for index, pair in enumerate(pairs)}
        covered += all(
            error.low <= wanted[one.name][error.quantity] <= error.high
            for one in table.variables
            for error in one.errors
        )
    return covered / count


def test_limits_hold_for_the_whole_table():
    pairs = [(0.2, 1.1), (0.0, 1.0), (-0.3, 0.9), (0.0, 1.2)]
    assert _joint_coverage(pairs, 0.95) > 0.95 - Z_MAX * np.sqrt(0.05 * 0.95 / 80)
    alone = _joint_coverage(pairs, 0.5)  # the control: limits at another level than they say
    assert alone < 0.95 - Z_MAX * np.sqrt(0.05 * 0.95 / 80)


def _student(found: Estimated, level: float) -> tuple[np.ndarray, np.ndarray]:
    half = found.std_error * stats.t.ppf(0.5 + level / 2, found.freedom)
    return found.value - half, found.value + half


def test_limits_far_out_of_a_small_share():
    """Where limits of large tables lie, Student's, the control, fail above."""
    rng, num, level, count = np.random.default_rng(1), 400, 0.999, 3000
    overlap, missed = apart_in((num, num), (None, None)), {limits_of: 0, _student: 0}
    for _ in range(10):
        ranked = ranked_by(overlap, rng.normal(size=(count // 10, 2 * num)))
        found = estimate_statistics(overlap, [share_below(overlap, ranked, 0.05)])
        for limits in missed:
            missed[limits] += int(np.sum(limits(found, level)[1] < 0.05))
    expected = count * (1 - level) / 2
    most = expected + Z_MAX * np.sqrt(expected)
    assert missed[limits_of] < most < missed[_student]


def _sd_error(overlap: Overlap, x: np.ndarray) -> Estimated:
    scaled = scaled_by(moments_of(overlap, x), x)
    return estimate_statistics(overlap, [sd_log_ratio(overlap, scaled)])


def test_limits_of_a_skewed_estimate_are_longer_on_one_side_and_never_shorter():
    """Long tails of the target make its sd uncertain above, those of the gold standard below."""
    rng, num, level = np.random.default_rng(6), 300, 0.99
    overlap = apart_in((num, num), (None, None))
    for is_target in (True, False):
        x = np.concatenate([rng.normal(size=num), rng.exponential(size=num)])
        x = x if is_target else x[::-1]
        found = _sd_error(overlap, x)
        (low, high), plain = limits_of(found, level), _student(found, level)
        assert low <= plain[0]
        assert plain[1] <= high
        below, above = (plain[0] - low) / found.std_error, (high - plain[1]) / found.std_error
        assert (above > 0.2 and below == 0) if is_target else (below > 0.2 and above == 0)


def test_skewness_and_curvature_are_those_of_a_variance():
    r"""Of $\frac12\log V$ alone: contributions $\frac12(z^2 - 1)/n$, second order $-e^2/4$."""
    rng, num = np.random.default_rng(7), 500
    x = np.concatenate([np.tile([-1.0, 1.0], num // 2), rng.exponential(size=num)])
    overlap = apart_in((num, num), (None, None))
    found = _sd_error(overlap, x)
    z = (x[num:] - x[num:].mean()) / x[num:].std()
    used = 0.5 * (z**2 - 1)
    assert found.skewness == pytest.approx(stats.skew(used) / np.sqrt(num), rel=0.01)
    # Along u, V changes by e = 2 s and the mean by cov(z, u) / (n s) sds: -e²/4 - shift²/2.
    error = found.std_error
    shift = np.mean(z * used) / num / error
    assert found.curvature == pytest.approx((-(error**2) - shift**2 / 2) / error, rel=0.02)


def test_one_estimate_needs_no_correction_and_more_need_it():
    rng = np.random.default_rng(2)
    overlap, variables = sample(rng, [(0.2, 1.1)] * 3)
    event = [OutputVariable("e", (variables[0].values > 1).astype(float), True)]
    assert find_table(overlap, event, 0.95).single == 0.95
    single = find_table(overlap, variables, 0.95).single
    assert 1 - 0.05 / 2 < single < 1 - 0.05 / 18 + 1e-12


def test_many_variables_at_once_are_each_of_them_alone():
    """The same estimates from one variable and from many; the control: of another variable."""
    overlap, variables = sample(np.random.default_rng(8), [(0.1, 1.2)] * 60)
    assert 60 * overlap.log_ratio.size > AT_ONCE
    many = find_lines(overlap, variables).found
    one, other = (find_lines(overlap, [variables[index]]).found for index in (41, 42))
    for found, alone, wrong in zip(many, one, other, strict=True):
        np.testing.assert_allclose(found[6 * 41 : 6 * 42], alone, rtol=1e-9, atol=1e-14)
        assert wrong.dtype == bool or not np.allclose(found[6 * 41 : 6 * 42], wrong)


def test_simulated_quantile_is_exact():
    """Single precision finds the tables near the quantile; the quantile is that of doubles."""
    root = np.random.default_rng(3).normal(size=(40, 90))
    root /= np.sqrt(np.sum(root**2, axis=0))
    draws = np.random.default_rng(SEED).standard_normal((1000, 40))
    exact = np.abs(draws @ root).max(axis=1)
    found = largest_errors(root, 1000, 0.95)
    assert np.quantile(found, 0.95) == pytest.approx(np.quantile(exact, 0.95), rel=1e-14)
    assert np.any(found != exact)  # most numbers are in single precision


def test_constant_under_one_of_two_is_named():
    """Also where the mean of a constant is rounded, as of 0.3 in most numbers of runs."""
    for num in range(10, 40):
        x = np.concatenate([np.full(num, 0.3), np.linspace(0.0, 1.0, num)])
        table = find_table(apart_in((num, num), (None, None)), [OutputVariable("x", x)], 0.95)
        assert table.collapsed == ("x",)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("pair", "most"), [((0.03, 1.0), 0.01), ((0.2, 1.0), 0.05), ((1.0, 1.5), 1.05), ((4, 1), 1.05)]
)
def test_never_less_precise_than_the_plain_difference(pair, most, known):
    rng, bounded, plain = np.random.default_rng(3), [], []
    for _ in range(120):
        overlap, variables = sample(rng, [pair], known=known)
        x = variables[0].values
        bounded.append(find_table(overlap, variables, 0.95).variables[0].errors[0].error)
        plain.append((x[NUM:].mean() - x[:NUM].mean()) / x[:NUM].std())
    ratio = np.mean((np.array(bounded) - pair[0]) ** 2) / np.mean((np.array(plain) - pair[0]) ** 2)
    assert ratio < most * (1 + Z_MAX * np.sqrt(2 / 120) * (most < 1))


def ar1(rng: np.random.Generator, num: int, phi: float) -> np.ndarray:
    x = rng.normal(size=num)
    for i in range(1, num):
        x[i] = phi * x[i - 1] + np.sqrt(1 - phi**2) * x[i]
    return x


def test_autocorrelated_draws_of_the_gold_standard():
    """An AR(1) gold standard; the control takes its draws for independent."""
    rng, phi, num, count = np.random.default_rng(9), 0.9, 1000, 100
    rows = (np.arange(num), None)
    covered = {True: 0, False: 0}
    for _ in range(count):
        gold, target = ar1(rng, num, phi), 2.0 + 0.7 * rng.normal(size=num)
        x = np.concatenate([gold, target])
        ratio = stats.norm.logpdf(x) - stats.norm.logpdf(x, 2.0, 0.7)
        for right in (True, False):
            overlap = Overlap(ratio, num, 0.05 if right else 0.5, True, ((rows[0],), None))
            if not right:
                overlap = Overlap(ratio, num, 0.5, True)
            table = find_table(overlap, [OutputVariable("x", x)], 0.95)
            wanted = truths(2.0, 0.7)
            covered[right] += all(
                e.low <= wanted[e.quantity] <= e.high for e in table.variables[0].errors
            )
    assert covered[True] / count > 0.95 - Z_MAX * np.sqrt(0.05 * 0.95 / count)
    assert covered[False] < covered[True]
    assert covered[False] / count < 0.85


def test_limits_of_bounded_means_hold():
    """For laws with rare large terms, where normal limits fail; and they are not wide."""
    rng, count = np.random.default_rng(4), 200
    for draw, mean in (
        (lambda: rng.random(300) < 0.003, 0.003),
        (lambda: rng.beta(0.2, 3.0, size=300), 0.2 / 3.2),
        (lambda: 1.0 - (rng.random(300) < 0.003), 0.997),
    ):
        uppers = np.array([upper_mean(draw().astype(float), 0.95) for _ in range(count)])
        assert np.mean(uppers >= mean) > 0.95 - Z_MAX * np.sqrt(0.05 * 0.95 / count)
        assert np.median(uppers) < mean + 6 * np.sqrt(mean * (1 - mean) / 300) + 4 / 300
    assert upper_mean(np.zeros(500), 0.95) == pytest.approx(-np.log(0.05) / 500, rel=0.4)
    low, high = mean_limits(rng.random(500), 0.95)
    assert 0.4 < low < 0.5 < high < 0.6
    normal = lambda terms: terms.mean() + 1.645 * terms.std() / np.sqrt(terms.size)
    misses = [normal((rng.random(300) < 0.003).astype(float)) < 0.003 for _ in range(count)]
    assert np.mean(misses) > 0.05 + Z_MAX * np.sqrt(0.05 * 0.95 / count)  # the control


def test_apart_is_the_plain_difference():
    from support.pairs import gaussian, run

    draws = run(gaussian(0.1, 0.7), gaussian(0.3, 1.3), 60, 50).draws
    overlap = apart(draws)
    x = np.concatenate([draws.gold.values, draws.target.values])
    [one] = find_table(overlap, [OutputVariable("x", x)], 0.9).variables
    assert one.errors[0].error == pytest.approx((x[60:].mean() - x[:60].mean()) / x[:60].std())
    assert one.errors[1].error == pytest.approx(x[60:].std() / x[:60].std())
