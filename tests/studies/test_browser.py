"""The report in a browser: nothing on its console, no request, texts of users stay texts."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.plain import plain

import aide
from aide.studies.folder import StudyFolder
from aide.studies.options import StudyOptions
from aide.studies.run import compare_targets
from aide.studies.study import Study

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]
EVIL = "<img src=http://evil.invalid/x.png onerror=console.log(1)>"
CONTROL = """<!doctype html><meta charset=utf-8>
<img src=http://evil.invalid/x.png><script>console.log('seen')</script>"""


def opened(page: Path, folder: Path) -> tuple[str, list[str], list[str]]:
    """The document, messages on the console, and addresses that the page asked for."""
    log = folder / "net.json"
    words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    words += [f"--log-net-log={log}", f"--user-data-dir={folder / 'profile'}"]
    words += ["--virtual-time-budget=3000", "--dump-dom", f"file://{page}"]
    done = subprocess.run([str(CHROMIUM), *words], capture_output=True, text=True, timeout=300)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    events = [event.get("params") or {} for event in json.loads(log.read_text())["events"]]
    # A file has the origin null; what the browser asks for on its own account has none.
    asked = [e["url"] for e in events if "url" in e and e.get("initiator") in ("null", "file://")]
    return done.stdout, said, asked


def test_the_report_is_silent(tmp_path):
    about = "by hand <script>console.log(2)</script>"
    targets: dict[str, Any] = {EVIL: plain(2.0), "near": plain(0.1)}
    study = Study(Path("a.py"), aide, plain(), targets, None, None, None, about, None)
    options = StudyOptions(tolerance=0.3, num_runs=60, out=tmp_path / "out")
    compare_targets(study, options)
    document, said, asked = opened(StudyFolder(options.out).report, tmp_path)
    assert said == []
    assert asked == []
    assert "is more than" in document
    assert "<script" not in document
    assert "<img src=http" not in document.replace('"', "")
    assert "&lt;img src=http://evil.invalid/x.png onerror=console.log(1)&gt;" in document


def test_the_browser_would_show_it(tmp_path):
    """Control: a page that does ask and speak."""
    page = tmp_path / "control.html"
    page.write_text(CONTROL)
    _, said, asked = opened(page, tmp_path)
    assert len(said) == 1
    assert "seen" in said[0]
    assert asked
    assert all("evil.invalid" in address for address in asked)
