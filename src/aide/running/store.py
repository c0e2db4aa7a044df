"""Programs that outlive the process."""

from pathlib import Path


def folder_of_programs() -> Path | None:
    """Where programs are kept; `None` if they are not."""
    return None


def keep_programs(folder: str | Path | None = None) -> None:
    """Keep compiled programs."""
