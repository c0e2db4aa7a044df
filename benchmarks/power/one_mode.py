"""A missing mode: AIDE sees it, the diagnostics people use do not.

    python benchmarks/run.py power/one_mode          # under a minute

The columns are those of `support.one_mode`, whose tests hold the table to what it shows.
"""

from collections.abc import Iterator

import numpy as np
from support.one_mode import rows

from benchmarks.table import Row


def one_mode(seed: int = 0) -> Iterator[Row]:
    """One row per approximation."""
    for row in rows(seed):
        both = row.aide.sandwich()
        yield {
            "approximation": row.name,
            "truth": f"{row.truth:.2f}",
            "AIDE": f"{row.aide.value:.2f} ± {row.aide.std_error:.2f}",
            "sandwich": f"{both.lower:.2f} to {both.upper:.2f}",
            "R-hat, draws": f"{row.rhat:.3f}",
            "R-hat, NUTS": f"{row.rhat_nuts:.3f}",
            "PSIS k": "equal weights" if np.isinf(row.pareto_k) else f"{row.pareto_k:.2f}",
            "KSD": f"{row.stein:.4f}",
        }


TABLES = {"one_mode": one_mode}
