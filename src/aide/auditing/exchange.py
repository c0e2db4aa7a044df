r"""Do sampler, density and algorithm belong together? A test on every simulated data set.

With the exact draw $x$ and a trace $u \sim r(u; x)$, and the algorithm's own $(u', x')$, the joint
law of the two is $p(x \mid y)\,r(u; x)\,q(u', x')$. Exchanging them multiplies it by $e^{-D}$,
$D$ the data set's term at M = 1. Hence, with no knowledge of $q$ or of $p(y)$:

- given $|D|$, $D < 0$ with probability $1/(1 + e^{|D|})$;
- $E[\{\varphi(x, y) - \varphi(x', y)\}/(1 + e^{D})] = 0$ for every bounded $\varphi$.

Where the algorithm is exact, $D = 0$ and the second law says that $x$ and $x'$ are exchangeable
given $y$ (simulation-based calibration, Talts et al. 2018). It sees a `log_joint` and an algorithm
that agree with each other but not with the sampler, at which $D$ vanishes too.
"""

import numpy as np

from aide.auditing.simulated.runs import Pieces

NUM_FUNCTIONS = 12
MOST_DATA = 20
"""Projections of the data, where those have more dimensions."""
MIN_DATASETS = 100


def exchange_p_value(pieces: Pieces) -> float | None:
    """Both laws together (Bonferroni); `None` if there are too few data sets to judge.

    Given the two outputs of every data set, but not which of them is exact, the orders are
    independent and their probabilities known: p-values hold at every sample size and every tail
    of $D$ (see `aide.checking.orders`).
    """
    from aide.checking.algorithm.swap import swap_evidence

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

    from aide.checking.orders import order_p_values

    exact, own = _functions(pieces)
    seen = (exact - own) * special.expit(-term)[:, None]
    other = (own - exact) * special.expit(term)[:, None]
    return min(1.0, order_p_values(term, seen, other).min() * seen.shape[1])


def _functions(pieces: Pieces) -> tuple[np.ndarray, np.ndarray]:
    """Sigmoids of random projections of y and of what y does not explain of x, at both outputs.

    Everything is fitted to both outputs of every data set alike, so that it says nothing about
    which is which.
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
    directions[size:] *= rng.random(NUM_FUNCTIONS)  # some look at x alone, some at x and y
    directions[:, ::3] *= (np.arange(both.shape[1]) < size)[:, None]
    shifts = np.linspace(-1.0, 1.0, NUM_FUNCTIONS)
    functions = special.expit(3.0 * (_standard(both @ directions) - shifts))
    return functions[: len(data)], functions[len(data) :]


def _standard(values: np.ndarray) -> np.ndarray:
    spread = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _cut(values: np.ndarray) -> np.ndarray:
    return np.clip(values, -1e100, 1e100)
