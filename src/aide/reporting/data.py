"""Results as plain data for JSON and CSV."""

import csv
from collections.abc import Mapping, Sequence
from enum import Enum
from io import StringIO
from typing import Any

import numpy as np


def as_data(value: Any) -> Any:
    """Numbers, texts, lists and dictionaries that JSON can hold.

    JSON knows no infinities and no NaN: they become the texts `inf`, `-inf` and `nan`, which
    `float` reads.
    """
    if isinstance(value, Enum):
        return value.name.lower()
    if value is None or isinstance(value, str | bool | np.bool_):
        return bool(value) if isinstance(value, np.bool_) else value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else str(float(value))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return as_data(value._asdict())
    if isinstance(value, Mapping):
        return {str(name): as_data(part) for name, part in value.items()}
    return [as_data(part) for part in value]


def as_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """One line per record under the names of their entries; `None` is an empty cell."""
    text = StringIO(newline="")
    if records:
        writer = csv.DictWriter(text, list(records[0]))
        writer.writeheader()
        writer.writerows({k: "" if v is None else v for k, v in one.items()} for one in records)
    return text.getvalue()
