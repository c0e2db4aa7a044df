"""`write_atomically`: after any failure the old file is whole, and no other file is left."""

import errno
import os
import resource
import signal
import subprocess
import sys
import threading

import pytest

from aide._core import process as _files
from aide._core.process import write_atomically

OLD, NEW = b"old" * 1000, b"new" * 2000


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "results.bin"
    path.write_bytes(OLD)
    return path


def only(path):
    return [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_replaces_the_content(path):
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW
    assert only(path)


def test_creates_a_file_with_the_usual_permissions(tmp_path):
    write_atomically(str(tmp_path / "new"), NEW)
    (tmp_path / "plain").write_bytes(NEW)
    assert (tmp_path / "new").read_bytes() == NEW
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_stays_a_link(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    write_atomically(link, NEW)
    assert link.is_symlink()
    assert path.read_bytes() == NEW


def test_the_content_is_on_disk_before_it_has_the_name(path, monkeypatch):
    steps = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, n=name, r=real: (steps.append(n), r(*a))[1])
    write_atomically(path, NEW)
    assert steps == ["fsync", "replace", "fsync"]


def fail(error):
    def failing(*arguments, **options):
        raise error

    return failing


@pytest.mark.parametrize("step", ["_write_new", "os.fsync", "os.replace"])
@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()],
    ids=["disk full", "Ctrl-C", "memory"],
)
def test_a_failed_step_leaves_the_old_file(path, monkeypatch, step, error):
    owner, name = (os, step[3:]) if step.startswith("os.") else (_files, step)
    monkeypatch.setattr(owner, name, fail(error))
    with pytest.raises(type(error)) as raised:
        write_atomically(path, NEW)
    if isinstance(error, OSError):
        assert raised.value.errno == errno.ENOSPC
        assert "No space left on device" in str(raised.value)
        assert str(path) in str(raised.value)
    assert path.read_bytes() == OLD
    assert only(path)


def test_a_full_disk_leaves_the_old_file(path):
    """A real failure in the middle of the write: the system refuses bytes beyond a limit."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(NEW) // 2, limits[1]))
        with pytest.raises(OSError, match=r"results\.bin") as raised:
            write_atomically(path, NEW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert raised.value.errno == errno.EFBIG
    assert path.read_bytes() == OLD
    assert only(path)


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing was written.*missing"):
        write_atomically(tmp_path / "missing" / "file", NEW)


def test_writers_at_the_same_time_do_not_mix(path):
    contents = [bytes([65 + i]) * (100_000 + i) for i in range(8)]
    threads = [threading.Thread(target=write_atomically, args=(path, c)) for c in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents
    assert only(path)


def test_a_kill_leaves_one_content_or_the_other(tmp_path):
    """A process that only writes is killed at ten moments."""
    path = tmp_path / "file"
    script = (
        "import runpy, sys\n"  # the file alone: importing all of aide ten times takes long
        "write = runpy.run_path(sys.argv[1])['write_atomically']\n"
        "print('begun', flush=True)\n"
        "while True:\n"
        "    for letter in b'ab':\n"
        "        write(sys.argv[2], bytes([letter]) * 3_000_000)\n"
    )
    for moment in range(10):
        command = [sys.executable, "-c", script, _files.__file__, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=0.01 + 0.0037 * moment)
            process.kill()
        content = path.read_bytes() if path.exists() else b"a" * 3_000_000
        assert content in (b"a" * 3_000_000, b"b" * 3_000_000)
