"""What is installed: type information, data, and a command under both of its names."""

import subprocess
import sys
import zipfile
from pathlib import Path

import aide

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_types_and_data(tmp_path):
    build = "import sys, hatchling.build; print(hatchling.build.build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", build, str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("aide_inference-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"aide/py.typed", "aide/__main__.py", "aide/data/hmm.json"} <= names
    assert not [name for name in names if name.startswith("tests")]
    assert {"aide_pytest/__init__.py", "aide_pytest/py.typed"} <= names
    (listed,) = [name for name in names if name.endswith("entry_points.txt")]
    entry_points = zipfile.ZipFile(wheel).read(listed).decode()
    assert "[pytest11]\naide_pytest = aide_pytest\n" in f"{entry_points}\n"


def test_the_package_runs_as_the_command():
    command = [sys.executable, "-m", "aide", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"aide {aide.__version__}\n"
    wrong = subprocess.run([*command[:-1], "nothing"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "Usage: aide [OPTIONS]" in wrong.stderr
