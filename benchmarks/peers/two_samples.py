"""Two-sample tests to compare with: classifier tests and the maximum mean discrepancy."""

import numpy as np
from scipy import optimize, special, stats
from scipy.spatial.distance import cdist

NUM_PERMUTATIONS = 199
NUM_HIDDEN = 20


def mmd(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    """P-value of the MMD with a Gaussian kernel of median width, by permutations.

    Gretton et al., 2012, JMLR 13:723-773.
    """
    both = np.concatenate([x, y])
    squares = cdist(both, both, "sqeuclidean")
    kernel = np.exp(-squares / np.median(squares[squares > 0]))
    sign = np.repeat([1 / len(x), -1 / len(y)], [len(x), len(y)])
    signs = np.stack([sign, *(rng.permutation(sign) for _ in range(NUM_PERMUTATIONS))])
    found = np.einsum("ij,ij->i", signs @ kernel, signs)
    return float(np.mean(found >= found[0] - 1e-12))


def nearest_neighbours(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    """P-value of a classifier test by the nearest neighbours, as many as the root of all.

    Lopez-Paz & Oquab, 2017, ICLR: half of the draws train, accuracy on the rest is binomial.
    """
    train, label, test, truth = _halves(x, y, rng)
    order = np.argsort(cdist(test, train), axis=1)[:, : int(np.sqrt(len(train))) | 1]
    return _p_value((label[order].mean(axis=1) > 0.5) == truth)


def network(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    """P-value of a classifier test by a network with one hidden layer of 20, lightly penalised."""
    train, label, test, truth = _halves(x, y, rng)
    centre, scale = train.mean(axis=0), train.std(axis=0)
    train, test = (train - centre) / scale, (test - centre) / scale
    size = train.shape[1]
    sign = np.where(label, 1.0, -1.0)

    def unpack(w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        inner = w[: size * NUM_HIDDEN].reshape(size, NUM_HIDDEN)
        return inner, w[inner.size : inner.size + NUM_HIDDEN], w[-NUM_HIDDEN - 1 : -1], w[-1]

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        inner, shift, outer, bias = unpack(w)
        hidden = np.tanh(train @ inner + shift)
        margin = sign * (hidden @ outer + bias)
        slope = -sign * special.expit(-margin) / len(sign)
        back = slope[:, None] * outer * (1 - hidden**2)
        gradient = [(train.T @ back).ravel(), back.sum(0), hidden.T @ slope, [slope.sum()]]
        value = -special.log_expit(margin).mean() + 0.5e-2 * w @ w
        return float(value), np.concatenate(gradient) + 1e-2 * w

    start = rng.normal(size=size * NUM_HIDDEN + 2 * NUM_HIDDEN + 1) / np.sqrt(size)
    fitted = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    inner, shift, outer, bias = unpack(fitted.x)
    return _p_value((np.tanh(test @ inner + shift) @ outer + bias > 0) == truth)


METHODS = {"C2ST, network": network, "C2ST, neighbours": nearest_neighbours, "MMD": mmd}


def _halves(
    x: np.ndarray, y: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    both, label = np.concatenate([x, y]), np.repeat([True, False], [len(x), len(y)])
    order = rng.permutation(len(both))
    first, second = order[: len(both) // 2], order[len(both) // 2 :]
    return both[first], label[first], both[second], label[second]


def _p_value(right: np.ndarray) -> float:
    return float(stats.binomtest(int(right.sum()), right.size, 0.5, "greater").pvalue)
