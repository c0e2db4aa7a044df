"""A progress bar for long runs at a terminal."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

PATIENCE = 1.0
"""Seconds of work before the bar appears."""


class Progress:
    """Bars on standard error; none if `show` is false.

    With `show=None` the bars appear after a second if standard error is a terminal or a notebook
    is running.
    """

    def __init__(self, names: Sequence[str], totals: Sequence[int], show: bool | None):
        self.names, self.totals = names, totals
        self.show = (sys.stderr.isatty() or "ipykernel" in sys.modules) if show is None else show
        self.patience = 0.0 if show else PATIENCE
        self.done = [0] * len(totals)
        self.begun = time.monotonic()
        self.bars: Any = None
        self.tasks: list[Any] = []

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bars is not None:
            self.bars.stop()

    def reporter(self, bar: int) -> Callable[[int], None]:
        """The function that one of the bars is told newly finished work by."""

        def report(num: int) -> None:
            self.done[bar] += num
            if self.show:
                self._draw(bar)

        return report

    def _draw(self, bar: int) -> None:
        if self.bars is None:
            if time.monotonic() - self.begun < self.patience:
                return
            from rich import progress
            from rich.console import Console
            from rich.markup import escape

            self.bars = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
                progress.TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            for name, total in zip(self.names, self.totals, strict=True):
                self.tasks.append(self.bars.add_task(escape(name), total=total, start=False))
            self.bars.start()
        self.bars.start_task(self.tasks[bar])  # its clock starts with its own work
        self.bars.update(self.tasks[bar], completed=self.done[bar])
