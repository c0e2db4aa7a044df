"""References where posteriordb has none, and gold standards beside numbers that others published.

    python benchmarks/run.py gold/references --database posterior_database --rows FOLDER
    python benchmarks/run.py gold/references --gym CHECKOUT --rows FOLDER
    python benchmarks/run.py gold/references --database posterior_database --pattern 'wells*'

Rows are those of the commands `aide references` and `aide scorecard`, in FOLDER/references,
FOLDER/gym and FOLDER/evidence: what is there is not made again, and with `--finished` nothing else
is made. A table whose data are not given has no rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from aide.adapters.posteriordb import load_data
from aide.reporting.numbers import with_error
from aide.scorecard.suites.gym_models import WALK_STEP
from benchmarks.exact_walks import known_scales, unknown_scales
from benchmarks.table import Row


def _made(database: str, rows: str, pattern: str, finished: bool) -> Any:
    from aide.scorecard import read_references, references

    folder = Path(rows) / "references"
    if finished:
        return read_references(folder)
    return references(database, folder, only=pattern.split(","), nuts=True)


def _commit(row: Mapping[str, Any]) -> str:
    return f"{row['date'][:10]}, {row['versions']['commit']}"


def references(
    database: str = "", rows: str = "rows", pattern: str = "*", finished: bool = False
) -> Iterator[Row]:
    """One line per reference that was made."""
    for row in _made(database, rows, pattern, finished).made if database else ():
        yield {
            "posterior": row["name"],
            "variables": row["dimension"],
            "looseness": with_error(*row["looseness_nats"]),
            "log evidence": with_error(*row["log_evidence"]),
            "mean log density": with_error(row["mean_log_density"], row["mcse_mean_log_density"]),
            "R-hat": max(map(float, row["r_hat"])),
            "lag 1": max(map(abs, map(float, row["mean_lag1_ac"]))),
            "attempts": row["num_attempts"],
            "seconds: gold": round(row["seconds_gold"]),
            "10,000 draws": round(row["seconds_draws"]),
            "shown": "; ".join(row["shown"]),
            "remarks": "; ".join(row["remarks"]) or None,
            "made": _commit(row),
        }


def nuts(
    database: str = "", rows: str = "rows", pattern: str = "*", finished: bool = False
) -> Iterator[Row]:
    """One line per reference that was compared with a long run of NUTS."""
    checks = _made(database, rows, pattern, finished).checks if database else {}
    for name, row in checks.items():
        if "reason" in row:
            continue
        yield {
            "posterior": name,
            "draws": row["num_draws"],
            "R-hat": row["r_hat"],
            "effective": round(row["effective"]),
            "divergences": row["num_divergent"],
            "means and sds": row["num_moments"],
            "largest z": row["largest_z"],
            "of": row["worst"],
            "agrees": "yes" if row["agrees"] else "no",
            "compare_draws": row["compare_draws"],
            "seconds": round(row["seconds"]),
        }


def moments(
    database: str = "", rows: str = "rows", pattern: str = "*", finished: bool = False
) -> Iterator[Row]:
    """Means and standard deviations of all variables, with Monte Carlo errors."""
    for row in _made(database, rows, pattern, finished).made if database else ():
        for each in row["variables"]:
            names = ("mean", "mean_error", "sd", "sd_error")
            yield {
                "posterior": row["name"],
                "variable": each["name"],
                **{name: each[name] for name in names},
            }


def exact(
    database: str = "", rows: str = "rows", pattern: str = "*", finished: bool = False
) -> Iterator[Row]:
    """References whose posteriors are Beta laws, beside their exact means and sds."""
    for row in _made(database, rows, pattern, finished).made if database else ():
        if not row["program"].startswith("Rate_"):
            continue
        data = load_data(database, row["name"])
        for each in row["variables"]:
            law = _beta_law(each["name"].removeprefix("theta"), data)
            errors = (
                (each["mean"] - law.mean(), each["mean_error"]),
                (
                    each["sd"] - law.std(),
                    each["sd_error"],
                ),
            )
            yield {
                "posterior": row["name"],
                "variable": each["name"],
                "exact mean": float(law.mean()),
                "exact sd": float(law.std()),
                "mean": with_error(each["mean"], each["mean_error"]),
                "sd": with_error(each["sd"], each["sd_error"]),
                "z: mean": errors[0][0] / errors[0][1],
                "sd ": errors[1][0] / errors[1][1],
            }


def _beta_law(which: str, data: Mapping[str, Any]) -> Any:
    """The posterior of a rate with a uniform prior; `thetaprior` has no data."""
    if which == "prior":
        return stats.beta(1, 1)
    counts = [name for name in data if name[0] == "k" and name[1:] in (which or name[1:], "")]
    successes = sum(data[name] for name in counts)
    trials = sum(data["n" + name[1:]] for name in counts)
    return stats.beta(1 + successes, 1 + trials - successes)


def without(
    database: str = "", rows: str = "rows", pattern: str = "*", finished: bool = False
) -> Iterator[Row]:
    """One line per reason why there is no reference."""
    reasons: dict[str, list[str]] = {}
    for row in _made(database, rows, pattern, finished).failed if database else ():
        is_model = "no NumPyro model" in row["reason"]
        words = "There is no NumPyro model of the Stan program." if is_model else row["reason"]
        reasons.setdefault(words, []).append(row["name"])
    for reason, names in reasons.items():
        yield {"reason": reason, "number": len(names), "posteriors": ", ".join(names)}


def published(
    gym: str = "", rows: str = "rows", pattern: str = "*", finished: bool = False
) -> Iterator[Row]:
    """One line per posterior with published numbers, and the number that differs most."""
    from aide.scorecard import published as compare
    from aide.scorecard import read_published

    suites = {"gym": gym, "evidence": "evidence"} if gym else {}
    for suite, where in suites.items():
        out = Path(rows) / suite
        only = pattern.split(",") if suite == "gym" else "*"
        found = read_published(out) if finished else compare(where, out, only=only)
        for row in found.cells:
            numbers = row.get("numbers", [])
            worst = max(numbers, key=lambda each: each["z"], default={})
            yield {
                "suite": row.get("suite", "Inference Gym" if suite == "gym" else "log evidence"),
                "posterior": row["name"],
                "variables": row.get("dimension"),
                "numbers": len(numbers) or None,
                "differs most": worst.get("quantity"),
                "published": _number(worst, "published"),
                "ours": _number(worst, "ours"),
                "z": worst.get("z"),
                "above 3": sum(each["z"] > 3 for each in numbers) if numbers else None,
                "own verdict": row.get("own_verdict"),
                "words": row.get("reason") or "; ".join(row["own_doubts"]) or None,
                "seconds": round(row["seconds_gold"]) if "seconds_gold" in row else None,
                "made": _commit(row),
            }


def walks(
    gym: str = "", rows: str = "rows", pattern: str = "*", finished: bool = False
) -> Iterator[Row]:
    """Published and our numbers of two Brownian motions beside exact ones (quadrature)."""
    from aide.scorecard import read_published
    from aide.scorecard.suites.gym_models import GYM_MODELS
    from aide.scorecard.suites.inference_gym import GymSuite, arrays_of

    suite = GymSuite.at(gym) if gym else None
    if suite is None:
        return
    for row in read_published(Path(rows) / "gym").cells:
        if not row["name"].startswith("brownian_motion") or "numbers" not in row:
            continue
        model = GYM_MODELS[row["name"]]
        data = arrays_of(suite.folder / "internal" / "datasets" / f"{model.data}.py")
        known = model.arguments(data)
        path = np.asarray(known[0], float)
        if len(known) == 2:
            exact, scales = known_scales(path, WALK_STEP, known[1]), []
        else:
            exact = unknown_scales(path)
            scales = ["innovation_noise_scale", "observation_noise_scale"]
        states = "locs" if scales else "x"
        names = [*scales, *(f"{states}[{i + 1}]" for i in range(path.size))]
        truth = {f"mean of {name}": x for name, x in zip(names, exact.mean, strict=True)}
        truth |= {f"sd of {name}": x for name, x in zip(names, exact.sd, strict=True)}
        yield from _beside_truth(row, truth, [name for name in truth if "scale" in name])


def _beside_truth(
    row: Mapping[str, Any], truth: Mapping[str, float], shown: Sequence[str]
) -> Iterator[Row]:
    """One line per chosen number, and one for the largest z of all others."""
    numbers = {each["quantity"]: each for each in row["numbers"]}
    z = {
        whose: {
            name: abs(each[whose] - truth[name]) / each[f"{whose}_error"]
            for name, each in numbers.items()
        }
        for whose in ("published", "ours")
    }
    for name in shown:
        yield {
            "posterior": row["name"],
            "quantity": name,
            "exact": truth[name],
            "published": _number(numbers[name], "published"),
            "ours": _number(numbers[name], "ours"),
            "z: published": z["published"][name],
            "z: ours": z["ours"][name],
        }
    others = [name for name in numbers if name not in shown]
    yield {
        "posterior": row["name"],
        "quantity": f"largest of {len(others)} means and sds of states",
        "exact": None,
        "published": None,
        "ours": None,
        "z: published": max(z["published"][name] for name in others),
        "z: ours": max(z["ours"][name] for name in others),
    }


def _number(each: Mapping[str, Any], name: str) -> str | None:
    return with_error(each[name], each[f"{name}_error"]) if each else None


TABLES = {
    "references": references,
    "nuts": nuts,
    "moments": moments,
    "exact": exact,
    "without": without,
    "published": published,
    "walks": walks,
}
