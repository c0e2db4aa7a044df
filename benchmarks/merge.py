"""One table from several that were measured side by side, each a part of the replications.

    python benchmarks/merge.py FOLDER… --out benchmarks/results

Every folder is the `--out` of one call of `run.py`. Rows of the same table whose texts and
fractions agree are one row, with the sum of their whole numbers: counts are integers, labels are
not. The head is that of the first part, with the number of parts.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path[:1] = [str(Path(__file__).resolve().parent.parent)]

from benchmarks.table import Row, save, show  # noqa: E402


def is_count(cell: Any) -> bool:
    """Whether a cell is added; True and False are labels."""
    return isinstance(cell, int) and not isinstance(cell, bool)


def add_rows(rows: list[Row]) -> list[Row]:
    """Rows with the same labels become one, in the order in which they first appear."""
    found: dict[str, Row] = {}
    for row in rows:
        labels = json.dumps([None if is_count(cell) else cell for cell in row.values()])
        if labels not in found:
            found[labels] = dict(row)
            continue
        for column, cell in row.items():
            if is_count(cell):
                found[labels][column] += cell
    return list(found.values())


def main() -> None:
    """Add up what the folders hold."""
    parser = argparse.ArgumentParser(
        "merge.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", help="what run.py wrote with --out")
    parser.add_argument("--out", type=Path, required=True, help="folder for the sums")
    given = parser.parse_args()
    parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for file in sorted(path for folder in given.folders for path in folder.glob("*/*.json")):
        for name, table in json.loads(file.read_text()).items():
            parts.setdefault((f"{file.parent.name}/{file.stem}", name), []).append(table)
    for (benchmark, name), tables in parts.items():
        print(f"\n{benchmark}: {name}, {len(tables)} parts\n")
        head = tables[0]["head"]
        head["options"] = {**head.get("options", {}), "parts": len(tables)}
        rows = show(add_rows([row for table in tables for row in table["rows"]]))
        save(given.out / benchmark, name, head, rows)


if __name__ == "__main__":
    main()
