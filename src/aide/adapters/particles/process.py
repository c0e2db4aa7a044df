"""A process with another interpreter: questions and answers as lines of JSON."""

import atexit
import functools
import json
import subprocess
from pathlib import Path
from threading import Lock
from typing import Any

WORKER = Path(__file__).with_name("__main__.py")


class ForeignProcess:
    """Runs `__main__.py` by another interpreter for as long as this process lives.

    Args:
        python: The interpreter; it has `particles` and NumPy, and needs nothing else.
        file: The user's file, which it loads.
        function: The function in it that makes the Feynman–Kac model.
    """

    def __init__(self, python: str, file: str, function: str):
        command = [python, str(WORKER), file, function]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        except OSError as error:
            raise ValueError(
                f"python must be an interpreter that has the package particles, got {python!r} "
                f"({error}). Make one: python3 -m venv .venv-particles && "
                ".venv-particles/bin/pip install particles 'numpy<2'."
            ) from error
        self._lock = Lock()
        atexit.register(self.end)
        self.num_steps = int(self.ask(question="num_steps"))

    def ask(self, **question: Any) -> Any:
        """The answer to one question; an error over there is an error here."""
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            try:
                self._process.stdin.write(json.dumps(question) + "\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
            except BrokenPipeError:
                line = ""
        if not line:
            code = self._process.wait()
            raise RuntimeError(
                f"the interpreter of particles ended with code {code}; what it said is above. It "
                "needs the packages particles and numpy<2, and must be able to load the file."
            )
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"in the interpreter of particles: {answer['error']}")
        return answer["answer"]

    def end(self) -> None:
        """Close the pipe, which ends the process."""
        if self._process.poll() is None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()


@functools.cache
def process_of(python: str, file: str, function: str) -> ForeignProcess:
    """The process for one file, started when it is first needed."""
    return ForeignProcess(python, file, function)
