r"""Compiled programs that outlive a process: same bits, never in the way."""

import os
import subprocess
import sys
import warnings

import jax
import pytest

import aide
from aide.engine.programs import programs


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "_folder", None)
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match=r"cannot be kept.*compiled each time"):
        aide.keep_programs(tmp_path / "file" / "below")
    assert programs.folder_of_programs() is None


def test_old_programs_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "MAX_BYTES", 25)
    for number in range(4):
        (tmp_path / str(number)).write_bytes(b"0123456789")
        os.utime(tmp_path / str(number), (number, number))
    programs._prune(tmp_path)
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
    for folder in ("", str(tmp_path), str(tmp_path), str(tmp_path)):
        command = [sys.executable, "-W", "error", "-c", SCRIPT, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        printed.append(done.stdout)
    assert len(set(printed)) == 1
    assert list((tmp_path / "xla").iterdir())


def test_the_cache_of_jax_is_left_to_who_set_it(tmp_path, monkeypatch):
    before = jax.config.jax_compilation_cache_dir  # pyrefly: ignore[missing-attribute]
    monkeypatch.setattr(programs, "_folder", None)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "mine"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            programs.keep_programs(tmp_path / "kept")
        now = jax.config.jax_compilation_cache_dir  # pyrefly: ignore[missing-attribute]
        assert now == str(tmp_path / "mine")
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
