r"""Simulated data sets: an exact draw, a run, and $\log\xi$ at both; the law that they obey.

$(x, y) \sim p(x, y)$ makes $x$ an exact draw of $p(x \mid y)$ (Grosse, Ancha & Roy 2016).

**Do sampler, density and algorithm belong together?** With the exact draw $x$ and a trace
$u \sim r(u; x)$, and the algorithm's own $(u', x')$, the joint law of both is
$p(x \mid y)\,r(u; x)\,q(u', x')$. Exchanging them multiplies the law by $e^{-D}$, $D$ the data
set's term at M = 1. Hence, with unknown $q$ and $p(y)$:

- given $|D|$, $D < 0$ with probability $1/(1 + e^{|D|})$;
- $E[\{\varphi(x, y) - \varphi(x', y)\}/(1 + e^{D})] = 0$ for every bounded $\varphi$.

Where the algorithm is exact, $D = 0$ and the second law says that $x$ and $x'$ are exchangeable
given $y$ (simulation-based calibration, Talts et al. 2018). This law also rejects a `log_joint` and
an algorithm that agree with each other but not with the sampler, for which $D$ is 0 too.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.algorithm import Draw
from aide._core.numerics import as_log, flat_reals
from aide._core.random import run_key
from aide._core.types import Key, LogProb, Value
from aide._core.validate import check_scalar
from aide.engine.draw import draw
from aide.engine.programs.map_runs import in_double, map_runs
from aide.engine.programs.prepared import NotTraceable
from aide.engine.programs.sharing import as_executor, parts_of, share_out
from aide.engine.runners.choose import is_plain_python

NUM_FUNCTIONS = 12
"""Number of bounded functions of outputs and data whose means are tested."""
MOST_DATA = 20
"""Number of random projections that replace data with more dimensions."""
MIN_DATASETS = 100
"""Least number of data sets for a test of the laws."""


class PlainPython(Exception):
    """Raised if the algorithm for a data set cannot be traced."""


class SimulatedStudy(eqx.Module):
    """A model that can be simulated, and an algorithm for each of its data sets."""

    sample_joint: Callable[[Key], tuple[Value, Any]]
    log_joint: Callable[[Value, Any], Any]
    algorithm_for: Callable[[Any], Any]
    num_meta: int = eqx.field(static=True)


class Pieces(NamedTuple):
    r"""All numbers of a data set that the result needs: JAX's inside a run, NumPy's outside.

    Attributes:
        exact_log_joint: $\log p(x, y)$ at the exact draw.
        exact_log_xi: $\log\xi$ of M fresh traces at the exact draw.
        own_log_joint: $\log p(x', y)$ at the algorithm's output.
        own_log_xi: $\log\xi$ at the algorithm's output: of its own trace, then of M fresh ones.
        exact_value: $x$ as a row of numbers.
        own_value: $x'$ as a row of numbers.
        data: $y$ as a row of numbers.
    """

    exact_log_joint: Any
    exact_log_xi: Any
    own_log_joint: Any
    own_log_xi: Any
    exact_value: Any
    own_value: Any
    data: Any


def run_study(study: SimulatedStudy, key: Key, num: int) -> tuple[Pieces, str]:
    """Run all data sets, compiled once if they can be traced, otherwise one by one.

    Also return the reason why they were run one by one, or an empty string.
    """
    rows = (np.arange(num, dtype=np.uint32),)
    try:
        return map_runs(one_data_set, study, key, rows, what="the study"), ""
    except NotTraceable as error:
        why_slow = error.reason
    except PlainPython as error:
        why_slow = str(error)
    found = list[list[Pieces]]()
    parts = parts_of(num, 1)
    share_out(
        as_executor(None),
        _some_data_sets,
        [(study, key, *part) for part in parts],
        lambda _, piece: found.append(piece),
        parts={"the study": study},
    )
    columns = zip(*(piece for part in found for piece in part), strict=True)
    return Pieces(*(np.array(column) for column in columns)), why_slow


def first_data_set(study: SimulatedStudy, key: Key) -> tuple[Value, Any]:
    """The exact draw and the data of the first data set, computed outside of compiled code."""
    return first_pair(study.sample_joint, key)


def first_pair(sample_joint: Callable[[Key], tuple[Value, Any]], key: Key) -> tuple[Value, Any]:
    """The parameters and the data of the first data set; an error if they are no pair."""
    pair = in_double(sample_joint, run_key(key, 0, 0))
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(f"sample_joint(key) must return (x, y), got {type(pair).__name__}.")
    return pair


def one_data_set(study: SimulatedStudy, stream: Key, run: Any) -> Pieces:
    """The pieces of one data set, traced by JAX."""
    key_joint, key_run, key_exact, key_own = (run_key(stream, run, part) for part in range(4))
    x, y = study.sample_joint(key_joint)
    algorithm = study.algorithm_for(y)
    if is_plain_python(algorithm):
        raise PlainPython("the algorithm is plain Python code")
    own, log_xi = algorithm.simulate(key_run)
    x = _like(own, x)

    def score(key: Key, value: Value) -> LogProb:
        keys = jax.random.split(key, study.num_meta)
        return jax.lax.map(lambda k: as_log(algorithm.regenerate(k, value)), keys)

    return Pieces(
        check_scalar("log_joint", study.log_joint(x, y)),
        score(key_exact, x),
        as_log(study.log_joint(own, y)),
        jnp.concatenate([as_log(log_xi)[None], score(key_own, own)]),
        *map(flat_reals, (x, own, y)),
    )


def _some_data_sets(study: SimulatedStudy, key: Key, begin: int, end: int) -> list[Pieces]:
    """Run some data sets one by one, here or in a worker."""
    return in_double(_one_by_one, study, key, range(begin, end))


def _one_by_one(study: SimulatedStudy, key: Key, runs: Iterable[int]) -> list[Pieces]:
    pieces = []
    for run in runs:
        x, y = study.sample_joint(run_key(key, run, 0))
        x = jax.tree.map(np.asarray, x)
        algorithm = study.algorithm_for(y)
        found = draw(
            run_key(key, run, 1),
            Given(x),
            algorithm,
            num_gold=1,
            num_target=1,
            num_meta_target=study.num_meta,
            keep_values=True,
            progress=False,
        )
        own = jax.tree.map(lambda a: a[0], found.target.values)
        at = [float(check_scalar("log_joint", study.log_joint(value, y))) for value in (x, own)]
        log_xi = (found.gold.cross[0], found.target.own[0])
        flat = (np.asarray(flat_reals(value)) for value in (x, own, y))
        pieces.append(Pieces(at[0], log_xi[0], at[1], log_xi[1], *flat))
    return pieces


class Given(eqx.Module):
    """A given value in the place of a gold standard."""

    value: Value

    def simulate(self, key: Key) -> Draw:
        """Return the value."""
        return Draw(jax.tree.map(jnp.asarray, self.value), jnp.zeros(()))

    def regenerate(self, key: Key, value: Value) -> LogProb:
        """Return 0, since the density is unknown."""
        return jnp.zeros(())


def _like(own: Value, x: Value) -> Value:
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (x, own)]
    if jax.tree.structure(own) != jax.tree.structure(x) or shapes[0] != shapes[1]:
        raise ValueError(
            "sample_joint and the algorithm must give x in the same structure and shape, got "
            f"{shapes[0]} from sample_joint and {shapes[1]} from the algorithm."
        )
    return jax.tree.map(lambda a, like: jnp.asarray(a, jnp.result_type(like)), x, own)


def exchange_p_value(pieces: Pieces) -> float | None:
    """The p-value of both laws together (Bonferroni); `None` with too few data sets.

    Given the two outputs of every data set, but not which of them is exact, the orders are
    independent and their probabilities known: p-values hold at every sample size and every tail
    of $D$ (see `aide._core.exact_tests`).
    """
    from aide.checking.algorithm.laws import swap_evidence

    term = pieces.exact_log_joint - pieces.exact_log_xi[:, 0]
    term = term - (pieces.own_log_joint - pieces.own_log_xi[:, 0])
    if term.size < MIN_DATASETS:
        return None
    finite = -term[np.isfinite(term)]
    signs = swap_evidence(finite, np.empty((finite.size, 0)), "").p_value if finite.size else None
    found = [p for p in (signs, _functions_p_value(pieces, term)) if p is not None]
    return min(1.0, len(found) * min(found))


def _functions_p_value(pieces: Pieces, term: np.ndarray) -> float:
    from scipy import special

    from aide._core.exact_tests import order_p_values

    exact, own = _functions(pieces)
    seen = (exact - own) * special.expit(-term)[:, None]
    other = (own - exact) * special.expit(term)[:, None]
    return min(1.0, order_p_values(term, seen, other).min() * seen.shape[1])


def _functions(pieces: Pieces) -> tuple[np.ndarray, np.ndarray]:
    """Sigmoids of random projections of y, and of the residual of x given y, at both outputs.

    Everything is fitted to both outputs of every data set alike, and so independent of which of
    them is exact.
    """
    from scipy import special

    rng = np.random.default_rng(2016)
    data = _standard(_cut(pieces.data))
    if data.shape[1] > MOST_DATA:
        data = _standard(data @ rng.normal(size=(data.shape[1], MOST_DATA)))
    design = np.tile(np.column_stack([np.ones(len(data)), data]), (2, 1))
    values = np.concatenate([_cut(pieces.exact_value), _cut(pieces.own_value)])
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    both = np.column_stack([_standard(values - fitted), design[:, 1:]])
    size = values.shape[1]
    directions = rng.normal(size=(both.shape[1], NUM_FUNCTIONS))
    directions[size:] *= rng.random(NUM_FUNCTIONS)  # some functions of x alone, some of x and y
    directions[:, ::3] *= (np.arange(both.shape[1]) < size)[:, None]
    shifts = np.linspace(-1.0, 1.0, NUM_FUNCTIONS)
    functions = special.expit(3.0 * (_standard(both @ directions) - shifts))
    return functions[: len(data)], functions[len(data) :]


def _standard(values: np.ndarray) -> np.ndarray:
    spread = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _cut(values: np.ndarray) -> np.ndarray:
    return np.clip(values, -1e100, 1e100)
