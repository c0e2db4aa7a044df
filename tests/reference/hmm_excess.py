r"""What AIDE converges to for a particle filter on an HMM, by enumerating all its traces.

Bootstrap or optimal proposals, multinomial resampling before every step. With an exact gold
standard $p$ and M = 1 the estimator's mean is $\sum_x p(x) \sum_u r(u; x) \log\{p(x)/\xi(u, x)\} +
\sum_{u, x} q(u, x) \log\{\xi(u, x)/p(x)\}$ with $\xi = q(u, x)/r(u; x)$: the true divergence plus
the KL divergences between $r(u; x)$ and $q(u \mid x)$, in both directions.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np


class Truth(NamedTuple):
    """Over all paths: p(x | y) and q(x), the true divergence and both meta-inference terms."""

    posterior: np.ndarray
    output: np.ndarray
    divergence: float
    gold_term: float
    target_term: float


def enumerate_truth(model: Any, optimal: bool, num: int) -> Truth:
    """Enumerate K^(PT) states, P^(P(T-1)) ancestors and P outputs."""
    initial, transition = np.asarray(model.initial), np.asarray(model.transition)
    seen = np.asarray(model.emission)[:, np.asarray(model.observations)].T  # [T, K]
    size, length = len(initial), len(seen)
    # Row "size" of `before` is the time before the first step.
    before = np.vstack([transition, initial])
    joint = before[None] * seen[:, None, :]  # [T, K + 1, K]
    weigh = joint.sum(axis=2, keepdims=True) * np.ones(size) if optimal else joint / before
    propose = joint / weigh

    vectors = np.array(list(itertools.product(range(size), repeat=num)))
    choices = np.array(list(itertools.product(range(num), repeat=num)))
    sizes = [len(vectors)] + [len(choices), len(vectors)] * (length - 1)
    index = np.indices(sizes).reshape(len(sizes), -1)
    x = np.stack([vectors[i] for i in index[::2]])  # [T, N, P]
    a = np.stack([choices[i] for i in index[1::2]]) if length > 1 else np.empty((0, *x[0].shape))
    parents = np.full_like(x, size)
    for t in range(1, length):
        parents[t] = np.take_along_axis(x[t - 1], a[t - 1], axis=1)
    chance = np.stack([propose[t][parents[t], x[t]] for t in range(length)])
    weights = np.stack([weigh[t][parents[t], x[t]] for t in range(length)])
    normalised = weights / weights.sum(axis=2, keepdims=True)
    q_trace = chance.prod(axis=(0, 2))
    for t in range(1, length):
        q_trace = q_trace * np.take_along_axis(normalised[t - 1], a[t - 1], axis=1).prod(axis=1)

    q, r, number = [], [], []
    for k in range(num):
        slot = np.full(len(q_trace), k)
        here = np.arange(len(slot))
        other = np.ones(len(slot)) / num
        code = np.zeros(len(slot), dtype=int)
        for t in reversed(range(length)):
            kept = np.arange(num) == slot[:, None]
            other = other * np.where(kept, 1.0, chance[t]).prod(axis=1)
            code = code + x[t][here, slot] * size ** (length - 1 - t)
            if t > 0:
                drawn = np.take_along_axis(normalised[t - 1], a[t - 1], axis=1)
                other = other * np.where(kept, 1.0 / num, drawn).prod(axis=1)
                slot = a[t - 1][here, slot]
        q.append(q_trace * normalised[-1][:, k])
        r.append(other)
        number.append(code)
    q, r, number = np.concatenate(q), np.concatenate(r), np.concatenate(number)

    paths = np.array(list(itertools.product(range(size), repeat=length)))
    before_path = np.column_stack([np.full(len(paths), size), paths[:, :-1]])
    density = np.prod([joint[t][before_path[:, t], paths[:, t]] for t in range(length)], axis=0)
    posterior = density / density.sum()
    output = np.bincount(number, q, minlength=len(paths))
    assert abs(output.sum() - 1) < 1e-10
    np.testing.assert_allclose(np.bincount(number, r, minlength=len(paths)), 1.0, atol=1e-10)
    log_xi = np.log(q) - np.log(r)
    excess = np.log(output)[number] - log_xi
    return Truth(
        posterior,
        output,
        float(np.sum((posterior - output) * np.log(posterior / output))),
        float(np.sum(posterior[number] * r * excess)),
        float(np.sum(-q * excess)),
    )
