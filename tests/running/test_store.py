r"""Programs that outlive a process: same bits, never stale, never in the way."""

import os
import subprocess
import sys
import warnings

import jax
import pytest
from support.pairs import NoisyGaussian, assert_same, gaussian, run

import aide
from aide.problems.distributions import Normal
from aide.running import programs, store, surroundings

PAIR = gaussian(0.1, 0.7), gaussian(0.3, 1.3)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that keeps programs of this library, for one test."""
    monkeypatch.setattr(store, "_folder", None)
    monkeypatch.setattr(store, "_use_cache_of_jax", lambda folder: None)
    monkeypatch.setattr(programs, "_kept", {})
    store.keep_programs(tmp_path / "kept")
    return tmp_path / "kept" / "programs"


def _forget():
    """As in a new process."""
    programs._kept.clear()


def _no_tracing(monkeypatch):
    def trace(*_):
        raise AssertionError("something was traced")

    monkeypatch.setattr(programs, "_trace", trace)


def test_the_next_process_traces_nothing(folder, monkeypatch):
    first = run(*PAIR).draws
    files = {path.name: path.stat() for path in folder.iterdir()}
    assert {name.rpartition("-")[2] for name in files} >= {"facts"}
    assert all(status.st_mode & 0o077 == 0 for status in files.values())
    _forget()
    with monkeypatch.context() as patch:
        _no_tracing(patch)
        assert_same(run(*PAIR).draws, first)
        with pytest.raises(AssertionError, match="traced"):  # control: another program
            run(PAIR[0], gaussian([0.3, 0.4], 1.3))


@pytest.mark.parametrize("content", [b"", b"\x80\x04garbage" * 100])
def test_damaged_files_are_nothing(folder, content):
    first = run(*PAIR).draws
    for path in folder.iterdir():
        path.write_bytes(content)
    _forget()
    assert_same(run(*PAIR).draws, first)


def test_a_folder_that_others_can_write_is_not_read(folder, monkeypatch):
    run(*PAIR)
    folder.chmod(0o770)
    _forget()
    _no_tracing(monkeypatch)
    with pytest.raises(AssertionError, match="traced"):
        run(*PAIR)


@pytest.mark.parametrize("which", ["_versions", "_machine"])
def test_another_version_or_machine_is_another_program(folder, monkeypatch, which):
    run(*PAIR)
    _forget()
    monkeypatch.setattr(surroundings, which, lambda: ("another",))
    _no_tracing(monkeypatch)
    with pytest.raises(AssertionError, match="traced"):
        run(*PAIR)


def test_a_users_code_is_always_traced(folder):
    """It may reach what nobody follows: JAX's own cache, keyed by the traced program, serves it."""
    run(NoisyGaussian(0.3, 0.8, 0.5), aide.Tractable(Normal(0.0, 1.0).sample, lambda x: -x * x))
    assert not list(folder.iterdir())


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_folder", None)
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match=r"cannot be kept.*compiled each time"):
        aide.keep_programs(tmp_path / "file" / "below")
    assert store.folder_of_programs() is None


def test_old_programs_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MOST_BYTES", 25)
    for number in range(4):
        (tmp_path / str(number)).write_bytes(b"0123456789")
        os.utime(tmp_path / str(number), (number, number))
    store._prune(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3"]


SCRIPT = """
import sys, jax, aide
from aide.problems.distributions import Normal
if sys.argv[1]:
    aide.keep_programs(sys.argv[1])
target = aide.sir(Normal(0.2, 1.1), lambda x: Normal(0.8, 0.5).log_prob(x), num_particles=3)
result = aide.estimate(jax.random.key(3), aide.Tractable.of(Normal(0.7, 0.6)), target)
print(result.value.hex(), result.std_error.hex())
"""


@pytest.mark.full
def test_processes_with_and_without_give_the_same_bits(tmp_path):
    printed = []
    for folder in ("", str(tmp_path), str(tmp_path)):
        command = [sys.executable, "-W", "error", "-c", SCRIPT, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        printed.append(done.stdout)
    assert printed[0] == printed[1] == printed[2]
    assert list((tmp_path / "xla").iterdir())
    assert list((tmp_path / "programs").iterdir())


def test_the_cache_of_jax_is_left_to_who_set_it(tmp_path, monkeypatch):
    before = dict(jax.config.values)
    monkeypatch.setattr(store, "_folder", None)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "mine"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store.keep_programs(tmp_path / "kept")
        assert jax.config.values["jax_compilation_cache_dir"] == str(tmp_path / "mine")
    finally:
        jax.config.update("jax_compilation_cache_dir", before["jax_compilation_cache_dir"])
    assert dict(jax.config.values) == before
