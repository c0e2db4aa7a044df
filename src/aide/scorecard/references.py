"""References for posteriors that have none: draws of a gold standard in the format of posteriordb.

Each draw is the output of a run of its own, so that draws are independent, and as exact as the gold
standard: the file of facts states what its tests showed and what no test can show.
"""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.chains import autocovariances, mean_variance, split_rhat
from aide._core.keywords import keywords
from aide._core.process import make_folder, write_atomically
from aide._core.random import as_key
from aide._core.types import TARGET, Key
from aide._core.validate import check_count
from aide.adapters.posterior import AbstractPosterior
from aide.engine.programs.map_runs import in_double
from aide.engine.runners.choose import MetaTrial
from aide.gold_standards.result import GoldStandard
from aide.reporting.result import as_data
from aide.scorecard.facts import facts as facts_of_process

NUM_DRAWS, NUM_CHAINS = 10_000, 10
"""Draws of a reference of posteriordb, and lists among which the draws are spread."""
CHECK_RHAT = 1.01
"""R-hat below which posteriordb accepts a reference."""
CHECK_LAG = 0.05
"""Autocorrelation of neighbouring draws below which posteriordb accepts a reference."""


@keywords("aide.scorecard.write_reference")
def write_reference(
    key: Key | int,
    posterior: AbstractPosterior,
    gold: GoldStandard,
    folder: str | Path,
    name: str,
    *,
    num_draws: int = NUM_DRAWS,
    variables: Sequence[str] | None = None,
    added_by: str = "",
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write draws, means and mean squares of a gold standard as a reference of posteriordb.

    The files are those of the folder `reference_posteriors` of the database: draws, means and mean
    squares with their Monte Carlo errors, and facts beside each. A gold standard that is flagged
    is refused.

    Args:
        key: A JAX key, or an integer seed.
        posterior: The posterior whose variables the draws have.
        gold: Its gold standard, as `posterior.gold(key)` makes it.
        folder: The folder `posterior_database`, or any other folder.
        name: `DATA-MODEL`.
        num_draws: Draws in all, in ten lists.
        variables: Names of the variables to be written; all unless stated.
        added_by: Who vouches for the reference.
        facts: Further facts for the file beside the draws, such as the seed.

    Returns:
        The facts that stand in the file beside the draws.
    """
    check_count("num_draws", num_draws, 4 * NUM_CHAINS)
    if gold.doubts:
        raise ValueError(
            f"{gold.label} is flagged, so that its draws are no reference: "
            f"{'; '.join(gold.doubts)}. Make it with a larger budget, or from another start."
        )
    rows = MetaTrial(as_key(key), gold, TARGET, num_draws).values
    values = posterior.values_of(np.asarray(rows))
    chosen = posterior.names if variables is None else tuple(variables)
    columns = coordinates({name: _in_lists(values[name]) for name in chosen})
    log_joint = np.asarray(in_double(_log_joints, posterior, np.asarray(rows)))
    found = {**_facts(gold, name, columns, log_joint, added_by), **(facts or {})}
    _write_all(Path(folder) / "reference_posteriors", name, columns, found)
    return found


def _log_joints(posterior: AbstractPosterior, rows: np.ndarray) -> Any:
    return jax.jit(jax.vmap(posterior.log_joint))(jnp.asarray(rows))


def coordinates(draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return every coordinate (chain, draw) under its name in Stan: indices begin at 1."""
    found = {}
    for name, array in draws.items():
        for index in np.ndindex(*array.shape[2:]):
            words = ",".join(str(i + 1) for i in index)
            found[f"{name}[{words}]" if index else name] = array[(slice(None), slice(None), *index)]
    return found


def _in_lists(array: np.ndarray) -> np.ndarray:
    """Spread draws over the lists; a remainder is left out."""
    num = array.shape[0] // NUM_CHAINS * NUM_CHAINS
    return array[:num].reshape(NUM_CHAINS, -1, *array.shape[1:])


def _facts(
    gold: GoldStandard,
    name: str,
    columns: dict[str, np.ndarray],
    log_joint: np.ndarray,
    added_by: str,
) -> dict[str, Any]:
    record = gold.record
    rhats = [split_rhat(list(column)) for column in columns.values()]
    effective = [mean_variance(list(column)).effective for column in columns.values()]
    num = next(iter(columns.values())).size
    made_by = facts_of_process()
    settings = {"title": record.title, **{title: words for title, words in record.chosen}}
    lags = [float(autocovariances(list(each))[1] / each.var()) for each in columns.values()]
    return {
        "name": name,
        "inference": {"method": "aide.gold_standard", "method_arguments": settings},
        "diagnostics": {
            "diagnostic_information": {"names": list(columns)},
            "ndraws": num,
            "nchains": NUM_CHAINS,
            "effective_sample_size": effective,
            "r_hat": rhats,
            "mean_lag1_ac": lags,
            "looseness_nats": list(record.looseness),
            "log_evidence": list(record.log_evidence),
            "mean_log_density": float(log_joint.mean()),
            "mcse_mean_log_density": float(log_joint.std(ddof=1) / log_joint.size**0.5),
        },
        "checks_made": {
            "ndraws_is_10k": num == NUM_DRAWS,
            "nchains_is_gte_4": True,
            "r_hat_below_1_01": max(rhats) < CHECK_RHAT,
            "abs_mean_lag1_ac_below_0_05": max(map(abs, lags)) < CHECK_LAG,
            "gold_standard_passed": True,
        },
        "comments": {
            "shown": [one.words for one in record.agreements],
            "remarks": list(record.remarks),
            "not shown": "a mode that no start and no pilot visited",
        },
        "added_by": added_by,
        "added_date": f"{datetime.now(UTC):%Y-%m-%d}",
        **{name: made_by[name] for name in ("machine", "versions")},
    }


def _write_all(
    folder: Path, name: str, columns: dict[str, np.ndarray], facts: dict[str, Any]
) -> None:
    chains = [
        {one: column[number].tolist() for one, column in columns.items()}
        for number in range(NUM_CHAINS)
    ]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.json", json.dumps(chains))
    draws = folder / "draws"
    make_folder(draws / "draws")
    make_folder(draws / "info")
    write_atomically(draws / "draws" / f"{name}.json.zip", packed.getvalue())
    write_atomically(draws / "info" / f"{name}.info.json", _text(facts))
    for kind, power in (("mean_value", 1), ("mean_squared_value", 2)):
        place = folder / "summary_statistics" / kind
        make_folder(place / kind)
        make_folder(place / "info")
        powers = {one: column**power for one, column in columns.items()}
        errors = [mean_variance(list(each)).variance ** 0.5 for each in powers.values()]
        summary = {
            "names": list(powers),
            kind: [float(each.mean()) for each in powers.values()],
            "mcse_mean": errors,
        }
        write_atomically(place / kind / f"{name}.json", _text(summary))
        write_atomically(place / "info" / f"{name}.info.json", _text(facts))


def _text(data: Any) -> bytes:
    return (json.dumps(as_data(data), indent=1, ensure_ascii=False) + "\n").encode()
