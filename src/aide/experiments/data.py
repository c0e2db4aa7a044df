"""What the user passed to an experiment: bad input in one line; data, told apart by digests."""

import hashlib
from pathlib import Path

import numpy as np


class BadInput(Exception):
    """Something the user passed cannot work; the message is one line."""


def quote(text: str, longest: int = 40) -> str:
    """What the user wrote, cut where it would fill the terminal."""
    return repr(text if len(text) <= longest else text[:longest] + "…")


def source_of(path: Path | None, *arrays: np.ndarray) -> dict[str, str]:
    """The entry `data` of `info.json`: the file's name, and a digest of the numbers in it.

    Results depend on the numbers alone, so the file may be renamed or laid out differently.
    """
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.shape}".encode())
        digest.update(np.ascontiguousarray(array, "<f8").tobytes())
    return {"file": "built in" if path is None else str(path), "sha256": digest.hexdigest()}


def read_text(path: Path) -> str:
    """The text of the user's file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(f"cannot read --data {path}: {reason}. Check the path.") from None
    except UnicodeDecodeError as error:
        raise BadInput(
            f"--data {path} is not text: byte {error.start} is {error.object[error.start]:#04x}. "
            "Save it as UTF-8."
        ) from None


def read_column(path: Path) -> np.ndarray:
    """One number a line, with or without a header."""
    lines = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    numbers = []
    for position, line in enumerate(lines):
        try:
            numbers.append(float(line))
        except ValueError:
            if position > 0:
                message = f"{path}, line {position + 1}: {quote(line)} is not a number."
                raise BadInput(message) from None
    column = np.array(numbers)
    if len(set(numbers)) < 2 or not np.isfinite(column).all() or np.abs(column).max() > 1e100:
        raise BadInput(
            f"{path} must hold at least two different finite numbers (up to 1e100), one a line."
        )
    return column
