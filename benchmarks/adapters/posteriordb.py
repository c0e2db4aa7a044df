"""Five posteriors of posteriordb in NumPyro: do its draws fit, and how good are usual fits?

    python benchmarks/run.py adapters/posteriordb --folder FOLDER
    python benchmarks/run.py adapters/posteriordb --folder FOLDER --only fits --posterior arK
    python benchmarks/run.py adapters/posteriordb --folder FOLDER --only fits --reference-only

`score`: the reference draws against the gradient of the log joint, and the same with a fault in the
log joint. `fits`: Laplace, mean field, full rank and Pathfinder against the reference draws and
against `gold_standard`; seconds include compilation.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import optax
from numpyro.infer import SVI, Trace_ELBO, autoguide, init_to_value
from scipy.optimize import minimize

import aide
from aide.scorecard.models import Model
from benchmarks.posteriors import DEPENDENT, POSTERIORS
from benchmarks.table import Row

KEY = jax.random.key(13)
KINDS: dict[str, Any] = {
    "Laplace": autoguide.AutoLaplaceApproximation,
    "mean field": autoguide.AutoNormal,
    "full rank": autoguide.AutoMultivariateNormal,
    "Pathfinder": None,
}
"""The fits, by the guide of NumPyro; BlackJAX has the last one."""


def build(folder: str, name: str, posterior: Model) -> tuple[Any, dict[str, np.ndarray]]:
    """The posterior and the reference draws of its variables."""
    entry = aide.posteriordb.load(folder, name)
    post = aide.numpyro.posterior(posterior.model, *posterior.arguments(entry.data))
    return post, dict(posterior.draws(entry.draws, entry.data))


def score(folder: str = "posteriordb") -> Iterator[Row]:
    """Reference draws and log joint belong together; with a fault they do not."""
    cases = [*POSTERIORS.items(), ("garch-garch11", DEPENDENT)]
    for name, case in cases:
        begin = time.perf_counter()
        post, draws = build(folder, name, case)
        gold = post.from_draws(draws, check_score=False)
        found = gold.score_check()
        seconds = time.perf_counter() - begin
        log_joints: dict[str, Callable[[Any], Any]] = {
            "sign": lambda x, post=post: -post.log_joint(x),
            "Jacobian": lambda x, post=post: post.log_joint(x) - post.log_jacobian(x),
            "order": lambda x, post=post: post.log_joint(jnp.roll(x, 1)),
        }
        wrong = {
            fault: aide.ReferenceDraws(gold.draws, log_joint, has_chains=True).score_check().p_value
            for fault, log_joint in log_joints.items()
        }
        yield {
            "posterior": f"{name} ({case.model.__name__})",
            "d": post.dimension,
            "ESS": round(gold.effective_size),
            "R-hat": f"{gold.rhat:.4f}",
            "tests": len(found.tests),
            "smallest p": f"{min(test.p_value for test in found.tests):.2g}",
            "p": f"{found.p_value:.2g}",
            "seconds": f"{seconds:.1f}",
            **{f"p, wrong {fault}": f"{p:.1g}" for fault, p in wrong.items()},
        }


def peak(post: Any) -> np.ndarray:
    """The mode on the unconstrained scale, from zero."""
    with jax.enable_x64(True):
        downhill = jax.jit(jax.value_and_grad(lambda x: -post.log_joint(x)))

        def value(x: np.ndarray) -> tuple[float, np.ndarray]:
            height, slope = downhill(jnp.asarray(x))
            return float(height), np.asarray(slope)

        best = [minimize(value, start, jac=True, method="BFGS") for start in starts(post)]
    return min(best, key=lambda found: found.fun).x


def starts(post: Any) -> list[np.ndarray]:
    """Zero and a few points around."""
    rng = np.random.default_rng(0)
    return [np.zeros(post.dimension), *rng.uniform(-1, 1, (4, post.dimension))]


def fit(post: Any, kind: type, values: dict[str, Any], num_steps: int, label: str) -> Any:
    """A guide, trained from the mode."""
    guide = kind(post.model, init_loc_fn=init_to_value(values=values))
    steps = 1 if kind is autoguide.AutoLaplaceApproximation else num_steps
    rate: Any = 1e-9 if steps == 1 else optax.exponential_decay(0.03, num_steps, 0.005)
    svi = SVI(post.model, guide, optax.adam(rate), Trace_ELBO(num_particles=8))
    found = svi.run(KEY, steps, *post.args, progress_bar=False)
    return post.guide(guide, found, label)


def pathfinder(post: Any, start: np.ndarray) -> Any:
    """BlackJAX's, from near the mode."""
    with jax.enable_x64(True):
        state, _ = jax.jit(
            lambda key, x: blackjax.pathfinder.approximate(key, post.log_joint, x, 1000)
        )(KEY, jnp.asarray(start))
    return aide.blackjax.approximation(state, "Pathfinder")


