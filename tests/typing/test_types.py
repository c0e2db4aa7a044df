"""A type checker on a user's file: silent about good calls, and not about bad ones."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import aide

HERE = Path(__file__).parent
MARK = "# bad"


def _errors(folder: Path) -> dict[str, dict[int, str]]:
    """What pyrefly says of copies of both files, by file and line, as in a project of their own."""
    source = Path(aide.__file__).parents[1]
    settings = f'project-includes = ["*.py"]\nsearch-path = ["{source}"]\n'
    (folder / "pyrefly.toml").write_text(settings)
    for name in ("good_calls.py", "bad_calls.py"):
        shutil.copy(HERE / name, folder / name)
    command = ["-m", "pyrefly", "check", "--python-interpreter-path", sys.executable]
    done = subprocess.run(
        [sys.executable, *command, "--output-format", "json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, dict[int, str]] = {"good_calls.py": {}, "bad_calls.py": {}}
    for error in json.loads(done.stdout)["errors"]:
        if error["severity"] == "error":
            found[Path(error["path"]).name][error["line"]] = error["description"]
    return found


def test_a_type_checker_tells_good_calls_from_bad_ones(tmp_path):
    found = _errors(tmp_path)
    assert found["good_calls.py"] == {}
    lines = (HERE / "bad_calls.py").read_text().splitlines()
    bad = {number for number, line in enumerate(lines, 1) if line.endswith(MARK)}
    assert len(bad) > 30
    assert set(found["bad_calls.py"]) == bad, [
        lines[number - 1] for number in bad ^ set(found["bad_calls.py"])
    ]
