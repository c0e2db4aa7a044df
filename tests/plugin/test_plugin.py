"""The plugin of pytest: shares of the rate, verdicts as failures, what a failure names."""

import subprocess
import sys

import jax
import pytest

from aide_pytest import AideLaws

pytest_plugins = ["pytester"]

SUITE = """
import jax
import jax.numpy as jnp
import pytest
import aide
from aide.problems import Normal

GOLD = aide.Tractable.of(Normal(0.0, 1.0))

def log_density(x):
    return jnp.logaddexp(Normal(-1.0, 0.5).log_prob(x), Normal(1.0, 0.9).log_prob(x))

def adjusted(key, x):
    return aide.kernels.Mala(0.8).step(key, log_density, x)

def unadjusted(key, x):
    return x + 0.32 * jax.grad(log_density)(x) + 0.8 * jax.random.normal(key)

def drifting(key, log_density, x):
    return x + 0.32 * jax.grad(log_density)(x) + 0.8 * jax.random.normal(key)

@pytest.mark.parametrize("kernel", [adjusted, unadjusted])
def test_kernel(aide_laws, kernel):
    aide_laws.kernel(kernel, log_density, Normal(0.0, 2.0))

RIGHT, WRONG = aide.kernels.Mala(0.8), aide.kernels.Kernel(drifting, reversible=True)

@pytest.mark.parametrize("kernel", [RIGHT, WRONG], ids=["right", "wrong"])
def test_algorithm(aide_laws, kernel):
    start = Normal(0.0, 2.0)
    algorithm = aide.ais(start, log_density, kernel=kernel, num_temperatures=3)
    aide_laws.algorithm(algorithm, allow_undecided=True)

@pytest.mark.parametrize(("spread", "num"), [(1.05, 400), (3.0, 400), (1.2, 60)])
def test_gate(aide_laws, spread, num):
    target = aide.Tractable.of(Normal(0.0, spread))
    aide_laws.within(0.1, GOLD, target, num_gold=num, num_target=num)

@pytest.mark.parametrize("allowed", [False, True])
def test_start(aide_laws, allowed):
    aide_laws.kernel(adjusted, log_density, Normal(-1.0, 0.1), allow_undecided=allowed)
"""


def run_pytest(folder, text, *options):
    """Run a suite in a process of its own; its report."""
    (folder / "test_suite.py").write_text(text)
    plugins = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "aide_pytest"]
    command = [sys.executable, "-m", "pytest", "-rA", *plugins, *options, str(folder)]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return found.stdout


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return run_pytest(tmp_path_factory.mktemp("suite"), SUITE)


def outcome(report, test):
    """PASSED or FAILED and the first line of the message, from the summary at the end."""
    summary = report.split("short test summary info")[-1]
    (line,) = [line for line in summary.splitlines() if f"::{test}" in line]
    return line.split(" ", 1)[0], line.split(" - ", 1)[-1]


@pytest.mark.parametrize(
    "test",
    ["test_kernel[adjusted]", "test_algorithm[right]", "test_gate[1.05-400]", "test_start[True]"],
)
def test_right_ones_pass(report, test):
    assert outcome(report, test)[0] == "PASSED"


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("test_kernel[unadjusted]", "LawBroken: unadjusted breaks laws reversible and invariance"),
        ("test_algorithm[wrong]", "the first wrong move is"),
        ("test_gate[3.0-400]", "GateFailed: "),
        ("test_gate[1.2-60]", "GateFailed: "),
        ("test_start[False]", "LawUndecided: No law of adjusted is seen to be broken"),
    ],
)
def test_wrong_ones_fail_and_the_message_names_the_law_and_the_move(report, test, words):
    assert outcome(report, test)[0] == "FAILED"
    assert words in report


def test_the_summary_counts_verdicts_and_states_the_rate(report):
    counts = "aide: 9 checks: 3 failed, 3 passed, 3 undecided. Where all laws hold, a law is"
    assert counts in report
    assert "with probability 0.001 at most, over the tests together." in report


def laws(share=0.01, seed=0, name="test_one"):
    return AideLaws(share, seed, name, lambda check, verdict: None)


def test_checks_of_a_test_never_use_more_than_its_share():
    one = laws()
    shares = [one.next_check()[1] for _ in range(200)]
    assert shares[0] == one.share / 2
    assert 0.99 * one.share < sum(shares) < one.share


def test_seed_name_and_number_of_the_check_decide_its_key():
    """The same three, the same key; any other, another one."""
    found = [laws(seed=seed, name=name) for seed in (0, 1) for name in ("a", "b")]
    keys = [jax.random.key_data(one.next_check()[0]).tolist() for one in found for _ in range(3)]
    assert len(set(map(tuple, keys))) == 12
    again = laws(seed=1, name="b")
    assert [jax.random.key_data(again.next_check()[0]).tolist() for _ in range(3)] == keys[9:]


SHARES = """
    import pytest

    @pytest.mark.parametrize("number", range(4))
    def test_share(aide_laws, number):
        assert aide_laws.share == pytest.approx(SHARE)

    def test_without():
        pass
"""


@pytest.mark.parametrize(
    ("options", "ini", "share"),
    [
        ((), "", 0.001 / 4),
        (("-k", "1 or 2"), "", 0.001 / 4),  # tests that -k leaves out keep their shares
        (("--aide-false-alarm=0.01",), "aide_false_alarm = 0.1", 0.01 / 4),
        ((), "aide_false_alarm = 0.1\naide_tests = 50", 0.1 / 50),
    ],
)
def test_the_rate_is_divided_over_the_tests_that_ask_for_the_fixture(pytester, options, ini, share):
    pytester.makeini(f"[pytest]\n{ini}")
    pytester.makepyfile(SHARES.replace("SHARE", str(share)))
    assert pytester.runpytest_inprocess(*PLAIN, *options).ret == 0


PLAIN = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:jaxtyping", "-p", "aide_pytest")


@pytest.mark.parametrize(
    ("ini", "words"),
    [
        ("aide_false_alarm = 2", "aide_false_alarm must be a number strictly between 0 and 1"),
        ("aide_seed = x", "aide_seed must be a whole number of at least 0, got 'x'"),
        ("aide_tests = -1", "aide_tests must be a whole number of at least 0, got '-1'"),
    ],
)
def test_settings_that_make_no_sense_are_named(pytester, ini, words):
    pytester.makeini(f"[pytest]\n{ini}")
    pytester.makepyfile(SHARES.replace("SHARE", "1.0"))
    found = pytester.runpytest_inprocess(*PLAIN)
    assert found.ret != 0
    assert words in f"{found.stdout}{found.stderr}"


def test_suites_without_laws_load_neither_aide_nor_jax(tmp_path):
    text = "import sys\n\ndef test_light():\n    assert not {'aide', 'jax'} & set(sys.modules)\n"
    report = run_pytest(tmp_path, text, "-p", "no:jaxtyping")
    assert "1 passed" in report, report
