"""`sweep_data`: one algorithm on many data sets, and the features that make them hard.

With features of the data sets, the log of the divergence is modelled as a linear function of them.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.keywords import keywords
from aide._core.random import as_key
from aide._core.types import Key
from aide.engine.pilot import TimedGold
from aide.engine.programs.map_runs import Progress
from aide.engine.programs.sharing import Client, as_executor, share_out
from aide.engine.programs.tracing import one_call
from aide.engine.stage import Sizes
from aide.estimation.trust import Trust, common_words, trust_of_algorithm
from aide.reporting.figures import PanelGrid, as_label, few_ticks, plain_ticks
from aide.reporting.grid import Grid
from aide.reporting.numbers import interval, short, with_error
from aide.reporting.result import Result
from aide.tuning.point import Point, particles_of, point_of
from aide.tuning.sweep import MOST_LINES

SPARE = 3
"""Least excess of the number of data sets over that of coefficients, for a model to be fitted."""


class Hardness(NamedTuple):
    r"""$\log D \approx a + \sum_j b_j z_j$, with features $z_j$ centred and scaled.

    Attributes:
        names: Names of the features.
        means: Means of the features, which are subtracted.
        stds: Standard deviations, by which the features are divided.
        intercept: $a$.
        coefficients: $b_j$: the change of $\log D$ per standard deviation of a feature.
        std_errors: Standard errors of the coefficients.
        error: Root mean square error of $\log D$ at data sets left out of the fit.
        baseline: Root mean square error of the mean of $\log D$ at data sets left out.
    """

    names: tuple[str, ...]
    means: np.ndarray
    stds: np.ndarray
    intercept: float
    coefficients: np.ndarray
    std_errors: np.ndarray
    error: float
    baseline: float

    @property
    def explained(self) -> float:
        """Share of the variance of log D predicted at data left out; below 0 the mean is better."""
        return 1.0 - (self.error / self.baseline) ** 2 if self.baseline > 0 else 0.0

    def predict(self, features: Mapping[str, float]) -> float:
        """The divergence predicted for other data."""
        values = np.array([features[name] for name in self.names], float)
        return float(
            np.exp(self.intercept + self.coefficients @ ((values - self.means) / self.stds))
        )

    @property
    def words(self) -> str:
        """Which features matter, and how well data sets left out of the fit are predicted."""
        if self.explained <= 0.05:
            return (
                "These features do not predict the divergence: a data set that is left out is "
                f"predicted no better than by the mean (error of log D {self.error:.2g} against "
                f"{self.baseline:.2g})."
            )
        order = np.argsort(-np.abs(self.coefficients))
        parts = [
            f"{self.names[j]} (× {np.exp(self.coefficients[j]):.2g} per standard deviation)"
            for j in order
            if abs(self.coefficients[j]) > 2 * self.std_errors[j]
        ]
        return (
            f"The divergence changes with {', '.join(parts) or 'no single feature'}. For a data "
            f"set that is left out it is predicted to within a factor of {np.exp(self.error):.2g}; "
            f"by the mean alone, to within {np.exp(self.baseline):.2g}."
        )


def fit_hardness(
    divergences: Sequence[float], features: Sequence[Mapping[str, Any]]
) -> Hardness | None:
    r"""Least squares; errors at data left out are $e_i/(1 - h_{ii})$ with leverages $h_{ii}$.

    `None` with too few data sets. Divergences must be positive.
    """
    names = tuple(features[0]) if features else ()
    num = len(divergences)
    if not names or num < len(names) + 1 + SPARE:
        return None
    table = np.array([[float(one[name]) for name in names] for one in features])
    means, stds = table.mean(axis=0), table.std(axis=0, ddof=1)
    stds = np.where(stds > 0, stds, 1.0)
    design = np.column_stack([np.ones(num), (table - means) / stds])
    y = np.log(np.asarray(divergences, float))
    inverse = np.linalg.pinv(design.T @ design)
    coefficients = inverse @ design.T @ y
    residuals = y - design @ coefficients
    leverages = np.clip(np.einsum("ij,jk,ik->i", design, inverse, design), 0.0, 1 - 1e-9)
    left_out = residuals / (1.0 - leverages)
    variance = float(residuals @ residuals) / (num - design.shape[1])
    errors = np.sqrt(variance * np.diag(inverse))
    alone = (y - y.mean()) * num / (num - 1)
    return Hardness(
        names,
        means,
        stds,
        float(coefficients[0]),
        coefficients[1:],
        errors[1:],
        float(np.sqrt(np.mean(left_out**2))),
        float(np.sqrt(np.mean(alone**2))),
    )


Features = Mapping[str, float]


@dataclass(frozen=True, repr=False, eq=False)
class DataSweep(Result):
    """AIDE of one kind of algorithm on every data set.

    Attributes:
        points: One `Point` per data set; its setting is `{"data": name}`.
        features: Features of every data set; empty if none were given.
        hardness: A model of the log divergence, or `None` without features or with few data sets.
        num_floored: Number of estimates that the model replaces by their larger standard error.
        trusts: The trust in the gold standard of every data set, if known.

    Example:
        >>> exact = lambda y: aide.Tractable.of(Normal(0.5 * y, 0.7))
        >>> fit = lambda y: aide.Tractable.of(Normal(0.4 * y, 0.7))
        >>> data = {"near": jnp.array(0.5), "far": jnp.array(4.0)}
        >>> found = aide.tuning.sweep_data(0, data, exact, fit, num_gold=100, num_target=100)
        >>> [record["data"] for record in found.records()]
        ['near', 'far']
    """

    points: tuple[Point, ...]
    features: tuple[Features, ...]
    hardness: Hardness | None
    num_floored: int
    trusts: tuple[Trust, ...] = ()

    @property
    def head(self) -> tuple[str, ...]:
        """The trust in the gold standards."""
        return common_words(self.trusts)

    @property
    def headline(self) -> str:
        """The range of divergences."""
        values = [point.bound for point in self.points]
        spread = f"{short(min(values), 2)} to {short(max(values), 2)} nats"
        return (
            f"{len(self.points)} data sets: divergence at most {spread}, median "
            f"{np.median(values):.2g}"
        )

    def grid(self) -> Grid | None:
        """One line per data set, the hardest first."""
        if len(self.points) > MOST_LINES:
            return None
        names = tuple(self.features[0]) if self.features else ()
        order = sorted(range(len(self.points)), key=lambda i: -self.points[i].bound)
        lines = tuple(
            (
                str(self.points[i].setting["data"]),
                with_error(self.points[i].bound, self.points[i].bound_std_error),
                interval(self.points[i].low, self.points[i].high),
                *(short(float(self.features[i][name])) for name in names),
            )
            for i in order
        )
        titles = ("data", "divergence ≤ (nats)", "95% limits", *names)
        return Grid(titles, lines, ("",) * len(lines), frozenset({"data"}))

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per data set, features included."""
        features = self.features or tuple({} for _ in self.points)
        return [
            {**point.record(), **{f"feature_{k}": v for k, v in one.items()}}
            for point, one in zip(self.points, features, strict=True)
        ]

    def rows(self) -> list[tuple[str, str]]:
        """The features that make data hard."""
        return [] if self.hardness is None else [("hard data", self.hardness.words)]

    @property
    def notes(self) -> tuple[str, ...]:
        """Limits of the model."""
        if self.features and self.hardness is None:
            return ("Too few data sets for a model of the divergence from these features.",)
        if self.num_floored:
            return (
                f"At {self.num_floored} data sets the estimate is below its standard error; the "
                "model uses the standard error instead. More runs would tell them apart.",
            )
        return ()

    def numbers(self) -> dict[str, Any]:
        """The coefficients and errors of the model."""
        found = self.hardness
        if found is None:
            return {"num_data": len(self.points)}
        return {
            "num_data": len(self.points),
            "intercept": found.intercept,
            "coefficients": dict(zip(found.names, found.coefficients.tolist(), strict=True)),
            "error": found.error,
            "baseline": found.baseline,
            "explained": found.explained,
        }

    def layout(self) -> PanelGrid:
        """One panel per feature."""
        num = max(len(self.features[0]) if self.features else 1, 1)
        return PanelGrid(1, num, (min(3.4 * num + 1.2, 12.0), 3.4), {"squeeze": False})

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot the bound against every feature."""
        names = list(self.features[0]) if self.features else ["data set"]
        values = [point.bound for point in self.points]
        errors = [point.bound_std_error for point in self.points]
        for panel, name in zip(panels, names, strict=False):
            x = [float(f[name]) for f in self.features] or list(range(1, len(values) + 1))
            panel.errorbar(x, values, errors, fmt="o", ms=3, color="#1f6fb4", lw=1)
            if min(values) > 0:
                panel.set_yscale("log")
                plain_ticks(panel.yaxis)
            few_ticks(panel.xaxis)
            panel.set(xlabel=as_label(name), ylabel="bound on the divergence (nats)")


@keywords("aide.tuning.sweep_data")
@one_call()
def sweep_data(
    key: Key | int,
    data: Mapping[str, Any] | Sequence[Any],
    gold: Callable[[Any], InferenceAlgorithm],
    target: Callable[[Any], InferenceAlgorithm],
    *,
    features: Callable[[Any], Features] | None = None,
    num_gold: int = 200,
    num_target: int = 200,
    num_meta_gold: int = 1,
    num_meta_target: int = 1,
    progress: bool | None = None,
    measure_looseness: bool = True,
    chunk_size: int | None = None,
    executor: Executor | Client | None = None,
) -> DataSweep:
    """AIDE on every data set, and which features of the data make them hard.

    Data sets of one shape share compiled programs if they are arrays inside the algorithms.

    Args:
        key: A JAX key, or an integer seed.
        data: Data sets, as a mapping by name or as a sequence.
        gold: Maps a data set to its gold standard.
        target: Maps a data set to the algorithm that is measured.
        features: Maps a data set to numbers by name, for a model of the log divergence, whose error
            is measured at data sets left out of its fit.
        num_gold: Runs of every gold standard.
        num_target: Runs of every target.
        num_meta_gold: Meta-inference runs of the gold standards per output.
        num_meta_target: Meta-inference runs of the targets per output.
        progress: Show a progress bar; by default in long runs at a terminal.
        measure_looseness: See `aide.draw`.
        chunk_size: See `aide.draw`.
        executor: Measures data sets elsewhere, one per worker at a time, with the functions `gold`
            and `target`; see `aide.draw`.

    Returns:
        The bound for every data set, and a model of what makes data sets hard.

    Example:
        >>> exact = lambda y: aide.Tractable.of(Normal(0.5 * y, 0.7))
        >>> fit = lambda y: aide.Tractable.of(Normal(0.4 * y, 0.7))
        >>> data = {"near": jnp.array(0.5), "far": jnp.array(4.0)}
        >>> found = aide.tuning.sweep_data(0, data, exact, fit, num_gold=100, num_target=100)
        >>> found.points[0].bound < found.points[1].bound
        True
    """
    named = dict(data) if isinstance(data, Mapping) else {str(i): d for i, d in enumerate(data)}
    if not named:
        raise ValueError("data must hold at least one data set, got none.")
    sizes: Sizes = {
        "num_gold": num_gold,
        "num_target": num_target,
        "num_meta_gold": num_meta_gold,
        "num_meta_target": num_meta_target,
        "measure_looseness": measure_looseness,
        "chunk_size": chunk_size,
    }
    points, trusts = list[Point](), list[Trust]()
    described = [] if features is None else [dict(features(one)) for one in named.values()]
    tasks = (
        (jax.random.fold_in(as_key(key), index), name, one, gold, target, sizes)
        for index, (name, one) in enumerate(named.items())
    )
    with Progress(["data sets"], [len(named)], progress) as bar:

        def take(_: int, found: tuple[Point, Trust]) -> None:
            points.append(found[0])
            trusts.append(found[1])
            bar.reporter(0)(1)

        parts = {"gold": gold, "target": target}
        share_out(as_executor(executor), _measure_data_set, tasks, take, parts=parts)
    return replace(_modelled(points, described), trusts=tuple(trusts))


def _measure_data_set(
    key: Key,
    name: str,
    data: Any,
    gold: Callable[[Any], InferenceAlgorithm],
    target: Callable[[Any], InferenceAlgorithm],
    sizes: Sizes,
) -> tuple[Point, Trust]:
    """Measure one data set, here or in a worker; also return the trust in its gold standard."""
    with one_call():
        made, algorithm = gold(data), target(data)
        trust = trust_of_algorithm(made)
        found = TimedGold(key, made).measure(algorithm, sizes)
    return point_of({"data": name}, particles_of(algorithm), found), trust


def _modelled(points: list[Point], features: list[dict[str, float]]) -> DataSweep:
    finite = [i for i, p in enumerate(points) if np.isfinite(p.value) and p.std_error > 0]
    floored = [max(points[i].value, points[i].std_error) for i in finite]
    model = fit_hardness(floored, [features[i] for i in finite]) if features else None
    num = sum(points[i].value < points[i].std_error for i in finite)
    return DataSweep(tuple(points), tuple(features), model, num)
