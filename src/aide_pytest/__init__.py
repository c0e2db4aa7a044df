r"""The laws of samplers as tests: a plugin of pytest that brings one fixture, `aide_laws`.

The plugin is a package of its own and imports `aide` at the first use of the fixture, so that test
suites without such tests load neither `aide` nor JAX.

The false-alarm rate $\alpha$ of a suite is divided over its tests (Bonferroni): each of the $n$
collected tests that ask for the fixture gets $\alpha/n$, and the k-th check inside a test
$\alpha/\{n\,k(k+1)\}$, which sums to $\alpha$ at most, however many checks a test makes.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from aide_pytest.laws import AideLaws, GateFailed, LawBroken, LawUndecided

__all__ = ["AideLaws", "GateFailed", "LawBroken", "LawUndecided", "aide_laws"]

FIXTURE = "aide_laws"
FALSE_ALARM = 1e-3
"""Rate at which a suite of correct samplers fails, unless the suite states another one."""
PROPERTY = "aide"
"""Name under which every check leaves its verdict in the test's report (and in JUnit XML)."""
NUM_TESTS = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Rate, seed and number of tests, in the configuration file or on the command line."""
    rate = f"rate at which a suite of correct samplers fails (default {FALSE_ALARM:g})"
    seed = "seed of the runs of all checks (default 0)"
    tests = "number of tests that share the rate (default: all that were collected)"
    parser.addini("aide_false_alarm", rate, default=str(FALSE_ALARM))
    parser.addini("aide_seed", seed, default="0")
    parser.addini("aide_tests", tests, default="")
    group = parser.getgroup("aide", "laws of samplers")
    group.addoption("--aide-false-alarm", help=rate)
    group.addoption("--aide-seed", help=seed)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Count the tests that share the rate, before any is left out by `-k` or `-m`."""
    asking = sum(FIXTURE in getattr(item, "fixturenames", ()) for item in items)
    stated = config.getini("aide_tests")
    config.stash[NUM_TESTS] = max(_whole(stated, "aide_tests") if stated else asking, 1)


@pytest.fixture
def aide_laws(request: pytest.FixtureRequest) -> AideLaws:
    """Laws of algorithms and kernels, and gates, at this test's share of the false-alarm rate."""
    config, node = request.config, request.node

    def record(check: str, verdict: str) -> None:
        node.user_properties.append((PROPERTY, f"{check}: {verdict}"))

    return AideLaws(
        share=_rate(config) / config.stash.get(NUM_TESTS, 1),
        seed=_setting(config, "aide_seed"),
        name=node.nodeid,
        record=record,
    )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """How many checks had which verdict, and the rate that they share."""
    reports = [r for found in terminalreporter.stats.values() for r in found]
    verdicts = Counter(_verdicts(reports))
    if not verdicts:
        return
    counts = ", ".join(f"{num} {verdict}" for verdict, num in sorted(verdicts.items()))
    terminalreporter.write_line(
        f"aide: {sum(verdicts.values())} checks: {counts}. Where all laws hold, a law is reported "
        f"as broken with probability {_rate(config):g} at most, over the tests together."
    )


def _verdicts(reports: Iterable[Any]) -> list[str]:
    tests = [r for r in reports if getattr(r, "when", None) == "call"]
    properties = [pair for report in tests for pair in report.user_properties]
    return [str(text).rsplit(": ", 1)[-1] for name, text in properties if name == PROPERTY]


def _rate(config: pytest.Config) -> float:
    stated = config.getoption("aide_false_alarm") or config.getini("aide_false_alarm")
    try:
        rate = float(stated)
    except ValueError:
        rate = -1.0
    if not 0.0 < rate < 1.0:
        raise pytest.UsageError(
            f"aide_false_alarm must be a number strictly between 0 and 1, got {stated!r}."
        )
    return rate


def _setting(config: pytest.Config, name: str) -> int:
    stated = config.getoption(name)
    return _whole(config.getini(name) if stated is None else stated, name)


def _whole(text: str, name: str) -> int:
    if not str(text).strip().isdecimal():
        raise pytest.UsageError(f"{name} must be a whole number of at least 0, got {text!r}.")
    return int(text)
