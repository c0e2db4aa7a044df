"""Workflows call what a person calls, on every supported Python; links of pages lead somewhere."""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

yaml = import_module("yaml")  # comes with dask
ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+%?):", (ROOT / "Makefile").read_text(), re.MULTILINE))
ALLOWED = {"name", "on", "permissions", "jobs"}
JOB = {"runs-on", "timeout-minutes", "strategy", "steps", "needs", "environment", "permissions"}
TOP = [path for path in ROOT.glob("*.md")]


def faults(text):
    """What is wrong with a workflow, in words."""
    flow = yaml.safe_load(text)
    flow["on"] = flow.pop(True, flow.get("on"))  # YAML 1.1 reads the word `on` as true
    found = [f"unknown key {key}" for key in set(flow) - ALLOWED]
    found += [] if flow["on"] and flow.get("permissions") == {"contents": "read"} else ["rights"]
    for name, job in flow["jobs"].items():
        found += [f"{name}: unknown key {key}" for key in set(job) - JOB]
        found += [f"{name}: needs {one}" for one in _needs(job) if one not in flow["jobs"]]
        if "timeout-minutes" not in job or "runs-on" not in job:
            found.append(f"{name}: no time limit or no machine")
        for step in job["steps"]:
            found += [f"{name}: {fault}" for fault in _step_faults(step, job)]
    return found


def _needs(job):
    needs = job.get("needs", [])
    return [needs] if isinstance(needs, str) else needs


def _step_faults(step, job):
    if ("run" in step) == ("uses" in step):
        return ["a step must either run or use something"]
    if "uses" in step:
        pinned = re.fullmatch(r"[\w.-]+/[\w.-]+@(v\d+|release/v\d+)", step["uses"])
        words = str(step.get("with", {}))
        known = set(job.get("strategy", {}).get("matrix", {}))
        unknown = set(re.findall(r"matrix\.(\w+)", words)) - known
        return ([] if pinned else [f"{step['uses']} has no version"]) + [
            f"there is no matrix.{name}" for name in unknown
        ]
    command, *targets = step["run"].split()
    if command != "make":
        return [f"{step['run']!r} is not a command of make"]
    text = " ".join(targets)
    targets = re.sub(r"\$\{\{ *matrix\.python *\}\}", "%", text).split()
    return [f"make has no target {one}" for one in targets if one not in TARGETS]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_what_a_person_calls(path):
    assert faults(path.read_text()) == []


def test_the_tests_run_on_every_python_that_is_promised():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    promised = [line.rsplit(" ", 1)[1] for line in project["classifiers"] if ":: 3." in line]
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    assert flow["jobs"]["test"]["strategy"]["matrix"]["python"] == promised
    assert len(WORKFLOWS) == 4


def test_faults_of_a_workflow_are_found():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert faults(text.replace("make test\n", "make tests\n")) == ["test: make has no target tests"]
    assert faults(text.replace("make test-lowest", "pytest")) == [
        "lowest: 'pytest' is not a command of make"
    ]
    assert faults(text.replace("checkout@v4", "checkout@main"))
    assert faults(text.replace("matrix.python }}", "matrix.pyhton }}"))
    assert faults(text.replace("    timeout-minutes: 40\n", ""))


@pytest.mark.parametrize("page", TOP, ids=lambda page: page.stem)
def test_links_of_pages_beside_the_readme_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    inside = [link for link in links if "://" not in link and not link.startswith("../../actions/")]
    assert [link for link in inside if not (ROOT / link).exists()] == []
    badges = re.findall(r"actions/workflows/([\w.]+)", page.read_text())
    assert {name for name in badges if name != "badge.svg"} <= {path.name for path in WORKFLOWS}
