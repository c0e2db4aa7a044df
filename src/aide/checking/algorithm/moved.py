r"""Does the sampler follow its density? Outputs hidden among moved copies of themselves.

Let $(u_0, x_0) \sim q$ come from `simulate`. Move $x_0$ by a random step to a hidden place, and
from there by K independent steps of the same kind to $x_1, \dots, x_K$ (a random walk; a stretch
about a centre, with its Jacobian $J_k$); let $u_k \sim r(u; x_k)$ come from `regenerate`. Given the
set of all $(u_k, x_k)$, number $k$ is the output with probability

$$w_k = \frac{\xi(u_k, x_k)\,J_k}{\sum_j \xi(u_j, x_j)\,J_j}, \qquad\text{so that}\qquad
E\Big[\varphi(x_0) - \sum_k w_k\,\varphi(x_k)\Big] = 0$$

for every $\varphi$ and every correct pair, with no knowledge of $q$ or $Z$. For a tractable
algorithm this is the score identity $E[\nabla\varphi + \varphi\,\nabla\log\gamma] = 0$ in finite
steps: it needs no gradient, holds at edges and jumps of the density and on integers, and its terms
are bounded if $\varphi$ is. It sees what law 2 cannot: a density that is consistently wrong, such
as a sign error, a missing Jacobian or a variance in the place of a scale, also where the constant
of the density is unknown.

Given the sets, each term takes one of $K + 1$ values with known chances. Chernoff's bound on their
sum therefore holds at any number of outputs and any tail, if outputs are independent: of a Markov
chain stored as reference draws, use a thinned part.

The law holds within any part of the space as well, if only sets that lie in it count. Real numbers
are judged within three times the range of other outputs, integers within the configurations that
these took, so that no program is asked about values it was not written for (an index beyond its
array, weights that underflow).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from aide.checking.algorithm.copies import Outputs, moved_copies
from aide.checking.algorithm.region import repeated

FITTED = 0.2
"""Share of the outputs that only say where and how wide the others are."""
FEWEST = 50
"""With fewer different outputs nothing is tested."""
NUM_MOVED = 4
"""Copies of every output, K."""


class MovedEvidence(NamedTuple):
    r"""P-value of the hypothesis that all is right, and where it is worst.

    Attributes:
        p_value: Over all moves and functions together.
        worst: The function and the move.
        num: Outputs tested; 0 (with p-value 1) means that there were too few different ones.
        seen: Mean of $\varphi$ at these outputs.
        expected: What $\xi$ says about it, given the sets.
    """

    p_value: float
    worst: str
    num: int
    seen: float = 0.0
    expected: float = 0.0


def moved_evidence(
    seed: int,
    outputs: Outputs,
    own: Float[np.ndarray, " n"],
    score: Callable[[Int[np.ndarray, " m"], Outputs], Float[np.ndarray, " m"]],
    is_integer: Bool[np.ndarray, " d"] | None = None,
    is_fixed: Bool[np.ndarray, " d"] | None = None,
    num_moved: int = NUM_MOVED,
) -> MovedEvidence:
    r"""Test the law on outputs of one algorithm; see the module.

    Args:
        seed: For the moves; must not depend on the outputs.
        outputs: One row of numbers per run. Runs are independent; an output with real numbers that
            occurs again (drawn from a finite list) counts once.
        own: $\log\xi$ from `simulate`.
        score: `score(rows, copies)`: $\log\xi$ of `regenerate` at copies of outputs number `rows`.
        is_integer: Which numbers are integers; none unless stated.
        is_fixed: Which numbers are left where they are; none unless stated.
        num_moved: Copies of every output, K.
    """
    none = np.zeros(outputs.shape[1], bool)
    is_integer, is_fixed = (none if mask is None else mask for mask in (is_integer, is_fixed))
    is_real, is_integer = ~is_integer & ~is_fixed, is_integer & ~is_fixed
    rng = np.random.default_rng(seed)
    rows = np.arange(len(outputs))
    if is_real.any():
        rows = np.sort(np.unique(outputs, axis=0, return_index=True)[1])
        rows = rows[~repeated(outputs[rows][:, is_real])]  # an atom has no density
    if rows.size < FEWEST:
        return MovedEvidence(1.0, "", 0)
    num_fitted = int(np.ceil(FITTED * rows.size))
    fitted, rows = outputs[rows[:num_fitted]], rows[num_fitted:]
    found = []
    for move in moved_copies(rng, fitted, outputs[rows], is_real, is_integer, num_moved):
        chosen = rows[move.counts]
        if chosen.size < FEWEST:
            continue
        copies, functions = move.copies[move.counts], move.functions[move.counts]
        log_xi = score(np.repeat(chosen, num_moved), copies.reshape(-1, outputs.shape[1]))
        log_weights = log_xi.reshape(-1, num_moved) + move.log_jacobian[move.counts]
        log_weights = np.column_stack([own[chosen], log_weights])
        height = np.tanh(log_weights - log_weights.max(axis=1, keepdims=True) + 1.0)
        named = zip((*move.names, "density"), (*np.moveaxis(functions, -1, 0), height), strict=True)
        for name, values in named:
            p_value, expected = hidden_p_value(values, log_weights)
            seen = float(values[:, 0].mean())
            where = f"{name} (moved by {move.name})"
            found.append(MovedEvidence(p_value, where, chosen.size, seen, expected))
    if not found:
        return MovedEvidence(1.0, "", 0)
    worst = min(found)
    return worst._replace(p_value=min(1.0, len(found) * worst.p_value))


def hidden_p_value(
    values: Float[np.ndarray, "n K1"], log_weights: Float[np.ndarray, "n K1"]
) -> tuple[float, float]:
    r"""Two-sided bound on the chance of a sum $\sum_n \varphi_{n0} - \bar\varphi_n$ so far from 0.

    And the mean of $\bar\varphi_n$.

    Given row $n$ as a set, $\varphi_{n0}$ is $\varphi_{nk}$ with probability $w_{nk}$, and
    $P(S \ge s) \le \inf_\lambda E[e^{\lambda S}]\,e^{-\lambda s}$.
    """
    from scipy import optimize, special

    log_weights = special.log_softmax(log_weights, axis=1)
    weights = np.exp(log_weights)
    means = (weights * values).sum(axis=1, keepdims=True)
    values, expected = values - means, float(means.mean())
    total = float(values[:, 0].sum())
    variance = float((weights * values**2).sum())
    if variance == 0.0 or total == 0.0:
        return 1.0, expected
    values = values * np.sign(total)

    def log_bound(tilt: float) -> float:
        each = special.logsumexp(log_weights + tilt * values, axis=1)
        return float(each.sum() - tilt * abs(total))

    most = max(50.0, 4 * abs(total) / variance)
    best = optimize.minimize_scalar(log_bound, bounds=(0.0, most), method="bounded")
    return min(1.0, 2 * float(np.exp(min(best.fun, 0.0)))), expected