class Measured(NamedTuple):
    """AIDE of one fit against one gold standard."""

    value: float
    std_error: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.std_error:.3f}"


def agreement(drawn: Measured, made: Measured, looseness: tuple[float, float]) -> Row:
    """Whether two gold standards say the same.

    One that is made adds its looseness, which was measured beside it, to every bound: the
    difference lies between 0 and that looseness, within three standard errors.
    """
    gap, error = made.value - drawn.value, float(np.hypot(made.std_error, drawn.std_error))
    most = looseness[0] + 3 * float(np.hypot(error, looseness[1]))
    return {
        "difference": f"{gap:+.3f} ± {error:.3f}",
        "agree within error": "yes" if -3 * error <= gap <= most else "no",
    }


def fits(
    folder: str = "posteriordb",
    posterior: str = "",
    num_steps: int = 20_000,
    num_runs: int = 2_000,
    num_gold: int = 1_000,
    reference_only: bool = False,
) -> Iterator[Row]:
    """One row per posterior and fit; `posterior` chooses names that contain it."""
    numpyro.enable_x64(True)
    for name, case in POSTERIORS.items():
        if posterior in name:
            post, draws = build(folder, name, case)
            made = None if reference_only else post.gold(KEY)
            if made is not None:
                print(made, flush=True)
            sizes = num_steps, num_runs, num_gold
            yield from fits_of(name.partition("-")[0], post, draws, made, sizes)


def fits_of(
    name: str, post: Any, draws: Any, made: Any, sizes: tuple[int, int, int]
) -> Iterator[Row]:
    """The four fits of one posterior."""
    num_steps, num_runs, num_gold = sizes
    gold, top = post.from_draws(draws), peak(post)
    with jax.enable_x64(True):
        values = dict(post.constrain(jnp.asarray(top)))
    for label, kind in KINDS.items():
        begin = time.perf_counter()
        if kind is None:
            target = pathfinder(post, top + 0.5)
        else:
            target = fit(post, kind, values, num_steps, label)
        seconds_fit = time.perf_counter() - begin
        begin = time.perf_counter()
        found = aide.compare(KEY, gold, {label: target}, num_gold=num_runs, num_target=num_runs)
        record = found.records()[0]
        drawn = Measured(record["value"], record["std_error"], time.perf_counter() - begin)
        row: Row = {
            "posterior": name,
            "fit": label,
            "reference draws": str(drawn),
            "95%": f"{record['low']:.2f} to {record['high']:.2f}",
            "k-hat": "–" if record["k_hat"] is None else f"{record['k_hat']:.2f}",
            "seconds, fit": f"{seconds_fit:.1f}",
            "seconds, measure": f"{drawn.seconds:.1f}",
        }
        if made is not None:
            row |= against_made(made, target, drawn, num_gold)
        yield row


def against_made(made: Any, target: Any, drawn: Measured, num_runs: int) -> Row:
    """The columns of the gold standard that was made."""
    begin = time.perf_counter()
    key = jax.random.fold_in(KEY, 1)
    found = aide.estimate(key, made, target, num_gold=num_runs, num_target=num_runs)
    other = Measured(found.value, found.std_error, time.perf_counter() - begin)
    value, error = made.record.looseness
    return {
        "gold_standard": str(other),
        "its looseness": f"{value:.3f} ± {error:.3f}",
        **agreement(drawn, other, made.record.looseness),
        "seconds, gold_standard": f"{other.seconds:.1f}",
        "seconds, making it": f"{made.record.seconds:.0f}",
    }


TABLES = {"score": score, "fits": fits}
