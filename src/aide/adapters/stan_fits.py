r"""Approximate fits of CmdStan from their CSV files: Pathfinder, Laplace and ADVI.

Each is a Gaussian on the unconstrained scale, of which the file has draws with their log density.
This is a quadratic function of the draw, so that enough draws determine it: the Gaussian is
recovered by least squares, exactly up to the digits of the file, and residuals tell whether the
draws are those of one Gaussian.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from aide._core.keywords import keywords
from aide.adapters.gaussian import Gaussian

LOG_Q = ("lp_approx__", "log_q__", "log_g__")
"""Columns of the log density of the approximation: of Pathfinder, Laplace and ADVI."""
LOG_P = ("log_p__", "lp__")
"""Columns of the model's log density; ADVI fills `lp__` with zeros."""
PATH = "path__"
"""Column of the number of the path, in files of Pathfinder with several paths."""
SPARE_DRAWS = 20
"""Different draws beyond the number of coefficients, which test whether one Gaussian fits."""
LARGEST_RESIDUAL = 0.02
"""Nats by which the recovered log density may differ from the file's at any draw: digits."""
NEAREST = (
    "What works: aide.compare_draws(gold_rows, post.flatten(fit.draws)), a lower limit from draws"
)


@dataclass(frozen=True)
class StanFit:
    r"""Draws of an approximate fit of CmdStan, with log densities on the unconstrained scale.

    Attributes:
        method: CmdStan's method: `pathfinder`, `laplace` or `variational`.
        is_diagonal: Whether the Gaussian is a product of independent ones (mean-field ADVI).
        draws: Draws by name, on the scale of the model; the leading axis numbers them.
        log_p: The log density of the model at the draws, $\log p$ up to a constant, if the file
            has it.
        log_q: The log density of the approximation at the draws, up to a constant, if the file has
            it.
        num_paths: Number of Pathfinder's paths among the draws.

    Example:
        >>> parts = {"method": "laplace", "is_diagonal": False, "draws": {"mu": np.zeros(3)}}
        >>> fit = aide.stan.StanFit(**parts, log_p=np.zeros(3), log_q=np.zeros(3))
        >>> fit.num_paths
        1
    """

    method: str
    is_diagonal: bool
    draws: Mapping[str, np.ndarray]
    log_p: np.ndarray | None
    log_q: np.ndarray | None
    num_paths: int = 1


@keywords("aide.stan.read_csv")
def read_csv(path: str | PathLike[str]) -> StanFit:
    r"""Read the CSV file of CmdStan's methods `pathfinder`, `laplace` or `variational`.

    Args:
        path: The file. The first row of `variational` is the mean of the fit, and is left out.

    Returns:
        Draws by name, with the log densities of the model and of the approximation.

    After `CmdStanModel.pathfinder(..., num_paths=1)`, a target is
    `post.guide(aide.stan.read_csv("schools-pathfinder.csv"))`.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "pathfinder.csv"
        >>> lines = "lp_approx__,lp__,mu", "-0.9,-1.4,0.5", "-1.1,-1.3,0.7"
        >>> _ = path.write_text("\n".join(["# method = pathfinder", *lines]))  # as CmdStan does
        >>> aide.stan.read_csv(path).draws["mu"]
        array([0.5, 0.7])
    """
    comments, lines = [], []
    for line in Path(path).read_text().splitlines():
        (comments if line.startswith("#") else lines).append(line.strip("# \t"))
    lines = [line for line in lines if line]
    method = _setting(comments, "method")
    if len(lines) < 2:
        raise ValueError(f"{path} has no draws: it must be a CSV file that CmdStan wrote.")
    names = lines[0].split(",")
    table = np.array([[float(cell) for cell in line.split(",")] for line in lines[1:]])
    if method == "variational":
        table = table[1:]
    columns = dict(zip(names, table.T, strict=True))
    places = places_of([name for name in names if not name.endswith("__")])
    values = table[:, [not name.endswith("__") for name in names]]
    log_p, log_q = (
        next((columns[name] for name in known if name in columns), None) for known in (LOG_P, LOG_Q)
    )
    paths = columns.get(PATH)
    return StanFit(
        method or "unknown method",
        _setting(comments, "algorithm") == "meanfield",
        {name: values[:, place] for name, place in places.items()},
        log_p,
        log_q,
        1 if paths is None else np.unique(paths).size,
    )


