"""Commands on a user's file: exit codes, folders that go on, refusals, JSON, reports."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

import aide
from aide._core.process import InUse, locked_folder
from aide.cli import app
from aide.experiments.runner import BadInput
from aide.studies.options import parse_time, parse_until

EVIL = "<img src=x onerror=alert(1)>"
STUDY = f"""
from support.plain import plain
about_gold = "made by hand <script>alert(2)</script>"
gold = plain
targets = {{"near": plain(0.1), "{EVIL}": plain(2.0)}}
target = lambda mean: plain(mean)
settings = {{"mean": [1.0, 0.1]}}
def cost(setting):
    return -setting["mean"]
"""


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    file = tmp_path_factory.mktemp("studies") / "a_study.py"
    file.write_text(STUDY)
    return file


@pytest.fixture(scope="module")
def compared(study):
    out = study.parent / "out"
    words = ("compare", study, "--tolerance", 0.3, "--num-runs", 60, "--out", out)
    return out, words, run(*words)


def test_compare(compared):
    out, words, result = compared
    assert result.exit_code == 1  # one is too far
    assert "failed" in result.stdout
    data = json.loads((out / "result.json").read_text())
    assert (
        data["sentence"]
        == f"near is within 0.3 nats; {EVIL} is more than 0.3 nats away (95% each)."
    )
    again = run(*words, "--json")
    assert again.exit_code == 1
    assert json.loads(again.stdout)["records"] == data["records"]  # nothing was run again
    other = run(*words[:-2], "--seed", 1, "--out", out)
    assert other.exit_code == 2
    assert "holds a study with seed 0" in other.stderr


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.links, self.said = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href") or k.startswith("on")]

    def handle_data(self, data):
        self.said += data


def test_the_report_is_one_page_on_its_own(compared):
    out, _, _ = compared
    text = (out / "report.html").read_text()
    page = Page(text)
    assert "script" not in page.tags
    assert all(link.startswith("data:") for link in page.links)
    assert EVIL in page.said  # as a text
    assert "<script>alert(2)</script>" in page.said
    for word in ("The gold standard", "Settings", "Versions", "How to cite", "Curves"):
        assert word in page.said
    assert "prefers-color-scheme:dark" in text
    assert "http" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", text).replace("http-equiv", "")
    (out / "report.html").unlink()
    assert run("report", out).exit_code == 0
    assert (out / "report.html").read_text() == text
    assert run("report", out.parent).exit_code == 2


@pytest.mark.full
def test_measure_until_and_a_changed_file(study, tmp_path):
    file = tmp_path / "one.py"
    file.write_text("from support.plain import plain\ngold, target = plain(), plain(0.1)\n")
    words = ("measure", file, "--until", 0.03, "--tolerance", 0.3, "--out", tmp_path / "out")
    assert run(*words).exit_code == 0
    file.write_text("from support.plain import plain\ngold, target = plain(), plain(0.2)\n")
    changed = run(*words)
    assert changed.exit_code == 2
    assert "changed since" in changed.stderr


@pytest.mark.full
def test_tune(study, tmp_path):
    result = run("tune", study, "--tolerance", 0.2, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "The cheapest setting within 0.2 nats of" in result.stdout


@pytest.mark.full
def test_tune_takes_errors(study, tmp_path):
    words = ("tune", study, "--out", tmp_path / "out", "--tolerance")
    result = run(*words, "means 0.5 sd")
    assert result.exit_code == 0
    assert "The cheapest setting within means 0.5 sd of" in result.stdout
    assert run(*words, "means much").exit_code == 2


def test_a_folder_has_one_process(tmp_path):
    refused = pytest.raises(InUse, match="another process")
    with locked_folder(tmp_path), refused, locked_folder(tmp_path):
        pass
    with locked_folder(tmp_path):
        pass


def test_bad_input(tmp_path, study):
    assert run("measure", tmp_path / "no.py").exit_code == 2
    empty = tmp_path / "empty.py"
    empty.write_text("")
    result = run("compare", empty)
    assert result.exit_code == 2
    assert "must define 'gold'" in result.stderr
    assert run("measure", study, "--until", "soon").exit_code == 2
    assert run("measure", study, "--until", "verdict").exit_code == 2
    assert run("measure", study, "--max-runs", 9).exit_code == 2
    former = run("measure", study, "--until", 0.1, "--budget", "20000,2h")
    assert former.exit_code == 2
    assert "called --max-runs 20000 --max-time 10min" in " ".join(former.stderr.split())
    assert run("measure", study, "--workers", 0).exit_code == 2
    assert run("measure", study, "--workers", 2, "--devices").exit_code == 2
    assert run("tune", study).exit_code == 2


def test_budgets_and_goals():
    assert parse_time("2min") == 120.0
    assert parse_time("1.5h") == 5400.0
    with pytest.raises(BadInput, match="--max-time takes a time"):
        parse_time("much")
    assert parse_until("verdict", 0.5) == (0.5,)
    assert parse_until("0.05", None) == (0.05,)


def test_help_and_completion():
    for command in ("measure", "compare", "tune", "report"):
        assert run(command, "--help").exit_code == 0
    assert "--install-completion" in run("--help").stdout
    half = {"_AIDE_COMPLETE": "complete_bash", "COMP_WORDS": "aide me", "COMP_CWORD": "1"}
    assert CliRunner().invoke(app, [], prog_name="aide", env=half).stdout.split() == ["measure"]


CHANGING = """
import jax
DATA = [0.1, 0.2]
class Mine:
    log_z = 0.0
    def __init__(self, location):
        self.location = location
    def simulate(self, key):
        x = self.location + jax.random.normal(key)
        return x, self.regenerate(key, x)
    def regenerate(self, key, x):
        return -0.5 * (x - self.location) ** 2 + 0.001 * sum(DATA)
gold, target = Mine(0.0), Mine(0.3)
"""
CHANGES = {
    "data": ("[0.1, 0.2]", "[0.1, 0.3]", "numbers in regenerate"),
    "location of a fit": ("Mine(0.3)", "Mine(0.4)", "numbers in"),
    "code of a class": ("0.5 * (x", "0.50001 * (x", "numbers in simulate"),
}


@pytest.fixture(scope="module")
def undecided(tmp_path_factory):
    file = tmp_path_factory.mktemp("changing") / "mine.py"
    file.write_text(CHANGING)
    words = ("measure", file, "--num-runs", 20, "--tolerance", 0.1, "--out", file.parent / "out")
    return file, words, run(*words)


def test_undecided_has_an_exit_code_of_its_own(undecided):
    assert undecided[2].exit_code == 3


@pytest.mark.parametrize("change", CHANGES)
def test_anything_changed_is_refused(undecided, change):
    file, words, _ = undecided
    old, new, named = CHANGES[change]
    assert CHANGING.count(old) == 1
    file.write_text(CHANGING.replace(old, new))
    refused = run(*words)
    assert refused.exit_code == 2
    assert named in refused.stderr
    assert "changed since" in refused.stderr


@pytest.mark.full
def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "aide", "--version"], capture_output=True, text=True
    )
    assert done.stdout == f"aide {aide.__version__}\n"
    assert done.returncode == 0
