"""Linear regression (Figure 2): the true divergence of the MH chain, on a grid."""

import numpy as np

from aide.problems.linear_regression import LinearRegression


def true_mh_divergence(
    model: LinearRegression, steps: list[int], num_nodes: int = 800, half_width: float = 6.0
) -> np.ndarray:
    r"""The true divergence of the MH chain from the posterior after each number of steps.

    The chain starts from its own proposal, the prior, so its density stays $p(x) f_t(L(x))$ with
    $f_{t+1}(x) = \int p(y) f_t(y) \min\{1, L(x)/L(y)\}\,dy + f_t(x) r(x)$ and $r(x)$ the chance of
    a rejection. On a grid of nodes sorted by likelihood every integral is a cumulative sum.
    """
    axis = np.linspace(-half_width, half_width, num_nodes)
    nodes = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2) * model.prior_std
    prior = np.exp(-0.5 * np.sum((nodes / model.prior_std) ** 2, axis=1))
    prior /= prior.sum()
    errors = np.asarray(model.y) - (nodes[:, :1] + nodes[:, 1:] * np.asarray(model.x))
    log_l = -0.5 * np.sum((errors / model.noise_std) ** 2, axis=1)
    order = np.argsort(log_l)
    prior, log_l = prior[order], log_l[order]
    likelihood = np.exp(log_l - log_l[-1])
    posterior_ratio = likelihood / np.sum(prior * likelihood)
    # sum_y p(y) min(1, L(y)/L(x)): nodes below x contribute L(y)/L(x), the others 1.
    below = np.cumsum(prior * likelihood)
    accept = below / likelihood + (1.0 - np.cumsum(prior))
    reject, f, wanted, result = 1.0 - accept, np.ones_like(prior), set(steps), {}
    for t in range(max(steps) + 1):
        if t in wanted:
            log_ratio = np.log(f) - np.log(posterior_ratio)
            result[t] = float(np.sum(prior * (f - posterior_ratio) * log_ratio))
        flow = prior * f
        above = np.cumsum((flow / likelihood)[::-1])[::-1]
        f = np.cumsum(flow) + likelihood * (above - flow / likelihood) + f * reject
    return np.array([result[t] for t in steps])