def _setting(comments: list[str], name: str) -> str:
    """The value of a setting among a file's comments, such as `method = laplace (Default)`."""
    found = (line.partition("=") for line in comments)
    values = [value.split()[0] for key, _, value in found if key.strip() == name and value.split()]
    return values[0] if values else ""


def gaussian_of(fit: StanFit, rows: np.ndarray) -> Gaussian:
    """The Gaussian of a fit, recovered from its unconstrained draws and their log densities.

    Raises:
        ValueError: If the file has no log densities or too few draws, or if these are not draws
            of one Gaussian with these log densities.
    """
    if fit.log_q is None:
        raise ValueError(
            f"the file of {fit.method} has none of the columns {', '.join(LOG_Q)}, so that the "
            f"density of the fit is unknown. {NEAREST}."
        )
    if fit.num_paths > 1:
        raise ValueError(
            f"the file has draws of {fit.num_paths} paths of Pathfinder, resampled by importance: "
            "their density is not known. Run it with num_paths=1 to measure one path tightly. "
            f"{NEAREST}."
        )
    rows, first = np.unique(rows, axis=0, return_index=True)
    log_q, size = fit.log_q[first], rows.shape[1]
    needed = (1 + 2 * size if fit.is_diagonal else (1 + size) * (2 + size) // 2) + SPARE_DRAWS
    if len(rows) < needed:
        raise ValueError(
            f"{needed} different draws determine a Gaussian of {size} numbers, and the file has "
            f"{len(rows)}: raise the number of draws (draws=, num_draws=, output_samples=). "
            f"{NEAREST}."
        )
    gaussian, residual = _least_squares(rows, log_q, fit.is_diagonal)
    if gaussian is None or not residual <= LARGEST_RESIDUAL:
        raise ValueError(
            f"the log densities of the fit are not those of one Gaussian: the best one is "
            f"{residual:.2g} nats off at some draw. Usual causes: several paths of Pathfinder "
            "(num_paths=1 gives one), or a file with few digits (sig_figs=12 writes more). "
            f"{NEAREST}."
        )
    return gaussian


def _least_squares(
    rows: np.ndarray, log_q: np.ndarray, is_diagonal: bool
) -> tuple[Gaussian | None, float]:
    r"""Fit $c + b^T z + z^T A z$ to the log density; $z$ are draws in units of their spread."""
    centre, size = rows.mean(axis=0), rows.shape[1]
    spread = rows.std(axis=0, ddof=1)
    scale = np.diag(spread) if is_diagonal else np.linalg.cholesky(np.cov(rows.T).reshape(size, -1))
    z = np.linalg.solve(scale, (rows - centre).T).T
    first, second = (np.arange(size),) * 2 if is_diagonal else np.triu_indices(size)
    design = np.column_stack([np.ones(len(z)), z, z[:, first] * z[:, second]])
    found = np.linalg.lstsq(design, log_q, rcond=None)[0]
    residual = float(np.abs(design @ found - log_q).max())
    precision = np.zeros((size, size))
    precision[first, second] = -found[1 + size :]
    precision = precision + precision.T
    if np.linalg.eigvalsh(precision).min() <= 0:
        return None, residual
    covariance = np.linalg.inv(precision)
    mean = centre + scale @ covariance @ found[1 : 1 + size]
    return Gaussian(mean, np.linalg.cholesky(scale @ covariance @ scale.T)), residual


def places_of(names: list[str]) -> dict[str, np.ndarray]:
    """Places of each variable's entries among the scalars; `theta.2.1` is theta[1, 0]."""
    entries: dict[str, dict[tuple[int, ...], int]] = {}
    for place, name in enumerate(names):
        base, *indices = name.split(".")
        entries.setdefault(base, {})[tuple(int(index) - 1 for index in indices)] = place
    found = {}
    for base, where in entries.items():
        shape = tuple(1 + max(column) for column in zip(*where, strict=True))
        found[base] = np.zeros(shape, np.int64)
        for index, place in where.items():
            found[base][index] = place
    return found
